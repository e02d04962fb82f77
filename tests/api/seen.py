"""One resource and what became of it, seen from outside. The test plays kubelet and controllers: it says when pods are ready."""

from collections.abc import Callable
from typing import Any

from diffusion_operator.api import labels

from tests.api.server import Server, until
from tests.api.test_validation import resource

MODEL = "storyteller"


class Seen:
    """One resource in one namespace, seen from outside."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    def create(self, **spec: Any) -> None:
        self.server.create(self.namespace, resource(**spec))

    def change(self, **spec: Any) -> None:
        self.server.patch(self.namespace, MODEL, {"spec": spec})

    def forget(self) -> None:
        """Delete the resource, if there is one."""
        self.server.kubectl("-n", self.namespace, "delete", "dm", MODEL, "--ignore-not-found", "--timeout=10s")

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.server.read(self.namespace, MODEL).get("status", {})
        return found

    def condition(self, type_: str) -> dict[str, Any]:
        return next((c for c in self.status.get("conditions", []) if c["type"] == type_), {})

    def arms(self) -> list[tuple[str, str, int]]:
        arms = self.status.get("routes", {}).get("arms", [])
        return [(arm["role"], arm["kind"], arm["percent"]) for arm in arms]

    def revision(self, kind: str) -> str:
        """Hash of the newest revision of a kind."""
        hashes = [r["hash"] for r in self.status.get("revisions", []) if r["template"]["kind"] == kind]
        return str(hashes[-1]) if hashes else ""

    def names(self) -> dict[str, set[str]]:
        """Names of all children by kind."""
        selector = f"{labels.MODEL}={MODEL}"
        lists: dict[str, Callable[..., Any]] = {
            "Deployment": self.server.apps.list_namespaced_deployment,
            "Service": self.server.core.list_namespaced_service,
            "ConfigMap": self.server.core.list_namespaced_config_map,
        }
        return {
            kind: {item.metadata.name for item in list_(self.namespace, label_selector=selector).items}
            for kind, list_ in lists.items()
        }

    def versions(self) -> dict[str, str]:
        """Resource versions of the resource and all its children."""
        selector = f"{labels.MODEL}={MODEL}"
        apps, core = self.server.apps, self.server.core
        items = [
            *apps.list_namespaced_deployment(self.namespace, label_selector=selector).items,
            *core.list_namespaced_service(self.namespace, label_selector=selector).items,
            *core.list_namespaced_config_map(self.namespace, label_selector=selector).items,
        ]
        versions = {f"{type(item).__name__}/{item.metadata.name}": item.metadata.resource_version for item in items}
        own = self.server.read(self.namespace, MODEL)["metadata"]["resourceVersion"]
        return {**versions, MODEL: own}

    def set_ready(self, kind: str, pods: int) -> None:
        """What the Deployment controller would report."""
        name = f"{MODEL}-{until(lambda: self.revision(kind), what=f'a {kind} revision')}"
        until(lambda: name in self.names()["Deployment"], what=f"Deployment {name}")
        self.server.apps.patch_namespaced_deployment_status(
            name, self.namespace, {"status": {"replicas": max(pods, 1), "readyReplicas": pods}}
        )

    def let_a_pod_wait(self, kind: str, reason: str) -> None:
        """What ReplicaSet controller and kubelet would make of a Deployment whose pod cannot start."""
        name = f"{MODEL}-{until(lambda: self.revision(kind), what=f'a {kind} revision')}"
        until(lambda: name in self.names()["Deployment"], what=f"Deployment {name}")
        template = self.server.apps.read_namespaced_deployment(name, self.namespace).spec.template
        self.server.core.create_namespaced_service_account(self.namespace, {"metadata": {"name": "default"}})
        self.server.core.create_namespaced_pod(
            self.namespace,
            {
                "metadata": {"name": f"{name}-0", "labels": template.metadata.labels},
                "spec": {"containers": [{"name": "worker", "image": "worker:1"}]},
            },
        )
        waiting = {"name": "worker", "image": "worker:1", "imageID": "", "ready": False, "restartCount": 0}
        waiting |= {"state": {"waiting": {"reason": reason, "message": "not found"}}}
        self.server.core.patch_namespaced_pod_status(
            f"{name}-0", self.namespace, {"status": {"containerStatuses": [waiting]}}
        )

    def until_arms(self, *arms: tuple[str, str, int]) -> None:
        until(lambda: self.arms() == list(arms), what=f"arms {arms}, not {self.arms()}")


AR_ALONE = (("stable", "ar", 100), ("fallback", "ar", 0))
PROMOTED = (("stable", "diffusion", 100), ("fallback", "ar", 0))
