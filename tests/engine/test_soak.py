"""Two thousand requests of every fate through one engine: each has one end, and nothing is left behind."""

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import torch
from diffusion_worker.engine.row import Row
from diffusion_worker.models.diffusion import DiffusionModel
from diffusion_worker.wire import BlockEvent, DraftEvent, ErrorEvent, FinishEvent, GenerateRequest

from tests.engine.answers import PATIENCE_SECONDS, Answer, request, running
from tests.engine.runners import WatchedRunner, diffusion_runner

REQUESTS = 2000
IN_FLIGHT = 24  # more than there are slots, so that some are cancelled while they wait
BATCH = 8
FATES = [
    *["answered"] * 12,
    *["cancelled"] * 4,
    *["background"] * 2,
    "late cancel",
    "refused",
    "sampler refused",
    "NaN",
    "deaf",
    "poison",
]
SAMPLERS = [{}, {}, {"name": "discrete_ddim"}, {"name": "block_refinement"}, {"guidance_scale": 0.5}]


def random_request(chance: random.Random, fate: str, number: int) -> GenerateRequest:
    """A request of any length and with any sampler, marked with its fate."""
    fields: dict[str, object] = {
        "request_id": f"{fate}:{number}",
        "seed": None,
        "max_tokens": chance.randint(1, 40),
        "temperature": chance.choice([0.0, 0.7, 1.0]),
        "sampler": chance.choice(SAMPLERS),
        "drafts": chance.random() < 0.5,
        "background": fate == "background",
    }
    match fate:
        case "refused":
            return request([], **fields)
        case "sampler refused":
            return request(**fields | {"sampler": {"stochasticity": 0.5}})
        case _:
            return request([chance.randint(8, 300) for _ in range(chance.choice([1, 5, 30, 90]))], **fields)


def fate_of(row: Row) -> str:
    """What shall happen to a row."""
    return row.request_id.split(":")[0]


class Troublemaker:
    """Fails passes with a poisoned row, and makes the numbers of marked rows NaN."""

    def __init__(self, model: DiffusionModel, monkeypatch: pytest.MonkeyPatch) -> None:
        self._nan_slots: set[int] = set()
        self._denoise: Callable[..., torch.Tensor] = model.denoise
        monkeypatch.setattr(model, "denoise", self.denoise)

    def before_step(self, rows: Sequence[Row]) -> None:
        """Look for rows that are meant to fail."""
        self._nan_slots = {row.slot for row in rows if fate_of(row) == "NaN" and row.slot is not None}
        if any(fate_of(row) == "poison" for row in rows):
            raise RuntimeError("no such kernel")

    def denoise(self, cache: object, slots: Sequence[int], *rest: object) -> torch.Tensor:
        """The model's pass."""
        logits = self._denoise(cache, slots, *rest)
        for i, slot in enumerate(slots):
            if slot in self._nan_slots:
                logits[i] = torch.nan
        return logits


def listener(answer: Answer, *, deaf: bool) -> Callable[[BlockEvent | DraftEvent | FinishEvent | ErrorEvent], None]:
    """A listener, which may fail on what it hears."""

    def listen(event: BlockEvent | DraftEvent | FinishEvent | ErrorEvent) -> None:
        answer.take(event)
        if deaf:
            raise ValueError("the client is gone")

    return listen


def test_two_thousand_requests(diffusion_model: DiffusionModel, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set(threading.enumerate())
    chance = random.Random(0)
    trouble = Troublemaker(diffusion_model, monkeypatch)
    inner = diffusion_runner(diffusion_model, max_batch_size=BATCH, max_denoising_steps=2)
    runner = WatchedRunner(inner, before_step=trouble.before_step)
    answers: list[tuple[str, Answer]] = []
    with running(runner) as engine:
        for number in range(REQUESTS):
            fate = chance.choice(FATES)
            answer = Answer()
            handle = engine.submit(random_request(chance, fate, number), listener(answer, deaf=fate == "deaf"))
            answers.append((fate, answer))
            if fate == "cancelled":
                handle.cancel()
            if fate == "late cancel":
                threading.Timer(chance.random() / 50, handle.cancel).start()
            if number >= IN_FLIGHT:
                assert answers[number - IN_FLIGHT][1].ended.wait(PATIENCE_SECONDS)
        ends = Counter((fate, getattr(answer.end, "code", "finish")) for fate, answer in answers)
        assert engine.rows_in_flight == 0
        assert engine.stats.consecutive_failed_passes == 0
        assert runner.slots_taken == 0
        assert inner._slots.cache.rows == 0
        assert inner._slots.cache.nbytes.total == 0
    # A cancel may come too late, and a listener that hears only the end of a short answer has nobody to stop.
    either_way = {"cancelled": "finish", "late cancel": "finish", "deaf": "finish", "background": "preempted"}
    expected = {
        "answered": "finish",
        "cancelled": "cancelled",
        "late cancel": "cancelled",
        "refused": "invalid_request",
        "sampler refused": "invalid_request",
        "NaN": "non_finite",
        "deaf": "cancelled",
        "poison": "engine_error",
        "background": "overloaded",
    }
    assert {fate for fate, _ in ends} == set(expected)
    may_be = {fate: {end, either_way.get(fate)} for fate, end in expected.items()}
    may_be["background"].add("finish")
    assert all(end in may_be[fate] for fate, end in ends), ends
    assert ends["cancelled", "cancelled"] > 0
    for thread in set(threading.enumerate()) - threads:  # timers that are about to end
        thread.join(PATIENCE_SECONDS)
    assert set(threading.enumerate()) <= threads
