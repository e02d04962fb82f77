"""Which ends of containers count as crashes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.api import labels
from diffusion_operator.core.gates import Crashes
from diffusion_operator.shell.crashes import CrashLog

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _it_is_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)


def ended(*, code: int = 1, reason: str = "Error", ago: float = 10) -> dict[str, Any]:
    at = (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}


def pod(
    *, restarts: int = 0, ready: bool = False, uid: str = "1", now: Any = None, last: Any = None, **more: Any
) -> Any:
    return {
        "metadata": {
            "uid": uid,
            "labels": {labels.MODEL: "storyteller", labels.REVISION: "new"},
            **more.pop("metadata", {}),
        },
        "status": {
            "containerStatuses": [
                {
                    "name": "worker",
                    "ready": ready,
                    "restartCount": restarts,
                    "state": now or {"running": {}},
                    "lastState": last or {},
                }
            ],
            **more,
        },
    }


def crashes(*bodies: Any) -> dict[str, Crashes]:
    log = CrashLog()
    for body in bodies:
        log.note("stories", body)
    return dict(log.of("stories", "storyteller", since={}))


def test_a_container_that_was_ready_and_ended_is_a_crash_once() -> None:
    end = ended()
    assert crashes(pod(ready=True), pod(now=end), pod(restarts=1, last=end), pod(restarts=1, ready=True, last=end)) == {
        "new": Crashes(1)
    }


def test_each_run_counts() -> None:
    first, second = ended(ago=60), ended(code=137, reason="OOMKilled")
    assert crashes(
        pod(ready=True), pod(restarts=1, ready=True, last=first), pod(restarts=2, ready=True, last=second)
    ) == {"new": Crashes(2, out_of_memory=1)}


def test_a_run_that_ended_is_the_same_one_while_it_waits_to_be_started_again() -> None:
    first, second = ended(ago=60), ended()
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert crashes(
        pod(ready=True),
        pod(restarts=1, ready=True, last=first),
        pod(restarts=1, now=waits, last=second),
        pod(restarts=2, last=second),
    ) == {"new": Crashes(2)}


def test_a_pod_that_never_gets_ready_is_no_crash_while_it_waits() -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    assert crashes(pod(), pod(now=waits, last=ended()), pod(restarts=1), pod(restarts=1, now=waits, last=ended())) == {}


@pytest.mark.parametrize(
    ("started", "count"), [(-90, 2), (-30, 1), (3600, 2)], ids=["before", "between", "by a wrong clock"]
)
def test_what_happened_before_a_revision_got_its_weight_does_not_count(started: float, count: int) -> None:
    log = CrashLog()
    log.note("stories", pod(uid="1", restarts=1, ready=True, last=ended(ago=60)))
    log.note("stories", pod(uid="2", restarts=1, ready=True, last=ended(ago=10)))
    since = {"new": NOW + timedelta(seconds=started), "old": NOW}
    assert log.of("stories", "storyteller", since=since) == {"new": Crashes(count)}


def test_what_happened_before_the_operator_started_is_known_from_the_last_end() -> None:
    assert crashes(pod(restarts=3, ready=True, last=ended())) == {"new": Crashes(1)}


def test_a_pod_that_never_gets_ready_is_no_crash() -> None:
    assert crashes(pod(), pod(now=ended()), pod(restarts=1, last=ended()), pod(restarts=1, now=ended(ago=1))) == {}


@pytest.mark.parametrize(
    "body",
    [
        pod(restarts=1, ready=True, last=ended(ago=601)),
        pod(restarts=1, ready=True, last=ended(code=0, reason="Completed")),
        pod(now=ended(code=143), metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"}),
        pod(now=ended(code=137), reason="Evicted"),
    ],
    ids=["it is long ago", "it ended well", "the pod was asked to go", "the node evicted it"],
)
def test_other_ends_are_no_crashes(body: Any) -> None:
    assert crashes(body) == {}


def test_pods_that_are_replaced_after_each_crash_count_together() -> None:
    log = CrashLog()
    for uid in ("1", "2"):
        log.note("stories", pod(uid=uid, ready=True))
        log.note("stories", pod(uid=uid, now=ended()))
        log.pod_gone("stories", pod(uid=uid))
    assert log.of("stories", "storyteller", since={}) == {"new": Crashes(2)}


def test_crashes_of_a_model_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log = CrashLog()
    log.note("stories", pod(restarts=1, ready=True, last=ended()))
    assert log.of("poems", "storyteller", since={}) == {}
    log.forget("stories", "storyteller")
    assert log.of("stories", "storyteller", since={}) == {}
