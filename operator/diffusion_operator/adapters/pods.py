"""What pods that are not ready wait for, in one sentence that stays the same while the cause does."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of a container that ended by itself and not well. `run` counts the container's runs from 0."""

    container: str
    run: int
    at: datetime
    out_of_memory: bool


# Ends of a pod that a node or the cluster brought about.
_NOT_ITS_FAULT = frozenset(
    {"Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"}
)


def ready_runs(pod: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The containers that are ready, and which of their runs it is."""
    for container in pod.get("status", {}).get("containerStatuses", ()):
        if container.get("ready"):
            yield container["name"], int(container.get("restartCount", 0))


def crashed_runs(pod: Mapping[str, Any]) -> Iterator[Ended]:
    """Runs that ended with an error, as far as the pod's status remembers. None of a pod that was asked to go."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod.get("metadata", {}) or status.get("reason") in _NOT_ITS_FAULT:
        return
    for container in status.get("containerStatuses", ()):
        now, before = container.get("state", {}), container.get("lastState", {})
        restarts = int(container.get("restartCount", 0))
        # While it waits to be started again, the count is still that of the run that ended.
        for state, run in ((now, restarts), (before, restarts if "waiting" in now else restarts - 1)):
            end = state.get("terminated")
            if end and end.get("exitCode") and end.get("finishedAt"):
                yield Ended(
                    container=container["name"],
                    run=run,
                    at=datetime.fromisoformat(end["finishedAt"]),
                    out_of_memory=end.get("reason") == "OOMKilled",
                )


def is_stuck(deployment_status: Mapping[str, Any]) -> bool:
    """Whether a Deployment made no progress within its deadline."""
    return any(
        condition["type"] == "Progressing" and condition["status"] == "False"
        for condition in deployment_status.get("conditions", ())
    )


def waiting_for(pods: Iterable[Mapping[str, Any]], *, deployment: Mapping[str, Any]) -> str:
    """The first cause that is known, of the pods or of their Deployment; empty when there is none."""
    staying = [pod for pod in pods if "deletionTimestamp" not in pod.get("metadata", {})]
    causes = sorted({cause for pod in staying for cause in _pod_causes(pod)})
    return next(iter([*causes, *_deployment_causes(deployment)]), "")[:_LONGEST]


def ended(pod: Mapping[str, Any]) -> tuple[bool, str] | None:
    """Whether a pod of one container that ended did so well, and its last word; None while it has not ended.

    The word of one that ended well is all of what it left behind, of another the last line.
    """
    status = pod.get("status", {})
    for container in status.get("containerStatuses", ()):
        terminated = container.get("state", {}).get("terminated")
        if terminated and terminated["exitCode"] == 0:
            return True, str(terminated.get("message", ""))
        if terminated:
            return False, _why(terminated)
    if status.get("phase") == "Failed":  # such as a pod that its node evicted
        return False, ": ".join(filter(None, (status.get("reason"), status.get("message")))) or "the pod failed"
    return None


def _pod_causes(pod: Mapping[str, Any]) -> Iterator[str]:
    status = pod.get("status", {})
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield f"no node fits ({condition.get('message', condition.get('reason', ''))})"
    for container in status.get("containerStatuses", ()):
        terminated = container.get("state", {}).get("terminated") or container.get("lastState", {}).get("terminated")
        waiting = container.get("state", {}).get("waiting", {})
        if terminated and not container.get("ready"):
            yield f"the worker ended with exit code {terminated['exitCode']} ({_why(terminated)})"
        elif waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
            yield _waiting(waiting["reason"], waiting.get("message", "no message"))


def _waiting(reason: str, message: str) -> str:
    """Why a container waits. Between two pulls kubelet reports a wait that quotes the failure: that is the same cause."""
    _, quotes, failure = message.partition(": ErrImagePull: ")
    return f"ErrImagePull ({failure})" if quotes else f"{reason} ({message})"


def _why(terminated: Mapping[str, Any]) -> str:
    """The last line of what the container said, or Kubernetes' word for it."""
    lines = str(terminated.get("message", "")).strip().splitlines()
    return lines[-1] if lines else str(terminated.get("reason", "no reason"))


def _deployment_causes(status: Mapping[str, Any]) -> Iterator[str]:
    for condition in status.get("conditions", ()):
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            yield f"pods are refused ({condition.get('message', '')})"
