"""What holds for predictions and draws whatever the logits are."""

import torch
from diffusion_worker.samplers.categorical import Prediction, draw, nucleus, predict, sample
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

logits_of_rows = arrays(
    "float32", array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=9), elements=st.floats(-30, 30, width=32)
).map(torch.from_numpy)
temperatures = st.floats(1e-3, 3)
masses = st.floats(0.01, 0.999)
numbers = st.floats(0, 1, exclude_max=True, width=32)


def full(logits: torch.Tensor, value: float) -> torch.Tensor:
    """One number for each row."""
    return torch.full((len(logits),), value)


@given(logits_of_rows, temperatures)
def test_a_prediction_is_a_distribution_with_its_entropy(logits: torch.Tensor, temperature: float) -> None:
    prediction = predict(logits, full(logits, temperature))
    expected = torch.distributions.Categorical(logits=(logits.double() / temperature))
    assert torch.allclose(prediction.probs.sum(dim=-1), torch.ones(logits.shape[:2]), atol=1e-5)
    assert torch.allclose(prediction.probs.double(), expected.probs, atol=1e-4)
    assert torch.allclose(prediction.entropy.double(), expected.entropy(), atol=1e-3)
    assert torch.equal(prediction.argmax, (logits / temperature).argmax(dim=-1))


@given(logits_of_rows, temperatures, temperatures)
def test_a_higher_temperature_is_never_more_certain(logits: torch.Tensor, one: float, other: float) -> None:
    low, high = sorted((one, other))
    cold = predict(logits, full(logits, low)).entropy
    hot = predict(logits, full(logits, high)).entropy
    assert (hot >= cold - 1e-3).all()


def test_impossible_tokens_do_not_spoil_the_entropy_but_nan_does() -> None:
    logits = torch.tensor([[[0.0, -torch.inf, 0.0]], [[0.0, torch.nan, 0.0]]])
    entropy = predict(logits, torch.ones(2)).entropy
    assert torch.allclose(entropy[0], torch.tensor(2.0).log())
    assert entropy[1].isnan()


@given(logits_of_rows, masses)
def test_a_nucleus_is_the_smallest_set_that_reaches_its_mass(logits: torch.Tensor, top_p: float) -> None:
    probs = torch.softmax(logits, dim=-1)
    kept = nucleus(probs, full(logits, top_p))
    assert ((kept == 0) | (kept == probs)).all()
    assert (kept.sum(dim=-1) >= min(top_p, 1) - 1e-5).all()
    least = torch.where(kept > 0, kept, 2.0).amin(dim=-1)
    assert (kept.sum(dim=-1) - least < top_p + 1e-5).all()
    assert (kept.amax(dim=-1) == probs.amax(dim=-1)).all()


@given(logits_of_rows, numbers, masses)
def test_only_possible_tokens_are_drawn(logits: torch.Tensor, u: float, top_p: float) -> None:
    probs = nucleus(torch.softmax(logits, dim=-1), full(logits, top_p))
    tokens = draw(probs, torch.full(logits.shape[:2], u))
    assert (probs.gather(-1, tokens[..., None]) > 0).all()


def test_draws_follow_the_distribution() -> None:
    probs = torch.tensor([0.5, 0.0, 0.3, 0.2])
    u = (torch.arange(1000) + 0.5) / 1000
    tokens = draw(probs.expand(1, 1000, 4), u[None])
    assert tokens[0].bincount(minlength=4).tolist() == [500, 0, 300, 200]


@given(logits_of_rows, numbers)
def test_each_row_samples_by_its_own_rules(logits: torch.Tensor, u: float) -> None:
    logits = torch.cat([logits[:1], logits[:1], logits[:1]])
    prediction: Prediction = predict(logits, torch.ones(3))
    before = prediction.probs.clone()
    numbers_of_rows = torch.full(logits.shape[:2], u)
    tokens = sample(
        prediction, u=numbers_of_rows, top_p=torch.tensor([1.0, 0.5, 1.0]), greedy=torch.tensor([False, False, True])
    )
    assert torch.equal(tokens[0], draw(prediction.probs, numbers_of_rows)[0])
    assert torch.equal(tokens[1], draw(nucleus(prediction.probs, torch.full((3,), 0.5)), numbers_of_rows)[1])
    assert torch.equal(tokens[2], prediction.argmax[2])
    assert torch.equal(prediction.probs, before)
