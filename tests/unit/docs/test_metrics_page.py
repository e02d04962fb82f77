"""The reference page of the metrics is what the code says."""

import pytest

from docs.metrics_page import PAGE, Row, of_operator, of_worker, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run: make generate"


@pytest.mark.parametrize("rows", [of_operator(), of_worker()], ids=["operator", "worker"])
def test_every_metric_says_what_it_is(rows: list[Row]) -> None:
    assert rows
    assert all(row.means.endswith(".") for row in rows)


def test_labels_of_workers_are_known_although_triton_is_not_there() -> None:
    requests = next(row for row in of_worker() if row.name == "dlm_requests_total")
    assert (requests.kind, requests.labels) == ("counter", ("model", "revision", "kind", "outcome"))
