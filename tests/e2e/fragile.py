"""A second model of the same checkpoints, to be harmed: small queues, short waits, and nobody needs it."""

import threading
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client, config

from tests.e2e import gateways

NAME = "fragile"
_PREFIX = "serving.diffusion-operator.dev"
_MANIFEST = f"""
apiVersion: {_PREFIX}/v1alpha1
kind: DiffusionModel
metadata: {{name: {NAME}}}
spec:
  model: {{source: "file:///models/storyteller"}}
  fallback: {{model: {{source: "file:///models/storyteller-ar"}}}}
  resources: {{cpu: 250m, memory: 1Gi}}
  limits: {{maxBatchSize: auto, maxSequenceLength: 2048, queueSize: 4, requestTimeout: 6s}}
  sampler: {{maxDenoisingSteps: 20}}  # somebody's choice: answers that do not converge are sent, so that arms can be counted
  rollout: {{initialPercent: 100}}
  scoring: {{samplePercent: 0}}
"""


class Fragile:
    """The model and its pods."""

    name = NAME
    workers = f"{_PREFIX}/model={NAME},app.kubernetes.io/name=diffusion-worker"

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def create(self) -> None:
        self._cluster.kubectl("apply", "-f", "-", stdin=_MANIFEST)

    def delete(self) -> None:
        self._cluster.kubectl("delete", "diffusionmodel", NAME, "--ignore-not-found", "--wait=false")

    def arms(self) -> list[dict[str, Any]]:
        """The route table that the operator wrote last."""
        found: list[dict[str, Any]] = self._cluster.model(NAME).get("status", {}).get("routes", {}).get("arms", [])
        return found

    def arm(self, role: str) -> dict[str, Any] | None:
        """One of its arms."""
        return next((arm for arm in self.arms() if arm["role"] == role), None)

    def revisions(self) -> list[str]:
        return [revision["hash"] for revision in self._cluster.model(NAME)["status"].get("revisions", [])]

    def deployments(self) -> list[str]:
        return [f"{NAME}-{revision}" for revision in self.revisions()]

    def pod(self, kind: str) -> dict[str, Any]:
        """The one pod of an arm, `diffusion` or `ar`."""
        (found,) = self._cluster.pods(f"{self.workers},{_PREFIX}/kind={kind}")
        return found

    def serves(self) -> bool:
        """One pod of each kind is ready, in the eyes of every gateway too, and diffusion has all the weight."""
        stable = self.arm("stable")
        return (
            self._cluster.condition("Ready", NAME)["status"] == "True"
            and stable is not None
            and stable["kind"] == "diffusion"
            and stable["percent"] == 100
            and len(self._cluster.pods(self.workers)) == 2
            and all(gateways.ready_everywhere(self._cluster, NAME, kind=kind) == {1} for kind in ("diffusion", "ar"))
        )

    def retry_if_rolled_back(self) -> None:
        """Give a revision that crashed twice another chance, as a person would who knows why it did."""
        if self._cluster.model(NAME).get("status", {}).get("rollout", {}).get("phase") == "RolledBack":
            command = f"{_PREFIX}/rollout=retry:{time.time():.0f}"
            self._cluster.kubectl("annotate", "diffusionmodel", NAME, "--overwrite", command)

    def generation(self) -> int:
        """Of the route table that the operator wrote last."""
        return int(self._cluster.model(NAME).get("status", {}).get("routes", {}).get("generation", 0))

    def until_in_force(self, eventually: Callable[..., Any]) -> None:
        """Wait until every gateway has the table that the operator wrote last."""
        eventually(
            lambda: (
                {gateways.routes(address, NAME).get("generation") for address in gateways.pods(self._cluster).values()}
                == {self.generation()}
            ),
            "all gateways have the latest table",
        )

    def seconds_until_in_force(self, change: Callable[[], None], *, within: float = 120) -> float:
        """Seconds from when the API server shows the next route table until the last gateway has it in force."""
        began, before = time.monotonic(), self.generation()
        shown: dict[str, float] = {}
        api = client.CustomObjectsApi(config.new_client_from_config(str(self._cluster.target.kubeconfig)))

        def written() -> int:  # kubectl would take as long to start as the gateways take to hear of it
            found = api.get_namespaced_custom_object(_PREFIX, "v1alpha1", "default", "diffusionmodels", NAME)
            return int(found["status"]["routes"]["generation"])

        def look(name: str, generation: Callable[[], int | None]) -> None:
            while time.monotonic() - began < within:
                if (generation() or 0) > before:
                    shown[name] = time.monotonic()
                    return
                time.sleep(0.02)

        def of(address: str) -> Callable[[], int | None]:
            return lambda: gateways.routes(address, NAME).get("generation")

        watched = {"": written, **{name: of(address) for name, address in gateways.pods(self._cluster).items()}}
        threads = [threading.Thread(target=look, args=item, daemon=True) for item in watched.items()]
        for thread in threads:
            thread.start()
        change()
        for thread in threads:
            thread.join(within)
        assert shown.keys() == watched.keys(), f"not within {within} s: {watched.keys() - shown.keys()}"
        written_at = shown.pop("")
        return max(shown.values()) - written_at
