"""Sizing under any spec and any memory."""

from typing import Any

from diffusion_operator.api.models import DiffusionModel
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.sized.builders import FACTS, a_gpu_model, after, an_ar_twin, condition, decide, found, succeeded

DIFFUSION = st.sampled_from(["DiffusionGemma 26B-A4B", "LLaDA-8B", "Dream-7B"])
ROWS = st.none() | st.just("auto") | st.integers(1, 64)
TOKENS = st.none() | st.just("auto") | st.integers(16, 20_000)
GIBIBYTES = st.integers(1, 400)


def sized(name: str, *, gibibytes: int, on_gpu: bool = True, **limits: Any) -> DiffusionModel:
    """The resource once its checkpoints are known."""
    memory = {"gpus": 1, "gpuMemory": f"{gibibytes}Gi"} if on_gpu else {"memory": f"{gibibytes}Gi"}
    written = {key: value for key, value in limits.items() if value is not None}
    model = after(a_gpu_model(resources=memory, limits=written))
    return after(model, inspected=found(model, succeeded(FACTS[name]), succeeded(an_ar_twin(FACTS[name]))))


@settings(deadline=None, max_examples=40)
@given(DIFFUSION, GIBIBYTES, ROWS, TOKENS, st.booleans())
def test_what_has_pods_fits_and_what_is_written_is_in_force(
    name: str, gibibytes: int, rows: Any, tokens: Any, on_gpu: bool
) -> None:
    model = sized(name, gibibytes=gibibytes, on_gpu=on_gpu, maxBatchSize=rows, maxSequenceLength=tokens)
    assert model.status.sizing is not None
    fits = {arm.revision: arm for arm in model.status.sizing.arms if arm.fits}
    assert {revision.hash for revision in model.status.revisions} == fits.keys()
    for revision in model.status.revisions:
        arm, limits = fits[revision.hash], revision.template.limits
        assert arm.memory.total <= arm.memory.budget_bytes
        assert revision.memory == arm.memory
        assert arm.rows <= limits.max_batch_size <= 64
        if isinstance(rows, int):
            assert (limits.max_batch_size, limits.planned_rows) == (rows, None)
        if isinstance(tokens, int):
            assert limits.max_sequence_length == tokens
    assert (condition(model, "Sized")[0] == "True") == (len(fits) == 2)


@settings(deadline=None, max_examples=40)
@given(DIFFUSION, GIBIBYTES, ROWS, TOKENS)
def test_a_decision_is_written_once(name: str, gibibytes: int, rows: Any, tokens: Any) -> None:
    model = sized(name, gibibytes=gibibytes, maxBatchSize=rows, maxSequenceLength=tokens)
    again = decide(model)
    assert again.status == model.status
    assert again.events == ()


@settings(deadline=None, max_examples=40)
@given(DIFFUSION, GIBIBYTES, st.integers(0, 100))
def test_more_memory_never_gives_auto_less(name: str, gibibytes: int, more: int) -> None:
    def rows(size: int) -> int:
        model = sized(name, gibibytes=size, maxBatchSize="auto", maxSequenceLength=1024)
        assert model.status.sizing is not None
        arm = model.status.sizing.arms[0]
        return arm.rows if arm.fits else 0

    assert rows(gibibytes) <= rows(gibibytes + more)
