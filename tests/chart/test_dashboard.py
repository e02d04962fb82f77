"""The Grafana dashboard is what its generator makes, and shows metrics that there are."""

import json

import pytest

from charts import dashboard
from tests.chart.chart import render
from tests.chart.metric_names import known, named

GRAPHS = {panel.title: panel for row in dashboard.ROWS for panel in row.panels}


def test_the_file_is_what_the_generator_makes():
    assert json.loads(dashboard.TARGET.read_text()) == dashboard.dashboard(), "run: python charts/dashboard.py"


@pytest.mark.parametrize("title", GRAPHS)
def test_a_panel_shows_metrics_that_there_are(title: str):
    for query in GRAPHS[title].queries.values():
        assert named(query)
        assert named(query) <= known()


def test_panels_have_a_place_of_their_own_within_the_page():
    taken: set[tuple[int, int]] = set()
    panels = dashboard.dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_config_map_has_the_dashboard_and_the_label_that_grafana_looks_for():
    (found,) = render({"metrics.dashboard.enabled": True}).of("ConfigMap")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    (name,) = found["data"]
    assert name.endswith(".json")
    assert json.loads(found["data"][name]) == dashboard.dashboard()
