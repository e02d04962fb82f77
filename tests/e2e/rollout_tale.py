"""A second DiffusionModel beside the session's, whose rollout takes seconds a step, and what tests do to it."""

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster import deploy

NAME = "tale"
LADDER = [5, 55, 100]
_LABEL = "serving.diffusion-operator.dev"
_COMMAND = f"{_LABEL}/rollout"
# Sends a signal to Triton's python stub, which is where the model runs.
_SIGNAL_STUB = """
import os, pathlib, sys
for entry in pathlib.Path('/proc').glob('[0-9]*'):
    try: name = (entry / 'comm').read_text()
    except OSError: continue
    if name.startswith('triton_python'): os.kill(int(entry.name), int(sys.argv[1])); print('done', entry.name)
"""


@dataclass(frozen=True)
class Version:
    """What spec says of a diffusion revision."""

    checkpoint: str = "storyteller"
    steps: int = 8
    sampler: str = "entropy_bound"

    def patch(self) -> dict[str, Any]:
        """As a merge patch of spec."""
        return {
            "model": {"source": f"file:///models/{self.checkpoint}"},
            "sampler": {"name": self.sampler, "maxDenoisingSteps": self.steps},
        }


# What the gates make of these under `_gates`:
#
# Twice the perplexity of AR at 8 steps, and once to twice its time, the more the busier the machine is.
GOOD = Version()
NEWER = Version(checkpoint="storyteller-2")
# Words without stories: a hundred times the perplexity of AR.
BAD = Version(checkpoint="storyteller-early")
# As good as AR, at six times its time or more.
SLOW = Version(sampler="discrete_ddim", steps=90)
# As good as GOOD, until a test kills it.
CRASHING = Version(steps=9)


def manifest(version: Version) -> str:
    """The resource, as `kubectl apply` takes it."""
    return json.dumps(
        {
            "apiVersion": f"{_LABEL}/v1alpha1",
            "kind": "DiffusionModel",
            "metadata": {"name": NAME},
            "spec": {
                "fallback": {"model": {"source": "file:///models/storyteller-ar"}},
                "resources": {"cpu": "250m", "memory": "1Gi"},
                # Clients that come to the canary at its first weight are as good as chance, and twenty times as fast.
                "routing": {"sticky": "user"},
                "scoring": {"samplePercent": 100},
                "rollout": {"initialPercent": 5, "stepPercent": 50, "stepDuration": "5s", "gates": _gates()},
                **version.patch(),
            },
        }
    )


def _gates() -> dict[str, Any]:
    """Limits that few samples can tell from what is above or below (docs/rollout-statistics.md has the intervals).

    Means take 30 samples at least: the interval of a ratio then is about a factor of 1.5 wide to Pass and of 2.5 to Fail, where
    values of a pair differ by 0.7 nats. GOOD is far below the limits of ratios, BAD and SLOW are far above one each. A share
    passes at 50 % after 6 samples, and fails after 16 of 16. p95 takes about 90 samples without one above its limit: that is
    what each step waits for, so no other gate costs time.
    """
    return {
        "perplexityRatio": {"max": 8, "minSamples": 30},
        "repetitionRate": {"max": 0.5, "minSamples": 30},
        "timeToFirstToken": {"p95": "30s", "minSamples": 30},
        "latencyRatio": {"max": 4, "minSamples": 30},
        "errorRate": {"max": 0.5, "window": "10s", "minSamples": 10},
    }


class Tale:
    """The resource on the cluster."""

    def __init__(self, cluster: Any, eventually: Callable[..., Any]) -> None:
        self._cluster = cluster
        self._eventually = eventually

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self._cluster.model(NAME).get("status", {})
        return found

    def rollout(self) -> dict[str, Any]:
        found: dict[str, Any] = self.status().get("rollout", {})
        return found

    def ask_for(self, version: Version, **rollout: Any) -> str:
        """Change spec, and return the revision that it now asks for."""
        self._cluster.patch({"spec": version.patch() | {"rollout": {"initialPercent": LADDER[0], **rollout}}}, NAME)
        return str(self._eventually(self._asked_revision, "the operator has seen the new spec"))

    def command(self, verb: str) -> None:
        """Ask once, by annotation. What comes behind the verb makes it new each time."""
        self._cluster.kubectl("annotate", "dm", NAME, "--overwrite", f"{_COMMAND}={verb}:{time.time_ns()}")

    def is_promoted(self, version: Version) -> str:
        """Have this version be the stable revision, whatever was before, without waiting for gates. Returns its revision."""
        revision = self.ask_for(version, initialPercent=100)
        failure = self.rollout().get("failure")
        if failure and failure["revision"] == revision:
            self.command("retry")
        self.wait(
            lambda state: state["phase"] == "Promoted" and state.get("stableRevision") == revision, "it is stable"
        )
        self.wait_until_in_force()
        return self.ask_for(version)

    def wait(self, holds: Callable[[dict[str, Any]], Any], what: str, *, within: float = 600) -> dict[str, Any]:
        """Wait for something of `status.rollout`, and return that."""
        last: dict[str, Any] = {}

        def found() -> Any:
            nonlocal last
            last = self.rollout()
            return last if last and holds(last) else None

        try:
            state: dict[str, Any] = self._eventually(found, what, within=within)
        except BaseException as error:
            error.add_note(
                json.dumps({key: last.get(key) for key in ("phase", "message", "history", "gates")}, indent=1)
            )
            raise
        return state

    def wait_for_canary(self, revision: str) -> None:
        """Until the revision has its first weight, and gateways have that in force."""
        self.wait(lambda state: state.get("canaryRevision") == revision, f"{revision} is the canary")
        self.wait_until_in_force()

    def wait_until_in_force(self) -> None:
        """Until every gateway works by the newest table."""
        self._eventually(self.is_in_force, "gateways have the newest routes in force")

    def is_in_force(self) -> bool:
        """Whether every gateway works by the newest table."""
        generation = self.status()["routes"]["generation"]
        return all(seen.get("generation") == generation for seen in self.seen_by_gateways())

    def seen_by_gateways(self) -> list[dict[str, Any]]:
        """The route table of the model in each gateway."""
        tables = []
        for pod in self._cluster.ready_pods("app.kubernetes.io/component=gateway", namespace=deploy.NAMESPACE):
            path = f"/api/v1/namespaces/{deploy.NAMESPACE}/pods/{pod}:8081/proxy/admin/routes"
            tables.append(json.loads(self._cluster.kubectl("get", "--raw", path))["models"].get(f"default/{NAME}", {}))
        return tables

    def changes_of(self, revision: str) -> list[tuple[int, str]]:
        """Weight and reason of each change of a revision's weight that the history has."""
        return [
            (change["percent"], change["reason"])
            for change in self.rollout().get("history", [])
            if change["revision"] == revision
        ]

    def pods(self, revision: str) -> list[dict[str, Any]]:
        """Pods of a revision that stay."""
        found: list[dict[str, Any]] = self._cluster.pods(f"{_LABEL}/model={NAME},{_LABEL}/revision={revision}")
        return found

    def is_ready(self, revision: str) -> bool:
        """Whether a pod of the revision is ready."""
        return bool(self._cluster.ready_pods(f"{_LABEL}/model={NAME},{_LABEL}/revision={revision}"))

    def restarts(self, revision: str) -> int:
        """How often containers of the revision's pods were started again."""
        return sum(one["restartCount"] for pod in self.pods(revision) for one in pod["status"]["containerStatuses"])

    def crash(self, revision: str) -> None:
        """Have the worker die once, as the kernel kills what has no memory left, and wait until it is being started again."""
        self._eventually(lambda: self.is_ready(revision), "there is a worker to kill")
        before = self.restarts(revision)
        self.signal_stub(revision, signal.SIGKILL)
        self._eventually(lambda: self.restarts(revision) > before, "the worker's container is started again")

    def signal_stub(self, revision: str, number: int) -> None:
        """Send a signal to the process in which the model runs."""
        pod = self.pods(revision)[0]["metadata"]["name"]
        assert "done" in self._cluster.kubectl("exec", pod, "--", "python", "-c", _SIGNAL_STUB, str(number))

    def events(self) -> list[tuple[str, str]]:
        """Reason and message of all events of the resource, the oldest first."""
        found = self._cluster.target.get("events", "--field-selector", f"involvedObject.name={NAME}")["items"]
        found.sort(key=lambda event: event.get("eventTime") or event.get("firstTimestamp") or "")
        return [(event["reason"], event["message"]) for event in found]

    def _asked_revision(self) -> str | None:
        model = self._cluster.model(NAME)
        status = model.get("status", {})
        if status.get("observedGeneration") != model["metadata"]["generation"]:
            return None
        wanted = Version(
            checkpoint=model["spec"]["model"]["source"].rsplit("/", 1)[1],
            steps=model["spec"]["sampler"]["maxDenoisingSteps"],
            sampler=model["spec"]["sampler"]["name"],
        ).patch()
        for revision in status.get("revisions", []):
            template = revision["template"]
            if template["kind"] == "diffusion" and all(template[key].items() >= wanted[key].items() for key in wanted):
                return str(revision["hash"])
        return None
