"""What goes wrong in one row ends that row; the others and the loop go on."""

from collections.abc import Sequence

import pytest
import torch
from diffusion_worker.engine.row import Row
from diffusion_worker.models.ar import ARModel
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.wire import BlockEvent, ErrorEvent, FinishEvent

from tests.engine.answers import Answer, request, running, send
from tests.engine.runners import WatchedRunner, ar_runner, diffusion_runner

POISON = request("poison", request_id="poison")


def refuse_poison(rows: Sequence[Row]) -> None:
    """Fail each pass that the poisoned row is part of."""
    if any(row.request_id == "poison" for row in rows):
        raise RuntimeError("no such kernel")


def test_a_row_that_makes_passes_fail_fails_alone(diffusion_model: DiffusionModel) -> None:
    with running(diffusion_runner(diffusion_model)) as engine:
        (alone,) = send(engine, request(seed=5))
        assert alone.finish
    runner = WatchedRunner(diffusion_runner(diffusion_model), before_step=refuse_poison)
    with running(runner, batch_window_seconds=0.05) as engine:
        poisoned, healthy, late = send(engine, POISON, request(seed=5), request(seed=6))
        assert poisoned.error.code == "engine_error"
        assert healthy.finish
        assert late.finish
        assert engine.alive
        assert engine.stats.consecutive_failed_passes == 0
    assert healthy.text == alone.text
    assert runner.slots_taken == 0


def test_passes_that_fail_only_in_company_fail_nobody(llama_model: ARModel) -> None:
    def refuse_company(rows: Sequence[Row]) -> None:
        if len(rows) > 1:
            raise RuntimeError("out of memory")

    with running(ar_runner(llama_model)) as engine:
        expected = [answer.text for seed in (1, 2) for answer in send(engine, request(seed=seed)) if answer.finish]
    with running(WatchedRunner(ar_runner(llama_model), before_step=refuse_company)) as engine:
        answers = send(engine, request(seed=1), request(seed=2))
        assert [answer.text for answer in answers if answer.finish] == expected


@pytest.mark.parametrize("kind", ["diffusion", "ar"])
@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_a_row_whose_logits_are_not_numbers_fails_alone_and_leaves_nothing_in_the_cache(
    kind: str, number: float, diffusion_model: DiffusionModel, llama_model: ARModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, method = (diffusion_model, "denoise") if kind == "diffusion" else (llama_model, "forward")
    original = getattr(model, method)
    poisoned_slot = 1

    def with_nan(cache, slots, lengths, *rest):  # type: ignore[no-untyped-def]
        logits = original(cache, slots, lengths, *rest).clone()
        if poisoned_slot in slots and len(slots) == 3:
            logits[list(slots).index(poisoned_slot)] = number
            with torch.inference_mode():
                if kind == "diffusion":
                    for layer in cache._rows[poisoned_slot].layers:
                        layer.tokens.fill_(torch.nan)
                else:
                    for layer in cache._layers:
                        layer.values[poisoned_slot] = torch.nan
        return logits

    def runner():  # type: ignore[no-untyped-def]
        return diffusion_runner(diffusion_model) if kind == "diffusion" else ar_runner(llama_model)

    with running(runner()) as engine:
        expected = [a.text for seed in (1, 3, 4) for a in send(engine, request(seed=seed)) if a.finish]
    monkeypatch.setattr(model, method, with_nan)
    with running(runner(), batch_window_seconds=0.1) as engine:
        first, nan, third = send(engine, request(seed=1), request("b" * 50, seed=2), request(seed=3))
        assert nan.error.code == "non_finite"
        assert "NaN" in nan.error.message
        assert first.finish
        assert third.finish
        (next_in_that_slot, _) = send(engine, request(seed=4), request(seed=5))
        assert next_in_that_slot.finish
        assert [first.text, third.text, next_in_that_slot.text] == expected


def test_a_listener_that_raises_ends_its_own_row_only(diffusion_model: DiffusionModel) -> None:
    def listen(event: BlockEvent | FinishEvent | ErrorEvent) -> None:
        heard.append(event)
        raise ValueError("client is gone")

    heard: list[BlockEvent | FinishEvent | ErrorEvent] = []
    runner = WatchedRunner(diffusion_runner(diffusion_model), before_step=lambda rows: None)
    with running(runner) as engine:
        engine.submit(request(max_tokens=200), listen)
        (other,) = send(engine, request(max_tokens=100))
        assert other.finish
        (after,) = send(engine, request())
        assert after.finish
        assert engine.alive
    assert [event.type for event in heard] == ["block", "error"]
    assert runner.slots_taken == 0


def test_when_the_loop_itself_fails_everyone_is_told(diffusion_model: DiffusionModel) -> None:
    class BrokenRunner(WatchedRunner):
        def release(self, row: Row) -> None:
            raise RuntimeError("the cache is broken")

    runner = BrokenRunner(diffusion_runner(diffusion_model, max_batch_size=1), before_step=lambda rows: None)
    with running(runner) as engine:
        answers: list[Answer] = send(engine, request(), request(max_tokens=100))
        assert [answer.error.code for answer in answers] == ["engine_error", "engine_error"]
        (late,) = send(engine, request())
        assert late.error.code == "shutting_down"
        engine.close()
        assert not engine.alive
