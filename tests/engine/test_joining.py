"""A request joins a running batch at the next step, and its slot is free for another right after its last one."""

from collections.abc import Sequence

from diffusion_worker.engine.row import Row
from diffusion_worker.models.diffusion import DiffusionModel

from tests.engine.answers import PATIENCE_SECONDS, Answer, request, running, send
from tests.engine.runners import WatchedRunner, diffusion_runner


def test_a_request_joins_at_the_next_step_whatever_the_batching_window_is(diffusion_model: DiffusionModel) -> None:
    batches: list[list[str]] = []
    late = Answer()

    def submit_once_there_is_room(rows: Sequence[Row]) -> None:
        batches.append([row.request_id for row in rows])
        if batches[-1] == ["long"] and not any("late" in batch for batch in batches):
            engine.submit(request(request_id="late", max_tokens=5), late.take)

    inner = diffusion_runner(diffusion_model, max_batch_size=2)
    inner.eos_token_ids = frozenset()
    runner = WatchedRunner(inner, before_step=submit_once_there_is_room)
    # Two requests fill the batch, so that the idle engine starts at once; nothing after that may wait for the window.
    with running(runner, batch_window_seconds=10 * PATIENCE_SECONDS) as engine:
        short, long = send(
            engine, request(request_id="short", max_tokens=5), request(request_id="long", max_tokens=100)
        )
        assert short.finish
        assert late.finish
        assert long.finish
    alone = batches.index(["long"])
    assert batches[alone - 1] == ["short", "long"]  # the short one's last step
    assert batches[alone + 1] == ["long", "late"]
