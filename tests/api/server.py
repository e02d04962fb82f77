"""What tests do with the API server."""

import itertools
import json
import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

from diffusion_operator.api import labels
from kubernetes import client

from cluster.controlplane import ControlPlane

_SECONDS = 30.0

T = TypeVar("T")


def until(probe: Callable[[], T], *, what: str, seconds: float = _SECONDS) -> T:
    """The first true answer of `probe`."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)
    return answer


class Server:
    """A client of the API server, as its administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api = plane.api_client()
        self.custom = client.CustomObjectsApi(self.api)
        self.core = client.CoreV1Api(self.api)
        self.apps = client.AppsV1Api(self.api)
        self._numbers = itertools.count()

    def until_established(self, crd: dict[str, Any]) -> None:
        """Wait until the API server serves the CRD."""
        extensions = client.ApiextensionsV1Api(self.api)
        name = crd["metadata"]["name"]

        def established() -> bool:
            status = extensions.read_custom_resource_definition(name).status
            return any(c.type == "Established" and c.status == "True" for c in (status and status.conditions) or [])

        until(established, what=f"{name} is established")

    def new_namespace(self) -> str:
        name = f"test-{next(self._numbers)}"
        self.core.create_namespace({"metadata": {"name": name}})
        return name

    def create(self, namespace: str, resource: dict[str, Any]) -> dict[str, Any]:
        """Create a DiffusionModel as kubectl does, refusing unknown fields."""
        answer: dict[str, Any] = self.custom.create_namespaced_custom_object(
            labels.GROUP, labels.VERSION, namespace, labels.PLURAL, resource, field_validation="Strict"
        )
        return answer

    def read(self, namespace: str, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.custom.get_namespaced_custom_object(
            labels.GROUP, labels.VERSION, namespace, labels.PLURAL, name
        )
        return answer

    def patch(self, namespace: str, name: str, change: dict[str, Any]) -> None:
        self.custom.patch_namespaced_custom_object(
            labels.GROUP,
            labels.VERSION,
            namespace,
            labels.PLURAL,
            name,
            change,
            _content_type="application/merge-patch+json",
        )

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        """Standard output of kubectl."""
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.plane.kubeconfig}", *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done.stdout


def message_of(error: client.exceptions.ApiException) -> str:
    """What the API server says to a person."""
    return str(json.loads(error.body or "{}").get("message", ""))
