"""What the gates are given when the counters of a span do not tell of the same requests."""

import pytest
from diffusion_operator.adapters.prometheus import evidence
from diffusion_operator.adapters.prometheus.absence import nothing_yet
from diffusion_operator.adapters.prometheus.families import Family
from diffusion_operator.adapters.prometheus.samples import Counter, Increase
from diffusion_operator.core.verdict import Proportion


@pytest.mark.parametrize(
    ("asked", "failed", "read"),
    [(8, 2, Proportion(8, 2)), (0, 0, Proportion(0, 0)), (2, 5, Proportion(5, 5))],
    ids=["most are answered", "nobody asks", "most that fail were asked for before the span"],
)
def test_a_failed_request_was_asked_for_whenever_that_was(asked: float, failed: float, read: Proportion) -> None:
    found = [
        Increase(Counter(family, "pod", "canary", "new", le="", length=""), rise)
        for family, rise in ((Family.REQUESTS, asked), (Family.FAILED, failed))
    ]
    errors = evidence.speed(found, revision="new", ar=None, absent=nothing_yet).errors
    assert errors == read
    assert isinstance(errors, Proportion)
    assert errors.fault() is None
