"""A release of the chart on an API server, and what the tests ask about it."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException, NotFoundException

from cluster.controlplane import ControlPlane
from tests.chart.chart import CHART, NAMESPACE, REGISTRY, RELEASE, helm, settings

CRD = "diffusionmodels.serving.diffusion-operator.dev"
_MODELS = ("serving.diffusion-operator.dev", "v1alpha1", "default", "diffusionmodels")
STORYTELLER: dict[str, Any] = {
    "apiVersion": "serving.diffusion-operator.dev/v1alpha1",
    "kind": "DiffusionModel",
    "metadata": {"name": "storyteller"},
    "spec": {
        "model": {"source": "file:///models/diffusion"},
        "fallback": {"model": {"source": "file:///models/ar"}},
    },
}


def until(look: Callable[[], bool]) -> None:
    """Wait for `look` to be true: the API server establishes and removes CRDs in its own time."""
    deadline = time.monotonic() + 60
    while not look():
        assert time.monotonic() < deadline, "waited 60 s in vain"
        time.sleep(0.1)


class Release:
    """The chart on an API server: what `helm` is asked to do, and what is there afterwards."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        api = plane.api_client()
        self.core = client.CoreV1Api(api)
        self.apps = client.AppsV1Api(api)
        self.batch = client.BatchV1Api(api)
        self.rbac = client.RbacAuthorizationV1Api(api)
        self.extensions = client.ApiextensionsV1Api(api)
        self.custom = client.CustomObjectsApi(api)

    def helm(self, *arguments: str) -> str:
        """Run helm against the API server, in the chart's namespace."""
        return helm(*arguments, f"--namespace={NAMESPACE}", kubeconfig=self.plane.kubeconfig)

    def install(self, values: dict[str, Any] | None = None, *more: str, chart: Path = CHART) -> str:
        """`helm upgrade --install`."""
        given = settings({"image.registry": REGISTRY, **(values or {})})
        return self.helm("upgrade", "--install", RELEASE, str(chart), "--create-namespace", *given, *more)

    def uninstall(self) -> str:
        """`helm uninstall`."""
        return self.helm("uninstall", RELEASE)

    @property
    def revision(self) -> int:
        """The number of the release's last revision; 0 when there is none."""
        listed = json.loads(self.helm("list", "--output=json"))
        return int(listed[0]["revision"]) if listed else 0

    def crd_names(self) -> list[str]:
        """The CRDs of the API server."""
        return [item.metadata.name for item in self.extensions.list_custom_resource_definition().items]

    def kubeconfig_of(self, account: str) -> Path:
        """A kubeconfig with a token of one of the chart's ServiceAccounts."""
        request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        token = self.core.create_namespaced_service_account_token(account, NAMESPACE, request).status.token
        config = yaml.safe_load(self.plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.plane.folder / f"{account}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def replicas(self, deployment: str) -> int:
        """How many pods a Deployment of the chart shall have."""
        found: int = self.apps.read_namespaced_deployment(deployment, NAMESPACE).spec.replicas
        return found

    def generations(self) -> dict[str, int]:
        """Generation of each Deployment of the chart: it rises with every change of the spec."""
        found = self.apps.list_namespaced_deployment(NAMESPACE).items
        return {item.metadata.name: item.metadata.generation for item in found}

    def create_model(self, **spec: Any) -> str:
        """Create the example, with more in its spec, as soon as the API server serves the CRD; its uid."""
        resource = {**STORYTELLER, "spec": {**STORYTELLER["spec"], **spec}}

        def created() -> bool:
            try:
                self.custom.create_namespaced_custom_object(*_MODELS, resource)
            except ApiException as error:
                if error.status == 404:
                    return False
                raise
            return True

        until(created)
        return self.model_uid()

    def model_uid(self) -> str:
        """The uid of the example: it stays the same for as long as the resource lives."""
        stored = self.custom.get_namespaced_custom_object(*_MODELS, "storyteller")
        return str(stored["metadata"]["uid"])

    def canary_serves(self) -> bool:
        """Whether the revision of the example's present spec has its share."""
        stored = self.custom.get_namespaced_custom_object(*_MODELS, "storyteller")
        status = stored.get("status", {})
        is_seen = status.get("observedGeneration") == stored["metadata"]["generation"]
        return is_seen and any(arm["role"] == "canary" for arm in status["routes"]["arms"])

    def delete_model(self) -> None:
        """Remove the example."""
        self.custom.delete_namespaced_custom_object(*_MODELS, "storyteller")

    def patch_model(self, patch: dict[str, Any]) -> None:
        """Merge a patch into the example."""
        self.custom.patch_namespaced_custom_object(*_MODELS, "storyteller", patch)

    def clean(self) -> None:
        """Remove the release, its CRD with the example, and what the absent garbage collector would remove with that."""
        if self.revision:
            self.uninstall()
        for name in self.crd_names():
            with contextlib.suppress(NotFoundException):  # uninstalling may have begun to remove it
                self.extensions.delete_custom_resource_definition(name)
        until(lambda: self.crd_names() == [])
        chosen = {"label_selector": "serving.diffusion-operator.dev/model=storyteller"}
        self.apps.delete_collection_namespaced_deployment("default", **chosen)
        self.core.delete_collection_namespaced_service("default", **chosen)
        self.core.delete_collection_namespaced_config_map("default", **chosen)
        self.batch.delete_collection_namespaced_job("default", **chosen, propagation_policy="Background")
        self.core.delete_collection_namespaced_pod("default", **chosen, grace_period_seconds=0)
