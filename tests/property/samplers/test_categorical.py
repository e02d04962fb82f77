"""What holds for predictions and draws whatever the logits are."""

import pytest
import torch
from diffusion_worker.samplers.categorical import Prediction, draw, nucleus, predict, sample
from diffusion_worker.samplers.randomness import uniforms
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

logits_of_rows = arrays(
    "float32", array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=9), elements=st.floats(-30, 30, width=32)
).map(torch.from_numpy)
wide_logits = arrays("float32", (2, 3, 192), elements=st.floats(-60, 30, width=32)).map(torch.from_numpy)
temperatures = st.floats(1e-3, 3)
masses = st.floats(0.01, 0.999)
numbers = st.floats(0, 1, exclude_max=True, width=32)


def full(logits: torch.Tensor, value: float) -> torch.Tensor:
    """One number for each row."""
    return torch.full((len(logits),), value)


@given(logits_of_rows, temperatures)
def test_a_prediction_is_a_distribution_with_its_entropy(logits: torch.Tensor, temperature: float) -> None:
    prediction = predict(logits.clone(), full(logits, temperature))
    expected = torch.distributions.Categorical(logits=(logits.double() / temperature))
    assert torch.allclose(prediction.probs.sum(dim=-1), torch.ones(logits.shape[:2]), atol=1e-5)
    assert torch.allclose(prediction.probs.double(), expected.probs, atol=1e-4)
    assert torch.allclose(prediction.entropy.double(), expected.entropy(), atol=1e-3)
    assert torch.equal(prediction.argmax, (logits / temperature).argmax(dim=-1))


@given(logits_of_rows, temperatures, temperatures)
def test_a_higher_temperature_is_never_more_certain(logits: torch.Tensor, one: float, other: float) -> None:
    low, high = sorted((one, other))
    cold = predict(logits.clone(), full(logits, low)).entropy
    hot = predict(logits.clone(), full(logits, high)).entropy
    assert (hot >= cold - 1e-3).all()


def test_impossible_tokens_do_not_spoil_the_entropy_but_nan_does() -> None:
    logits = torch.tensor([[[0.0, -torch.inf, 0.0]], [[0.0, torch.nan, 0.0]]])
    entropy = predict(logits, torch.ones(2)).entropy
    assert torch.allclose(entropy[0], torch.tensor(2.0).log())
    assert entropy[1].isnan()


@given(wide_logits, st.floats(0.05, 1))
def test_what_no_draw_can_reach_is_exactly_zero_and_never_denormal(logits: torch.Tensor, temperature: float) -> None:
    probs = predict(logits, full(logits, temperature)).probs
    assert ((probs == 0) | (probs > torch.finfo(torch.float32).tiny)).all()


@given(logits_of_rows, masses)
def test_a_nucleus_is_the_smallest_set_that_reaches_its_mass(logits: torch.Tensor, top_p: float) -> None:
    probs = torch.softmax(logits, dim=-1)
    kept = nucleus(probs, full(logits, top_p)[:, None])
    assert ((kept == 0) | (kept == probs)).all()
    assert (kept.sum(dim=-1) >= min(top_p, 1) - 1e-5).all()
    least = torch.where(kept > 0, kept, 2.0).amin(dim=-1)
    assert (kept.sum(dim=-1) - least < top_p + 1e-5).all()
    assert (kept.amax(dim=-1) == probs.amax(dim=-1)).all()


@given(st.one_of(logits_of_rows, wide_logits), numbers, masses)
def test_only_possible_tokens_are_drawn(logits: torch.Tensor, u: float, top_p: float) -> None:
    probs = nucleus(torch.softmax(logits, dim=-1), full(logits, top_p)[:, None])
    tokens = draw(probs, torch.full(logits.shape[:2], u))
    assert (probs.gather(-1, tokens[..., None]) > 0).all()


@pytest.mark.parametrize("u", [0.0, 1 - 2**-24])
def test_the_ends_of_the_unit_interval_draw_the_first_and_the_last_possible_token(u: float) -> None:
    probs = torch.zeros(1, 1, 256)
    probs[..., 70:190] = torch.rand(120, generator=torch.Generator().manual_seed(0)) + 0.1
    assert draw(probs, torch.tensor([[u]])).item() == (70 if u == 0 else 189)


def test_draws_follow_the_distribution() -> None:
    probs = torch.tensor([0.5, 0.0, 0.3, 0.2])
    u = (torch.arange(1000) + 0.5) / 1000
    tokens = draw(probs.expand(1, 1000, 4), u[None])
    assert tokens[0].bincount(minlength=4).tolist() == [500, 0, 300, 200]


def test_draws_from_a_large_vocabulary_follow_the_distribution() -> None:
    counts = torch.randint(0, 9, (256,), generator=torch.Generator().manual_seed(0))
    total = int(counts.sum())
    u = (torch.arange(total) + 0.5) / total
    tokens = draw((counts / total).expand(1, total, 256), u[None])
    assert torch.equal(tokens[0].bincount(minlength=256), counts)


@given(st.one_of(logits_of_rows, wide_logits), numbers)
def test_each_row_samples_by_its_own_rules(logits: torch.Tensor, u: float) -> None:
    logits = torch.cat([logits[:1], logits[:1], logits[:1]])
    prediction: Prediction = predict(logits, torch.ones(3))
    before = prediction.probs.clone()
    numbers_of_rows = torch.full(logits.shape[:2], u)
    tokens = sample(
        prediction, u=numbers_of_rows, top_p=torch.tensor([1.0, 0.5, 1.0]), greedy=torch.tensor([False, False, True])
    )
    unrestricted = draw(prediction.probs, numbers_of_rows)
    assert torch.equal(tokens[0], unrestricted[0])
    in_nucleus = nucleus(prediction.probs[1], torch.tensor(0.5)) > 0
    assert in_nucleus.gather(-1, tokens[1, :, None]).all()
    stays = in_nucleus.gather(-1, unrestricted[1, :, None]).squeeze(-1)
    assert torch.equal(tokens[1][stays], unrestricted[1][stays])
    assert torch.equal(tokens[2], prediction.argmax[2])
    assert torch.equal(prediction.probs, before)


@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.9])
def test_draws_within_a_nucleus_follow_its_distribution(top_p: float) -> None:
    weights = torch.tensor([8.0, 1.0, 8.0, 5.0, 0.0, 2.0, 8.0, 3.0])  # equal ones too, of which the first come first
    probs = (weights / weights.sum()).expand(1, 4000, 8).clone()
    u = uniforms(torch.tensor([7]), 4000)
    prediction = Prediction(probs=probs, argmax=probs.argmax(dim=-1), entropy=torch.zeros(1, 4000))
    tokens = sample(prediction, u=u, top_p=torch.tensor([top_p]), greedy=torch.tensor([False]))
    kept = nucleus(probs[0, 0], torch.tensor(top_p))
    expected = kept / kept.sum() * 4000
    drawn = tokens[0].bincount(minlength=8)
    assert (drawn[kept == 0] == 0).all()
    assert ((drawn - expected).abs() <= 5 * expected.sqrt()).all()  # the numbers are fixed: this cannot flicker
