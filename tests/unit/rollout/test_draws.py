"""Sums that are drawn at once are distributed as sums of single draws."""

from random import Random
from statistics import fmean, pvariance

import pytest
from diffusion_operator.core.simulation.draws import binomial, moments, poisson

DRAWS = 3000


@pytest.mark.parametrize("mean", [0.2, 5, 29, 200])
def test_poisson_has_its_mean_as_variance(mean: float) -> None:
    random = Random(1)
    drawn = [poisson(random, mean) for _ in range(DRAWS)]
    assert fmean(drawn) == pytest.approx(mean, rel=0.1)
    assert pvariance(drawn) == pytest.approx(mean, rel=0.15)


@pytest.mark.parametrize(("trials", "p"), [(10, 0.3), (1000, 0.01), (1000, 0.99), (500, 0.5)])
def test_binomial_has_its_mean_and_variance(trials: int, p: float) -> None:
    random = Random(2)
    drawn = [binomial(random, trials, p) for _ in range(DRAWS)]
    assert all(0 <= n <= trials for n in drawn)
    assert fmean(drawn) == pytest.approx(trials * p, rel=0.05)
    assert pvariance(drawn) == pytest.approx(trials * p * (1 - p), rel=0.15)


def test_moments_are_those_of_single_values() -> None:
    random = Random(3)
    drawn = [moments(random, 5, mean=2.0, deviation=0.5) for _ in range(DRAWS)]
    assert fmean(one.mean for one in drawn) == pytest.approx(2.0, rel=0.02)
    assert fmean(one.variance for one in drawn) == pytest.approx(0.25, rel=0.05)
    assert pvariance([one.mean for one in drawn]) == pytest.approx(0.25 / 5, rel=0.1)
    assert all(one.fault() is None for one in drawn)


def test_of_nothing_there_is_nothing() -> None:
    random = Random(4)
    assert (poisson(random, 0), binomial(random, 0, 0.5), binomial(random, 5, 0), binomial(random, 5, 1)) == (
        0,
        0,
        0,
        5,
    )
    assert moments(random, 0, mean=1, deviation=1).count == 0


@pytest.mark.parametrize("p", [5e-324, 1e-300, 1e-17])
def test_what_is_all_but_impossible_does_not_happen(p: float) -> None:
    assert binomial(Random(5), 10_000, p) == 0
