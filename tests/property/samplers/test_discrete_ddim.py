"""The posterior of discrete diffusion, against enumeration of the forward process on a small vocabulary."""

import itertools

import pytest
import torch
from diffusion_worker.samplers.discrete_ddim import Posterior, deterministic_step, draw_from, posterior
from hypothesis import assume, given
from hypothesis import strategies as st

K = 4
levels = st.tuples(st.floats(0, 0.999), st.floats(0.001, 1)).filter(lambda pair: pair[0] < pair[1] - 1e-3)
stochasticities = st.floats(0, 1)
PAIRS = torch.tensor(list(itertools.product(range(K), range(K))))  # every (x_t, x_0)


def posterior_of_all_pairs(alpha_t: float, alpha_s: float, stochasticity: float) -> Posterior:
    """One row per pair of tokens, in float64."""
    as_row = [torch.full((len(PAIRS),), value, dtype=torch.float64) for value in (alpha_t, alpha_s, stochasticity)]
    return posterior(
        PAIRS[:, :1], PAIRS[:, 1:], alpha_t=as_row[0], alpha_s=as_row[1], stochasticity=as_row[2], vocab_size=K
    )


def distributions(alpha_t: float, alpha_s: float, stochasticity: float) -> torch.Tensor:
    """q(x_s | x_t, x_0) as [x_t, x_0, x_s]."""
    weights = posterior_of_all_pairs(alpha_t, alpha_s, stochasticity)
    one_hot = torch.nn.functional.one_hot(PAIRS, K)
    q = weights.stay * one_hot[:, 0] + weights.clean * one_hot[:, 1] + weights.noise / K
    return q.view(K, K, K)


def forward(alpha: float) -> torch.Tensor:
    """q(later | earlier) [earlier, later] when a token survives with probability `alpha`."""
    return alpha * torch.eye(K, dtype=torch.float64) + (1 - alpha) / K


@given(levels, stochasticities)
def test_the_weights_are_probabilities_that_sum_to_one(levels: tuple[float, float], stochasticity: float) -> None:
    weights = posterior_of_all_pairs(*levels, stochasticity)
    for weight in (weights.clean, weights.stay, weights.noise):
        assert (weight >= -1e-12).all()
    assert torch.allclose(weights.clean + weights.stay + weights.noise, torch.ones(1, dtype=torch.float64))


@given(levels)
def test_ddpm_is_the_posterior_of_the_markov_chain(levels: tuple[float, float]) -> None:
    alpha_t, alpha_s = levels
    to_s, on_to_t = forward(alpha_s), forward(alpha_t / alpha_s)
    joint = to_s[:, :, None] * on_to_t[None]  # [x_0, x_s, x_t]: q(x_s | x_0) q(x_t | x_s)
    expected = (joint / joint.sum(dim=1, keepdim=True)).permute(2, 0, 1)
    assume(torch.isfinite(expected).all())
    assert torch.allclose(distributions(alpha_t, alpha_s, 1.0), expected, atol=1e-9)


@given(levels, stochasticities)
def test_every_stochasticity_keeps_the_marginals_of_the_forward_process(
    levels: tuple[float, float], stochasticity: float
) -> None:
    alpha_t, alpha_s = levels
    q = distributions(alpha_t, alpha_s, stochasticity)
    marginal = torch.einsum("ot,tos->os", forward(alpha_t), q)
    assert torch.allclose(marginal, forward(alpha_s), atol=1e-9)


@given(levels, stochasticities, st.lists(st.floats(0.01, 1), min_size=K, max_size=K))
def test_the_models_posterior_sums_to_one(
    levels: tuple[float, float], stochasticity: float, likelihoods: list[float]
) -> None:
    p = torch.tensor(likelihoods, dtype=torch.float64)
    mixed = torch.einsum("o,tos->ts", p / p.sum(), distributions(*levels, stochasticity))
    assert torch.allclose(mixed.sum(dim=-1), torch.ones(K, dtype=torch.float64))


@given(levels)
def test_ddim_draws_no_noise(levels: tuple[float, float]) -> None:
    assert (posterior_of_all_pairs(*levels, 0.0).noise == 0).all()


@given(st.floats(0, 0.99), stochasticities)
def test_the_last_step_takes_the_prediction(alpha_t: float, stochasticity: float) -> None:
    weights = posterior_of_all_pairs(alpha_t, 1.0, stochasticity)
    assert (weights.noise == 0).all()
    assert (weights.stay == 0).all()


def test_a_draw_follows_the_weights() -> None:
    weights = Posterior(*(torch.tensor([[weight]]) for weight in (0.5, 0.3, 0.2)))
    tokens = {"x_t": torch.tensor([[1]]), "x_0": torch.tensor([[2]]), "noise": torch.tensor([[3]])}
    drawn = [draw_from(weights, **tokens, u=torch.tensor([[(i + 0.5) / 10]])).item() for i in range(10)]
    assert drawn == [3] * 2 + [1] * 3 + [2] * 5


def test_a_deterministic_step_keeps_the_noise_of_the_least_certain_positions() -> None:
    x_s = deterministic_step(
        torch.tensor([[1, 1, 1, 1]] * 3),
        torch.tensor([[2, 2, 2, 2]] * 3),
        entropy=torch.tensor([[0.1, 0.9, 0.5, 0.7]] * 3),
        alpha_s=torch.tensor([0.25, 0.5, 1.0]),
    )
    assert x_s.tolist() == [[2, 1, 1, 1], [2, 1, 2, 1], [2, 2, 2, 2]]


@given(st.integers(1, 256), st.integers(1, 64), st.data())
def test_a_deterministic_step_keeps_exactly_its_share_of_noise(length: int, steps: int, data: st.DataObject) -> None:
    left = data.draw(st.integers(0, steps - 1))
    s = torch.tensor([left / steps], dtype=torch.float32)
    x_s = deterministic_step(
        torch.zeros(1, length), torch.ones(1, length), entropy=torch.zeros(1, length), alpha_s=1 - s
    )
    assert int((x_s == 0).sum()) == left * length // steps


@pytest.mark.parametrize("alpha_s", [0.2, 0.6])
def test_rows_do_not_depend_on_each_other(alpha_s: float) -> None:
    torch.manual_seed(0)
    x_t, x_0 = torch.randint(0, K, (2, 3, 8))
    alphas = torch.tensor([0.1, 0.15, 0.0]), torch.tensor([alpha_s, 0.9, 1.0]), torch.tensor([0.0, 0.5, 1.0])
    keys = ("alpha_t", "alpha_s", "stochasticity")
    together = posterior(x_t, x_0, **dict(zip(keys, alphas, strict=True)), vocab_size=K)
    for i in range(3):
        alone = posterior(
            x_t[i : i + 1],
            x_0[i : i + 1],
            **{key: value[i : i + 1] for key, value in zip(keys, alphas, strict=True)},
            vocab_size=K,
        )
        assert torch.equal(alone.noise[0], together.noise[i])
        assert torch.equal(alone.clean[0], together.clean[i])
