"""Whatever is scraped when and by whom, a pod's counter counts once, and for what it rose by between its first and last sample."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from math import inf
from typing import Any

from diffusion_operator.adapters.prometheus import evidence, samples
from diffusion_operator.adapters.prometheus.absence import nothing_yet
from diffusion_operator.adapters.prometheus.families import Family
from diffusion_operator.adapters.prometheus.queries import Asked, Function, Span
from diffusion_operator.core.verdict import Buckets, Moments
from hypothesis import given
from hypothesis import strategies as st

START = datetime(2026, 5, 1, tzinfo=UTC)
SCRAPERS = ({"pod": "a"}, {"pod": "a", "replica": "2"}, {})


@dataclass(frozen=True)
class History:
    """A counter's values, one each second, and which seconds each scraper saw."""

    values: tuple[float, ...]
    seen: tuple[frozenset[int], ...]

    def series(self) -> list[list[tuple[int, float]]]:
        return [[(at, self.values[at]) for at in sorted(one)] for one in self.seen]


@st.composite
def histories(draw: st.DrawFn, *, scrapers: int, restarts: bool) -> History:
    steps = draw(st.lists(st.integers(0, 50), min_size=3, max_size=25))
    values: list[float] = []
    for step in steps:
        anew = restarts and draw(st.integers(0, 9)) == 0
        values.append(step if anew or not values else values[-1] + step)
    seconds = st.frozensets(st.integers(0, len(values) - 1), min_size=1)
    return History(tuple(map(float, values)), tuple(draw(seconds) for _ in range(scrapers)))


def resets(series: list[tuple[int, float]]) -> int:
    return sum(after < before for (_, before), (_, after) in pairwise(series))


def vector(history: History) -> list[Mapping[str, Any]]:
    """As Prometheus answers a window's query: what each target rose by, whoever scraped it, and its resets if any."""
    targets: dict[str, list[list[tuple[int, float]]]] = {}
    for series, extra in zip(history.series(), SCRAPERS, strict=False):
        targets.setdefault(extra.get("pod", ""), []).append(series)
    rows = []
    for pod, scraped in targets.items():
        labels = {"instance": "10.0.0.1:8080", "revision": "new", "arm": "canary"}
        values = [value for series in scraped for _, value in series]
        found = {Function.RISE: max(values) - min(values)}
        if most := max(map(resets, scraped)):
            found[Function.RESETS] = float(most)
        rows += [
            {
                "metric": {
                    **labels,
                    **({"pod": pod} if pod else {}),
                    "asked": str(Asked(Family.REQUESTS, Span.STEP, function)),
                },
                "value": [0, str(value)],
            }
            for function, value in found.items()
        ]
    return rows


def matrix(history: History) -> list[Mapping[str, Any]]:
    """As Prometheus answers the query for raw samples."""
    labels = {"__name__": Family.REQUESTS, "instance": "10.0.0.1:8080", "revision": "new", "arm": "canary", "job": "x"}
    return [
        {
            "metric": {**labels, **extra},
            "values": [[START.timestamp() + at, str(value)] for at, value in series],
        }
        for series, extra in zip(history.series(), SCRAPERS, strict=False)
    ]


def rise(history: History) -> float:
    answer = samples.answered(vector(history))
    increases = answer.increases
    if answer.reset:
        increases = samples.corrected(answer, matrix(history), since={Span.STEP: START})
    (only,) = increases[Span.STEP]
    return only.rise


def true_rise(series: list[tuple[int, float]]) -> float:
    return sum((after - before) if after >= before else after for (_, before), (_, after) in pairwise(series))


@given(histories(scrapers=1, restarts=True))
def test_one_scraper_gives_what_rose_between_its_samples(history: History) -> None:
    assert rise(history) == true_rise(history.series()[0])


@given(histories(scrapers=3, restarts=False))
def test_several_scrapers_give_what_rose_between_the_first_and_the_last_sample_of_all_that_know_the_pod(
    history: History,
) -> None:
    knowing = sorted({sample for series in history.series()[:2] for sample in series})
    assert rise(history) == knowing[-1][1] - knowing[0][1]


@given(histories(scrapers=2, restarts=True))
def test_two_scrapers_never_count_more_than_happened(history: History) -> None:
    every_second = list(enumerate(history.values))
    assert 0 <= rise(history) <= max(true_rise(every_second), max(history.values))


@given(st.lists(st.floats(0, 1e9), max_size=30))
def test_a_counter_never_falls(values: list[float]) -> None:
    assert samples.total_rise(values) >= 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from([(0.25, 0.5, 1.0, inf), (0.5, 1.0, 2.0, inf)]),
            st.lists(st.integers(0, 30), min_size=4, max_size=4),
        ),
        max_size=5,
    )
)
def test_pods_with_other_bounds_make_one_histogram_with_every_value(pods: list[tuple[Any, list[int]]]) -> None:
    increases = [
        samples.Increase(samples.Counter(Family.FIRST_TOKEN, f"pod-{n}", "canary", "new", str(bound), ""), count)
        for n, (bounds, values) in enumerate(pods)
        for bound, count in zip(bounds, accumulate(values), strict=True)
    ]
    found = evidence.histogram(increases)
    assert found.fault() is None
    assert found.count == sum(sum(values) for _, values in pods)
    for n, bound in enumerate(found.bounds):
        expected = sum(sum(v for b, v in zip(bounds, values, strict=True) if b <= bound) for bounds, values in pods)
        assert found.counts[n] == expected


@given(st.lists(st.floats(-5, 5), max_size=40))
def test_pairs_come_back_as_the_moments_of_their_differences(differences: list[float]) -> None:
    sums = {
        Family.PAIRS: float(len(differences)),
        Family.NLL_ABOVE: sum(max(d, 0.0) for d in differences),
        Family.NLL_BELOW: sum(max(-d, 0.0) for d in differences),
        Family.NLL_SQUARED: sum(d * d for d in differences),
    }
    increases = [
        samples.Increase(samples.Counter(family, "pod", "", "new", "", ""), value) for family, value in sums.items()
    ]
    found = evidence.quality(increases, revision="new", absent=nothing_yet, is_scored=True).pairs
    assert isinstance(found, Moments)
    assert found.count == len(differences)
    assert abs(found.total - sum(differences)) < 1e-9
    assert found.fault() is None


def test_without_any_pod_there_is_an_empty_histogram() -> None:
    assert evidence.histogram([]) == Buckets()
