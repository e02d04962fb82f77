"""Between Triton and the engine, both played by fakes: who gets which events, and when a slot is free again."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from diffusion_worker.config import EngineConfig
from diffusion_worker.engine import EngineStats
from diffusion_worker.triton.backend import Backend
from diffusion_worker.triton.delivery import Delivery, Stream
from diffusion_worker.triton.metrics import WorkerMetrics
from diffusion_worker.wire import (
    BlockEvent,
    DraftEvent,
    ErrorEvent,
    FinishEvent,
    GenerateRequest,
    ScoreEvent,
    ScoreRequest,
    encode_request,
)

BLOCK = BlockEvent(index=0, text="a", tokens=1, steps=3)
FINISH = FinishEvent(reason="stop", prompt_tokens=1, completion_tokens=1, steps=3, blocks=1, seed=0, queue_seconds=0.0)
CANCELLED = ErrorEvent(code="cancelled", message="the request was cancelled")
CONFIG = EngineConfig.model_validate(
    {"kind": "diffusion", "model": "m", "revision": "0", "source": "file:///x", "path": "/x", "max_batch_size": 1}
)


class FakeFamily:
    """Triton's MetricFamily; keeps the values of all metrics by name and outcome."""

    COUNTER, GAUGE, HISTOGRAM = range(3)
    values: dict[tuple[str, str | None], float]

    def __init__(self, *, name: str, description: str, kind: int) -> None:
        self.name = name

    def Metric(self, *, labels: dict[str, str], buckets: list[float] | None = None) -> "FakeMetric":  # noqa: N802
        return FakeMetric(type(self).values, (self.name, labels.get("outcome") or labels.get("part")))


class FakeMetric:
    def __init__(self, values: dict[tuple[str, str | None], float], key: tuple[str, str | None]) -> None:
        self._values, self._key = values, key
        values.setdefault(key, 0)

    def increment(self, by: float) -> None:
        self._values[self._key] += by

    def observe(self, value: float) -> None:
        self._values[self._key] += 1

    def set(self, value: float) -> None:
        self._values[self._key] = value


class FakeSender:
    """A client; may go away, and its connection may break."""

    def __init__(self, *, broken: bool = False) -> None:
        self.sent: list[Any] = []
        self.gone = False
        self.ended = threading.Event()
        self._broken = broken

    def send(self, event: Any, *, final: bool) -> None:
        if self._broken:
            raise RuntimeError("broken pipe")
        self.sent.append(event)
        if final:
            self.ended.set()

    def end(self) -> None:
        self.ended.set()

    def is_cancelled(self) -> bool:
        return self.gone


class FakeEngine:
    """Does what the test says; a cancelled row ends with its event, as the real engine's does."""

    alive = True
    measured = None
    stats = EngineStats(rows_in_flight=0, rows_waiting=0, consecutive_failed_passes=0, seconds_since_tick=0.0)

    def __init__(self) -> None:
        self.rows: dict[str, Callable[[Any], None]] = {}
        self.traceparents: dict[str, str | None] = {}
        self.has_room = True

    def wait_for_room(self, timeout: float) -> bool:
        return self.has_room

    def submit_score(self, request: ScoreRequest, emit: Callable[[Any], None], **said: Any) -> Any:
        return self.submit(request, emit, **said)

    def submit(
        self, request: GenerateRequest | ScoreRequest, emit: Callable[[Any], None], *, traceparent: str | None = None
    ) -> Any:
        self.traceparents[request.request_id] = traceparent
        self.rows[request.request_id] = emit
        engine = self

        class Handle:
            def cancel(self) -> None:
                if engine.rows.pop(request.request_id, None) is not None:
                    emit(CANCELLED)

        return Handle()

    def close(self, *, drain: bool) -> None:
        pass


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def metrics() -> dict[tuple[str, str | None], float]:
    return {}


@pytest.fixture
def backend(engine: FakeEngine, metrics: dict[tuple[str, str | None], float]) -> Iterator[Backend]:
    """With one slot."""
    family = type("Family", (FakeFamily,), {"values": metrics})
    backend = Backend(CONFIG, family=family, heartbeat=None, load=lambda config, observer: engine)  # type: ignore[arg-type]
    yield backend
    backend.close()


def payload(request_id: str) -> list[bytes]:
    return [encode_request(GenerateRequest(request_id=request_id, prompt="x"))]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "gave up waiting"
        time.sleep(0.005)


def test_events_come_in_order_and_are_counted(
    backend: Backend, engine: FakeEngine, metrics: dict[tuple[str, str | None], float]
) -> None:
    sender = FakeSender()
    backend.accept(payload("a"), sender)
    for event in (BLOCK, FINISH):
        engine.rows["a"](event)
    assert sender.ended.wait(20)
    assert sender.sent == [BLOCK, FINISH]
    wait_until(lambda: metrics["dlm_requests_total", "stop"] == 1)
    assert metrics["dlm_time_to_first_block_seconds", None] == 1
    assert metrics["dlm_requests_total", "cancelled"] == 0


def test_a_draft_is_dropped_while_an_event_before_it_is_not_out(backend: Backend, engine: FakeEngine) -> None:
    class Slow(FakeSender):
        def send(self, event: Any, *, final: bool) -> None:
            sending.set()
            assert go_on.wait(20)
            super().send(event, final=final)

    sending, go_on, sender = threading.Event(), threading.Event(), Slow()
    backend.accept(payload("a"), sender)
    emit = engine.rows["a"]
    emit(BLOCK)
    assert sending.wait(20)
    for step in range(100):
        emit(DraftEvent(index=1, step=step + 1, text="late"))
    go_on.set()
    wait_until(lambda: sender.sent == [BLOCK])
    wait_until(lambda: next(iter(backend._delivery._streams)).delivered == 1)
    draft = DraftEvent(index=1, step=101, text="in time")
    emit(draft)
    emit(FINISH)
    assert sender.ended.wait(20)
    assert sender.sent == [BLOCK, draft, FINISH]


def test_a_draft_is_no_first_block(
    backend: Backend, engine: FakeEngine, metrics: dict[tuple[str, str | None], float]
) -> None:
    sender = FakeSender()
    backend.accept(payload("a"), sender)
    engine.rows["a"](DraftEvent(index=0, step=1, text="a"))
    engine.rows["a"](ErrorEvent(code="engine_error", message="broken"))
    assert sender.ended.wait(20)
    wait_until(lambda: metrics["dlm_requests_total", "failed"] == 1)
    assert metrics["dlm_time_to_first_block_seconds", None] == 0


def test_a_request_waits_until_a_slot_is_free(backend: Backend, engine: FakeEngine) -> None:
    backend.accept(payload("a"), FakeSender())
    second = threading.Thread(target=backend.accept, args=(payload("b"), FakeSender()))
    second.start()
    second.join(0.3)
    assert second.is_alive()
    assert "b" not in engine.rows
    engine.rows["a"](FINISH)
    second.join(20)
    assert "b" in engine.rows


def test_a_client_that_leaves_while_it_waits_for_a_slot_never_reaches_the_engine(
    backend: Backend, engine: FakeEngine, metrics: dict[tuple[str, str | None], float]
) -> None:
    backend.accept(payload("a"), FakeSender())
    sender = FakeSender()
    sender.gone = True
    backend.accept(payload("b"), sender)  # returns although the slot is taken
    assert sender.ended.wait(20)
    assert list(engine.rows) == ["a"]
    wait_until(lambda: metrics["dlm_requests_total", "cancelled"] == 1)


def test_a_client_that_leaves_between_two_blocks_frees_its_slot(backend: Backend, engine: FakeEngine) -> None:
    sender = FakeSender()
    backend.accept(payload("a"), sender)
    sender.gone = True
    assert sender.ended.wait(20)
    backend.accept(payload("b"), FakeSender())
    assert list(engine.rows) == ["b"]


def test_a_client_that_cannot_be_asked_does_not_hide_those_that_left(engine: FakeEngine) -> None:
    class Broken(FakeSender):
        def is_cancelled(self) -> bool:
            raise RuntimeError("no such request")

    delivery = Delivery(WorkerMetrics(type("Family", (FakeFamily,), {"values": {}}), CONFIG), on_end=lambda: None)
    streams = {
        name: Stream(Broken() if name != "gone" else FakeSender(), request_id=name) for name in ["a", "b", "gone"]
    }
    for name, stream in streams.items():
        stream.handle = engine.submit(GenerateRequest(request_id=name, prompt="x"), delivery.open(stream))
    gone = streams["gone"].sender
    assert isinstance(gone, FakeSender)
    gone.gone = True
    try:
        assert gone.ended.wait(20)
    finally:
        delivery.close()


def test_a_connection_that_breaks_on_a_block_frees_its_slot(backend: Backend, engine: FakeEngine) -> None:
    backend.accept(payload("a"), FakeSender(broken=True))
    engine.rows["a"](BLOCK)
    backend.accept(payload("b"), FakeSender())
    assert list(engine.rows) == ["b"]


def test_a_connection_that_breaks_on_the_last_event_frees_its_slot(backend: Backend, engine: FakeEngine) -> None:
    sender = FakeSender(broken=True)
    backend.accept(payload("a"), sender)
    engine.rows.pop("a")(FINISH)
    backend.accept(payload("b"), FakeSender())
    assert list(engine.rows) == ["b"]
    assert sender.ended.wait(20), "Triton still waits for the final flag"


def test_a_background_request_takes_no_slot_and_waits_for_none(backend: Backend, engine: FakeEngine) -> None:
    def background(name: str) -> list[bytes]:
        return [encode_request(GenerateRequest(request_id=name, prompt="x", background=True))]

    senders = [FakeSender() for _ in range(2)]
    backend.accept(background("b0"), senders[0])
    backend.accept(payload("a"), FakeSender())  # returns although the engine has but one row
    backend.accept(background("b1"), senders[1])  # returns although the slot is taken
    engine.rows["b0"](ErrorEvent(code="preempted", message="no room"))
    engine.rows["b1"](ErrorEvent(code="overloaded", message="no room"))
    assert all(sender.ended.wait(20) for sender in senders)
    waiting = threading.Thread(target=backend.accept, args=(payload("c"), FakeSender()))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive(), "the end of a background request has given away a slot that it did not have"
    engine.rows["a"](FINISH)
    waiting.join(20)
    assert "c" in engine.rows


def test_a_request_for_another_revision_is_refused_at_once(
    backend: Backend, engine: FakeEngine, metrics: dict[tuple[str, str | None], float]
) -> None:
    backend.accept(payload("a"), FakeSender(), parameters='{"revision": "0"}')
    sender = FakeSender()
    backend.accept(payload("b"), sender, parameters='{"revision": "1"}')  # returns although the slot is taken
    assert sender.ended.wait(20)
    assert sender.sent[0].code == "wrong_revision"
    assert "not 1" in sender.sent[0].message
    assert list(engine.rows) == ["a"]
    wait_until(lambda: metrics["dlm_requests_total", "refused"] == 1)


def test_lines_about_a_request_name_it_and_its_trace_and_nothing_that_it_says(
    backend: Backend, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    request = GenerateRequest(request_id="a", prompt="a secret")
    sender = FakeSender()
    with caplog.at_level("INFO"):
        backend.accept([encode_request(request)], sender, parameters=f'{{"traceparent": "{trace}"}}')
        assert engine.traceparents == {"a": trace}
        engine.rows["a"](BLOCK.model_copy(update={"text": "another secret"}))
        engine.rows["a"](FINISH)
        assert sender.ended.wait(20)
        wait_until(lambda: bool(caplog.records))
    (line,) = caplog.records
    assert (vars(line)["request_id"], vars(line)["traceparent"], vars(line)["outcome"]) == ("a", trace, "stop")
    assert not any("secret" in str(value) for value in vars(line).values())


def test_a_bad_request_takes_no_slot(backend: Backend, metrics: dict[tuple[str, str | None], float]) -> None:
    backend.accept(payload("a"), FakeSender())
    sender = FakeSender()
    backend.accept([b"{"], sender)
    assert sender.ended.wait(20)
    assert sender.sent[0].code == "invalid_request"
    wait_until(lambda: metrics["dlm_requests_total", "refused"] == 1)


def test_two_requests_in_one_call_are_refused(backend: Backend) -> None:
    sender = FakeSender()
    backend.accept(payload("a") * 2, sender)
    assert sender.ended.wait(20)
    assert "2 elements" in sender.sent[0].message


def test_a_score_takes_no_slot_and_is_counted_apart(
    backend: Backend, engine: FakeEngine, metrics: dict[tuple[str, str | None], float]
) -> None:
    backend.accept(payload("a"), FakeSender())
    senders = [FakeSender(), FakeSender()]
    for number, sender in enumerate(senders):
        request = ScoreRequest(request_id=f"s{number}", prompt="x", completion="y")
        backend.accept([encode_request(request)], sender)  # returns although the slot is taken
    engine.rows["s0"](ScoreEvent(nll=1.5, tokens=1, text_bytes=1, prompt_tokens=1))
    engine.rows["s1"](ErrorEvent(code="overloaded", message="too many"))
    assert all(sender.ended.wait(20) for sender in senders)
    assert senders[0].sent[0].nll == 1.5
    wait_until(lambda: metrics["dlm_scores_total", "refused"] == 1)
    assert metrics["dlm_scores_total", "scored"] == 1
    assert metrics["dlm_requests_total", "refused"] == 0
    assert metrics["dlm_rows_in_flight", None] == 1
