"""Containers that ended by themselves, as the watch on pods tells of them.

A pod's status remembers the last end of a container only, and one that is ready again says nothing: so each event is read
as it comes. What counts are runs that were ready, or of which nothing is known: a pod that never gets ready is told of by
other means, and takes no requests down with it.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from diffusion_operator.adapters import clock
from diffusion_operator.adapters.pods import Ended, crashed_runs, ready_runs
from diffusion_operator.api import labels
from diffusion_operator.core.gates import Crashes

# As docs/rollout-statistics.md says: two within ten minutes fail.
_REMEMBERED = timedelta(minutes=10)

Key = tuple[str, str]


@dataclass(slots=True)
class _Pod:
    """Runs of its containers: those seen, those that were ready, and ends that count."""

    revision: str
    is_gone: bool = False
    seen: set[tuple[str, int]] = field(default_factory=set)
    ready: set[tuple[str, int]] = field(default_factory=set)
    ends: dict[tuple[str, int], Ended] = field(default_factory=dict)

    def note(self, body: Mapping[str, Any]) -> None:
        self.ready |= set(ready_runs(body))
        for end in crashed_runs(body):
            run = (end.container, end.run)
            if run in self.ready or run not in self.seen:
                self.ends.setdefault(run, end)
        for container in body.get("status", {}).get("containerStatuses", ()):
            self.seen.add((container["name"], int(container.get("restartCount", 0))))


class CrashLog:
    """Crashes of the last minutes by resource. What happened before the operator started is known from pods' last end."""

    def __init__(self) -> None:
        self._pods: dict[Key, dict[str, _Pod]] = defaultdict(dict)

    def note(self, namespace: str, body: Mapping[str, Any]) -> None:
        """Read the status of one of our pods."""
        metadata = body.get("metadata", {})
        pod_labels = metadata.get("labels", {})
        model, revision, uid = pod_labels.get(labels.MODEL), pod_labels.get(labels.REVISION), metadata.get("uid")
        if not (model and revision and uid):
            return
        self._pods[namespace, model].setdefault(uid, _Pod(revision)).note(body)

    def of(self, namespace: str, model: str, *, since: Mapping[str, datetime]) -> Mapping[str, Crashes]:
        """Crashes of the last ten minutes by revision, from those times on that are in `since`.

        So that a revision that is retried is not judged by what it was rolled back for.
        """
        now = clock.now()
        pods = self._pods.get((namespace, model), {})
        recent: dict[str, list[Ended]] = defaultdict(list)
        for uid, pod in list(pods.items()):
            pod.ends = {run: end for run, end in pod.ends.items() if now - end.at < _REMEMBERED}
            ends = list(pod.ends.values())
            begun = since.get(pod.revision)
            # One that lies ahead was written by a clock that was wrong.
            recent[pod.revision] += [end for end in ends if begun is None or begun > now or end.at >= begun]
            if pod.is_gone and not ends:
                del pods[uid]
        return {
            revision: Crashes(count=len(ends), out_of_memory=sum(end.out_of_memory for end in ends))
            for revision, ends in recent.items()
            if ends
        }

    def pod_gone(self, namespace: str, body: Mapping[str, Any]) -> None:
        """A pod was removed. Its crashes count on: one that is replaced after each of them must not look healthy."""
        metadata = body.get("metadata", {})
        key = (namespace, metadata.get("labels", {}).get(labels.MODEL, ""))
        pods = self._pods.get(key, {})
        if pod := pods.get(metadata.get("uid", "")):
            pod.is_gone = True
            if not pod.ends:
                del pods[metadata["uid"]]
        if not pods:
            self.forget(*key)  # the resource may be gone for long

    def forget(self, namespace: str, model: str) -> None:
        """The resource is gone."""
        self._pods.pop((namespace, model), None)
