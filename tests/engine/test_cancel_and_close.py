"""Rows that are cancelled, and engines that are closed: one last event each, and nothing is left behind."""

import threading
from collections.abc import Sequence

import pytest
from diffusion_worker.engine.row import Row
from diffusion_worker.models.diffusion import DiffusionModel

from tests.engine.answers import PATIENCE_SECONDS, request, running, send, send_one
from tests.engine.runners import WatchedRunner, diffusion_runner

LONG = request(max_tokens=400)


class Gate:
    """Holds the engine before each step until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, rows: Sequence[Row]) -> None:
        """The runner's `before_step`."""
        self.reached.set()
        assert self._open.wait(PATIENCE_SECONDS)

    def open(self) -> None:
        """Let the engine go."""
        self._open.set()


@pytest.fixture
def gate() -> Gate:
    """A closed gate."""
    return Gate()


@pytest.fixture
def runner(diffusion_model: DiffusionModel, gate: Gate) -> WatchedRunner:
    """A runner with one slot behind the gate, whose answers are as long as asked for."""
    inner = diffusion_runner(diffusion_model, max_batch_size=1)
    inner.eos_token_ids = frozenset()
    return WatchedRunner(inner, before_step=gate)


def test_cancelling_a_running_row_frees_its_slot_for_the_next(runner: WatchedRunner, gate: Gate) -> None:
    with running(runner) as engine:
        cancelled, handle = send_one(engine, LONG)
        assert gate.reached.wait(PATIENCE_SECONDS)
        (waiting,) = send(engine, request())
        handle.cancel()
        gate.open()
        assert cancelled.error.code == "cancelled"
        assert waiting.finish.completion_tokens == 20
        assert waiting.finish.queue_seconds > 0
    assert runner.slots_taken == 0


def test_a_cancelled_row_takes_part_in_no_step_that_begins_later(diffusion_model: DiffusionModel) -> None:
    steps: list[list[str]] = []

    def cancel_in_the_third_step(rows: Sequence[Row]) -> None:
        steps.append([row.request_id for row in rows])
        if len(steps) == 3:
            handle.cancel()

    inner = diffusion_runner(diffusion_model, confidence_threshold=1e-9)
    inner.eos_token_ids = frozenset()
    with running(WatchedRunner(inner, before_step=cancel_in_the_third_step), batch_window_seconds=0.1) as engine:
        cancelled, handle = send_one(engine, request(request_id="gone", max_tokens=400))
        (other,) = send(engine, request(request_id="there"))
        assert cancelled.error.code == "cancelled"
        assert other.finish
    assert steps[:3] == [["gone", "there"]] * 3
    assert all(step == ["there"] for step in steps[3:])


def test_cancelling_a_waiting_row_ends_it_before_it_runs(runner: WatchedRunner, gate: Gate) -> None:
    with running(runner) as engine:
        (first,) = send(engine, request(max_tokens=40))
        waiting, handle = send_one(engine, request())
        handle.cancel()
        gate.open()
        assert waiting.error.code == "cancelled"
        assert not waiting.blocks
        assert first.finish


def test_cancelling_a_row_that_has_ended_does_nothing(runner: WatchedRunner, gate: Gate) -> None:
    gate.open()
    with running(runner) as engine:
        answer, handle = send_one(engine, request())
        assert answer.finish
        handle.cancel()
        (after,) = send(engine, request())
        assert after.finish
        assert len(answer.ends) == 1
        assert engine.rows_in_flight == 0


def test_closing_with_drain_finishes_what_is_in_flight_and_takes_no_more(runner: WatchedRunner, gate: Gate) -> None:
    with running(runner) as engine:
        in_flight, waiting = send(engine, request(max_tokens=30), request())
        assert gate.reached.wait(PATIENCE_SECONDS)
        closing = threading.Thread(target=engine.close)
        closing.start()
        while engine._closing == "no":
            closing.join(0.01)
        (late,) = send(engine, request())
        assert late.error.code == "shutting_down"
        gate.open()
        closing.join(PATIENCE_SECONDS)
        assert not closing.is_alive()
        assert not engine.alive
        assert in_flight.finish.completion_tokens == 30
        assert waiting.finish


def test_closing_without_drain_ends_rows_at_once(runner: WatchedRunner, gate: Gate) -> None:
    with running(runner) as engine:
        in_flight, waiting = send(engine, LONG, request())
        assert gate.reached.wait(PATIENCE_SECONDS)
        gate.open()
        engine.close(drain=False)
        assert in_flight.error.code == waiting.error.code == "shutting_down"
        assert engine.rows_in_flight == 0


def test_a_drain_that_takes_too_long_is_cut_short(runner: WatchedRunner, gate: Gate) -> None:
    with running(runner) as engine:
        (in_flight,) = send(engine, LONG)
        assert gate.reached.wait(PATIENCE_SECONDS)
        threading.Timer(0.05, gate.open).start()
        engine.close(timeout_seconds=0.01)
        assert in_flight.error.code == "shutting_down"


def test_the_batching_window_gathers_rows_for_an_idle_engine(diffusion_model: DiffusionModel) -> None:
    sizes: list[int] = []
    runner = WatchedRunner(diffusion_runner(diffusion_model), before_step=lambda rows: sizes.append(len(rows)))
    with running(runner, batch_window_seconds=10 * PATIENCE_SECONDS) as engine:
        # A full batch does not wait for the window to end.
        answers = send(engine, *[request(max_tokens=5)] * 4)
        assert all(answer.finish for answer in answers)
    assert sizes[0] == 4


def test_the_batching_window_does_not_delay_a_running_engine(diffusion_model: DiffusionModel) -> None:
    runner = diffusion_runner(diffusion_model, max_batch_size=2)
    runner.eos_token_ids = frozenset()
    with running(runner, batch_window_seconds=10 * PATIENCE_SECONDS) as engine:
        # The first two fill the batch. The third waits for a slot and then starts, with company or without.
        answers = send(engine, request(max_tokens=5), request(max_tokens=5), request(max_tokens=5))
        assert all(answer.finish for answer in answers)


def test_the_batching_window_ends_for_a_row_without_company(diffusion_model: DiffusionModel) -> None:
    with running(diffusion_runner(diffusion_model), batch_window_seconds=0.02) as engine:
        (answer,) = send(engine, request(max_tokens=5))
        assert answer.finish.queue_seconds >= 0.02
