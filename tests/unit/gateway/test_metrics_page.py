"""The text that Prometheus reads, written a piece at a time."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import groupby

import pytest
from diffusion_gateway.metrics import Metrics, arm_labels
from diffusion_gateway.metrics.labels import LENGTHS
from diffusion_gateway.routes import Model, Table
from diffusion_gateway.tally import Tally
from diffusion_operator.api.status import ArmKind, ArmRole, RouteArm
from diffusion_worker.wire import BlockEvent, Degeneration, FinishEvent
from prometheus_client import generate_latest

SECONDS = 2.0
MANY = tuple(f"model-{number}" for number in range(20))
AR = RouteArm(role=ArmRole.FALLBACK, revision="ffff0001", kind=ArmKind.AR, service="story-ffff0001", percent=0)
DIFFUSION = RouteArm(
    role=ArmRole.CANARY, revision="aaaa0001", kind=ArmKind.DIFFUSION, service="story-aaaa0001", percent=100
)


def a_model(name: str) -> Model:
    return Model(namespace="default", name=name, generation=1, arms=(DIFFUSION, AR))


def serve(metrics: Metrics, model: Model) -> None:
    """One complete answer of each arm, of all that is counted."""
    for arm in model.arms:
        tally = Tally()
        tally.add(BlockEvent(index=0, text="x", tokens=40, steps=10), now=1.0)
        repetition = Degeneration(repetition=0.1, repeats=False, distinct_2=0.5)
        finish = FinishEvent(
            reason="stop", prompt_tokens=7, completion_tokens=40, steps=10, blocks=1, seed=1, queue_seconds=0.25
        )
        tally.add(finish.model_copy(update={"degeneration": repetition}), now=SECONDS)
        tally.ended_at = SECONDS
        metrics.answers.count(model, arm, tally, asked_at=0.0)
        labels = arm_labels(model, arm)
        metrics.requests.requests.labels(*labels, "200").inc()
        metrics.requests.duration_seconds.labels(*labels).observe(1234567.0)
        metrics.requests.output_tokens.labels(*labels).inc(40)


def with_models(*names: str) -> Metrics:
    metrics = Metrics()
    models = [a_model(name) for name in names]
    metrics.show_table(Table(models={model.key: model for model in models}))
    for model in models:
        serve(metrics, model)
    return metrics


def serve_all(metrics: Metrics) -> None:
    for name in MANY:
        serve(metrics, a_model(name))


async def text_of(metrics: Metrics) -> str:
    return b"".join([piece async for piece in metrics.page()]).decode()


async def text_while(metrics: Metrics, happens: Callable[[], object]) -> str:
    """The text, while something happens at each turn of the loop."""

    async def others() -> None:
        while True:
            happens()
            await asyncio.sleep(0)

    going_on = asyncio.create_task(others())
    try:
        return await text_of(metrics)
    finally:
        going_on.cancel()


def lines(text: str) -> list[str]:
    """Without those of the process, which are others each time."""
    return sorted(line for line in text.splitlines() if not line.startswith("process_"))


def samples(text: str, family: str, model: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if line.startswith(f"diffusion_gateway_{family}{{") and f'model="{model}"' in line:
            labels, _, value = line.rpartition(" ")
            yield labels.partition("{")[2], float(value)


async def test_the_page_has_what_the_librarys_own_writer_gives() -> None:
    metrics = with_models("story", 'quotes " \\ and\nlines')
    assert lines(await text_of(metrics)) == lines(generate_latest(metrics.registry).decode())


async def test_a_family_stands_in_one_place() -> None:
    text = await text_of(with_models(*MANY))
    named = [line.split()[2] if line.startswith("#") else line.partition("{")[0] for line in text.splitlines()]
    ends = ("_bucket", "_count", "_sum")
    families = [next((name.removesuffix(end) for end in ends if name.endswith(end)), name) for name in named]
    places = [family for family, _ in groupby(families)]
    assert len(places) == len(set(places))


async def test_the_loop_goes_on_after_every_model_or_two() -> None:
    """What is counted meanwhile shows in the models that are written later."""
    metrics = with_models(*MANY)
    text = await text_while(metrics, lambda: serve_all(metrics))
    answers = [sum(value for _, value in samples(text, "checked_answers_total", name)) for name in MANY]
    assert answers == sorted(answers)
    assert len(set(answers)) >= len(MANY) / 2


async def test_what_belongs_together_is_read_at_one_moment() -> None:
    """A mean of a sum that has answers of which the count knows nothing would be wrong."""
    metrics = with_models(*MANY)
    text = await text_while(metrics, lambda: serve_all(metrics))
    for name in MANY:
        counts, seconds = (dict(samples(text, family, name)) for family in ("answers_total", "answer_seconds_total"))
        assert len(counts) == 2 * len(LENGTHS)
        assert seconds == {labels: SECONDS * answers for labels, answers in counts.items()}


@pytest.mark.parametrize("family", ["seconds_per_output_token", "request_duration_seconds", "steps_per_canvas"])
async def test_a_histograms_last_bucket_is_its_count_while_more_is_counted(family: str) -> None:
    metrics = with_models(*MANY)
    text = await text_while(metrics, lambda: serve_all(metrics))
    for name in MANY:
        counts = [value for _, value in samples(text, f"{family}_count", name)]
        buckets = [value for labels, value in samples(text, f"{family}_bucket", name) if 'le="+Inf"' in labels]
        assert counts
        assert buckets == counts


async def test_models_that_leave_the_table_while_the_page_is_written_are_no_error() -> None:
    metrics = with_models(*MANY)
    await text_while(metrics, lambda: metrics.show_table(Table()))
    assert "diffusion_gateway_ready_pods{" not in await text_of(metrics)
