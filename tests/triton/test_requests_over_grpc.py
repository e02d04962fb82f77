"""What a gateway sees of a worker that is well."""

import asyncio

import pytest
from diffusion_worker.wire import (
    REVISION_PARAMETER,
    TRACEPARENT_PARAMETER,
    BlockEvent,
    DraftEvent,
    ErrorEvent,
    FinishEvent,
)
from tritonclient.utils import InferenceServerException

from tests.triton.worker import QUEUE, REVISION, SLOTS, Call, Event, Worker, long_request, request

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_blocks_arrive_one_by_one_and_a_finish_ends_the_stream(worker: Worker) -> None:
    *blocks, finish = await Call(worker, request(max_tokens=40)).answer()
    assert [block.index for block in blocks if isinstance(block, BlockEvent)] == [0, 1, 2]  # canvas 16
    assert isinstance(finish, FinishEvent)
    assert (finish.reason, finish.completion_tokens, finish.blocks, finish.seed) == ("length", 40, 3, 1)
    assert finish.steps == sum(block.steps for block in blocks if isinstance(block, BlockEvent))


async def test_requests_in_flight_together_get_the_answers_they_get_alone(worker: Worker) -> None:
    alone = [await Call(worker, request(seed=seed)).answer() for seed in range(SLOTS)]
    together = await asyncio.gather(*(Call(worker, request(seed=seed)).answer() for seed in range(SLOTS)))
    texts = [
        [[event.text for event in events if isinstance(event, BlockEvent)] for events in run]
        for run in (alone, together)
    ]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("payload", "param", "words"),
    [
        ("{not json", None, "not JSON"),
        (b"\xff\xfe", None, "not JSON"),
        (request(temperature=7), "temperature", "less than or equal to 2"),
        (request(surprise=1), "surprise", "not permitted"),
        (request(messages=[{"role": "user", "content": "hi"}]), None, "exactly one"),
    ],
)
async def test_a_bad_request_fails_alone_and_names_what_is_wrong(
    worker: Worker, payload: str | bytes | dict[str, object], param: str | None, words: str
) -> None:
    neighbour = Call(worker, request(max_tokens=32))
    await neighbour.next()
    (error,) = await Call(worker, payload).answer()
    assert isinstance(error, ErrorEvent)
    assert (error.code, error.param) == ("invalid_request", param)
    assert words in error.message
    assert isinstance((await neighbour.answer())[-1], FinishEvent)


async def test_a_prompt_that_is_too_long_is_answered_with_the_limit(worker: Worker) -> None:
    (error,) = await Call(worker, request(prompt_token_ids=[5] * 600, prompt=None)).answer()
    assert isinstance(error, ErrorEvent)
    assert error.code == "context_length_exceeded"


async def test_a_client_that_goes_away_frees_its_row(worker: Worker) -> None:
    before = worker.metric("dlm_requests_total", outcome="cancelled")
    calls = [Call(worker, long_request()) for _ in range(SLOTS)]
    for call in calls:
        await call.next()
    for call in calls:
        await call.cancel()
    # All slots were taken: only a cancelled row makes room for this one long before they would have ended.
    worker.wait_for_metric("dlm_requests_total", before + SLOTS, outcome="cancelled")
    worker.wait_for_metric("dlm_rows_in_flight", 0)
    assert isinstance((await Call(worker, request()).answer())[-1], FinishEvent)


async def test_drafts_come_before_their_block_and_only_when_asked_for(worker: Worker) -> None:
    plain = await Call(worker, request(max_tokens=24)).answer()
    events = await Call(worker, request(max_tokens=24, drafts=True)).answer()
    drafts = [event for event in events if isinstance(event, DraftEvent)]
    assert drafts
    assert not any(isinstance(event, DraftEvent) for event in plain)
    order = [event.index for event in events if isinstance(event, BlockEvent | DraftEvent)]
    assert order == sorted(order)
    assert [event for event in events[:-1] if isinstance(event, BlockEvent)] == plain[:-1]


async def test_a_request_for_another_revision_is_refused_even_while_all_slots_are_taken(worker: Worker) -> None:
    running = [Call(worker, long_request(), parameters={REVISION_PARAMETER: REVISION}) for _ in range(SLOTS)]
    for call in running:
        assert isinstance(await call.next(), BlockEvent)
    (error,) = await Call(worker, request(), parameters={REVISION_PARAMETER: "ffffffff"}).answer()
    assert isinstance(error, ErrorEvent)
    assert error.code == "wrong_revision"
    for call in running:
        await call.cancel()


async def test_log_lines_name_a_request_and_its_trace_and_nothing_that_it_says(worker: Worker) -> None:
    asked = request(request_id="logged", prompt="the unmistakable fox")
    (*_, finish) = await Call(worker, asked, parameters={TRACEPARENT_PARAMETER: TRACE}).answer()
    assert isinstance(finish, FinishEvent)
    line = await asyncio.to_thread(worker.wait_for_log_line, request_id="logged")
    assert line["traceparent"] == TRACE
    assert (line["outcome"], line["completion_tokens"]) == ("length", 24)
    assert "unmistakable" not in worker.log.read_text()


async def test_a_full_queue_refuses_at_once_and_serves_what_it_took(worker: Worker) -> None:
    running = [Call(worker, long_request()) for _ in range(SLOTS)]
    for call in running:
        await call.next()
    # One batch is past the queue and waits for slots; the queue holds QUEUE more.
    room = SLOTS + QUEUE
    waiting = [asyncio.create_task(Call(worker, request()).answer()) for _ in range(3 * room)]
    done, pending = set[asyncio.Task[list[Event]]](), set(waiting)
    async with asyncio.timeout(300):
        while len(pending) > room:  # each that has no room, before some is made
            refused, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            done |= refused
    assert all(isinstance(task.exception(), InferenceServerException) for task in done)
    assert all("Exceeds maximum queue size" in str(task.exception()) for task in done)
    for call in running:
        await call.cancel()
    results = await asyncio.gather(*pending, return_exceptions=True)
    answers = [result for result in results if isinstance(result, list)]
    assert QUEUE <= len(answers) <= QUEUE + SLOTS
    assert all(isinstance(answer[-1], FinishEvent) for answer in answers)


async def test_metrics_count_what_the_engine_did(worker: Worker) -> None:
    names = ("dlm_blocks_total", "dlm_tokens_total", "dlm_capped_blocks_total", "dlm_denoising_steps_sum")
    before = {name: worker.metric(name) for name in names}
    answered = worker.metric("dlm_requests_total", outcome="length")
    await Call(worker, request(max_tokens=24)).answer()
    worker.wait_for_metric("dlm_requests_total", answered + 1, outcome="length", model="tiny", revision="0a1b2c3d")
    grown = {name: worker.metric(name) - before[name] for name in names}
    assert grown == {
        "dlm_blocks_total": 2,
        "dlm_tokens_total": 24,
        "dlm_capped_blocks_total": 2,  # never confident: see worker.py
        "dlm_denoising_steps_sum": 64,
    }
    assert worker.metric("dlm_batch_size_sum") >= 64
    for histogram in ("dlm_queue_seconds", "dlm_time_to_first_block_seconds", "dlm_request_seconds"):
        assert worker.metric(f"{histogram}_count", kind="diffusion") >= 1
