"""What only an AR worker does: log-probabilities, penalties and scores, through a real Triton."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from diffusion_gateway.pairs import WorkerArSide
from diffusion_gateway.pairs.compare import MIN_TOKENS, compare
from diffusion_gateway.pairs.sample import Drawn, Sample
from diffusion_gateway.pool import WorkerPool
from diffusion_gateway.routes import Model
from diffusion_operator.api.arms import ArmKind
from diffusion_operator.api.status import ArmRole, RouteArm
from diffusion_worker.wire import SCORE_PRIORITY, BlockEvent, ErrorEvent, FinishEvent, GenerateRequest, ScoreEvent

from tests.engine.checkpoints import save_llama
from tests.triton.worker import REVISION, SLOTS, Call, Worker, request, write_config

SCORE = {"type": "score", "request_id": "s", "prompt": "the fox", "completion": " and the hen"}


@pytest.fixture(scope="module")
def ar_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    folder: Path = tmp_path_factory.mktemp("ar")
    save_llama(folder / "checkpoint")
    config = write_config(folder / "config", checkpoint=folder / "checkpoint", kind="ar", sampler={})
    triton = config / "config.pbtxt"
    levels = "dynamic_batching { priority_levels: 2 default_priority_level: 1"
    triton.write_text(triton.read_text().replace("dynamic_batching {", levels))
    worker = Worker.start(config=config, folder=folder)
    try:
        worker.wait_until_ready()
        yield worker
    finally:
        worker.stop()


async def test_log_probabilities_and_penalties(ar_worker: Worker) -> None:
    asked = request(max_tokens=6, logprobs=2, frequency_penalty=1.0, logit_bias={"1": -100})
    *blocks, finish = await Call(ar_worker, asked).answer()
    assert isinstance(finish, FinishEvent)
    tokens = [token for block in blocks if isinstance(block, BlockEvent) for token in block.logprobs or []]
    assert len(tokens) == finish.completion_tokens == 6
    assert all(len(token.top) == 2 and token.logprob <= 0 for token in tokens)
    (error,) = await Call(ar_worker, request(logit_bias={"99999": 1})).answer()
    assert isinstance(error, ErrorEvent)
    assert (error.code, error.param) == ("invalid_request", "logit_bias")


async def test_scores_come_beside_answers_and_are_counted_apart(ar_worker: Worker) -> None:
    requests = ar_worker.metric("dlm_requests_total")
    answers = [Call(ar_worker, request(max_tokens=64, seed=seed, logit_bias={"1": -100})) for seed in range(SLOTS)]
    for answer in answers:
        await answer.next()
    scores = [Call(ar_worker, SCORE | {"include_eos": eos}, priority=SCORE_PRIORITY) for eos in (False, True)]
    answered = await asyncio.gather(*(call.answer() for call in answers))
    (plain,), (with_eos,) = await asyncio.gather(*(call.answer() for call in scores))
    assert isinstance(plain, ScoreEvent)
    assert isinstance(with_eos, ScoreEvent)
    assert with_eos.tokens == plain.tokens + 1
    assert 1 < math.exp(plain.nll / plain.tokens) < math.inf
    assert all(isinstance(events[-1], FinishEvent) for events in answered)
    ar_worker.wait_for_metric("dlm_scores_total", 2, outcome="scored")
    ar_worker.wait_for_metric("dlm_requests_total", requests + SLOTS)


async def test_background_requests_get_the_rows_that_are_left_and_give_them_back(ar_worker: Worker) -> None:
    never_ends = {"max_tokens": 400, "logit_bias": {"1": -100}}

    async def crowd_out() -> FinishEvent | ErrorEvent:
        """How a background request ends that was there before as many others came as there are rows."""
        background = Call(ar_worker, request(**never_ends, background=True), priority=SCORE_PRIORITY)
        await asyncio.to_thread(ar_worker.wait_for_metric, "dlm_rows_in_flight", 1)
        live = [Call(ar_worker, request(**never_ends, seed=seed)) for seed in range(SLOTS)]
        for call in live:
            assert isinstance(await call.next(), BlockEvent)
        (refused,) = await Call(ar_worker, request(background=True), priority=SCORE_PRIORITY).answer()
        assert isinstance(refused, ErrorEvent)
        assert refused.code == "overloaded"
        for call in live:
            await call.cancel()
        await asyncio.to_thread(ar_worker.wait_for_metric, "dlm_rows_in_flight", 0)
        *_, end = await background.answer()
        assert isinstance(end, FinishEvent | ErrorEvent)
        return end

    # It says nothing before its end, so on a busy machine it may be done before the others come.
    ends = [await crowd_out()]
    while isinstance(ends[-1], FinishEvent) and len(ends) < 5:
        ends.append(await crowd_out())
    assert isinstance(ends[-1], ErrorEvent)
    assert ends[-1].code == "preempted"
    *_, end = await Call(ar_worker, request(max_tokens=4, background=True), priority=SCORE_PRIORITY).answer()
    assert isinstance(end, FinishEvent)


async def test_a_text_that_cannot_be_scored_is_refused_by_name(ar_worker: Worker) -> None:
    for change, param in (({"completion": ""}, "completion"), ({"surprise": 1}, "surprise")):
        (error,) = await Call(ar_worker, SCORE | change).answer()
        assert isinstance(error, ErrorEvent)
        assert (error.code, error.param) == ("invalid_request", param)


async def test_a_diffusion_worker_scores_nothing(worker: Worker) -> None:
    (error,) = await Call(worker, SCORE).answer()
    assert isinstance(error, ErrorEvent)
    assert error.code == "invalid_request"


async def test_a_gateway_makes_a_pair_of_a_diffusion_answer(ar_worker: Worker) -> None:
    pool = WorkerPool()
    side = WorkerArSide(pool=pool, targets=lambda: [ar_worker.grpc], revision=REVISION)
    asked = GenerateRequest.model_validate(request(max_tokens=64, seed=7, logit_bias={"1": -100}))
    try:
        own = await side.answer(asked.model_copy(update={"max_tokens": 40}))
        same = await compare(_sample(asked, own.text, own.finish), side)
        other = await compare(_sample(asked, own.text[::-1], own.finish), side)
    finally:
        await pool.close()
    assert own.finish.completion_tokens == same.ar.tokens == 40
    assert same.difference == 0  # AR against its own answer
    assert same.diffusion.score.tokens >= MIN_TOKENS
    assert math.isfinite(other.difference)
    assert other.difference != 0


def _sample(request: GenerateRequest, text: str, finish: FinishEvent) -> Sample:
    arms = [
        RouteArm(role=role, revision=REVISION, kind=kind, service="s", percent=0)
        for role, kind in ((ArmRole.STABLE, ArmKind.DIFFUSION), (ArmRole.FALLBACK, ArmKind.AR))
    ]
    model = Model(namespace="default", name="tiny", generation=1, arms=tuple(arms))
    drawn = Drawn(model=model, arm=arms[0], ar=arms[1], request=request)
    return Sample(drawn, text, finish.completion_tokens, finish.degeneration)
