"""One cluster, one release and one storyteller for all tests of this folder; each leaves them Ready for the next."""

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from cluster import deploy
from examples import demo
from tests.e2e.fragile import Fragile

MODEL = demo.MODEL
LABEL = f"serving.diffusion-operator.dev/model={MODEL}"


class Cluster:
    """What tests ask of the cluster, in their own words."""

    def __init__(self, place: demo.Place) -> None:
        assert place.url is not None
        self.target = place.target
        self.url: str = place.url

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
        return self.target.kubectl(*arguments, stdin=stdin, timeout=timeout)

    def model(self, name: str = MODEL) -> dict[str, Any]:
        return self.target.get("diffusionmodel", name)

    def all_pods(self, selector: str, *, namespace: str = "default") -> list[dict[str, Any]]:
        """Pods, also those on their way out."""
        found: list[dict[str, Any]] = self.target.get("pods", "-n", namespace, "-l", selector)["items"]
        return found

    def pods(self, selector: str, *, namespace: str = "default") -> list[dict[str, Any]]:
        """Pods that are not on their way out."""
        return [
            pod for pod in self.all_pods(selector, namespace=namespace) if "deletionTimestamp" not in pod["metadata"]
        ]

    def ready_pods(self, selector: str, *, namespace: str = "default") -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.pods(selector, namespace=namespace)
            if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
        ]

    def condition(self, kind: str, name: str = MODEL) -> dict[str, Any]:
        conditions = self.model(name).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {"status": "Unknown", "reason": "Absent"})

    def arms(self, name: str = MODEL) -> list[dict[str, Any]]:
        """Arms of the route table that get traffic."""
        routes = self.model(name).get("status", {}).get("routes", {})
        return [arm for arm in routes.get("arms", []) if arm["percent"]]

    def patch(self, patch: dict[str, Any], name: str = MODEL) -> None:
        self.kubectl("patch", "diffusionmodel", name, "--type=merge", "-p", json.dumps(patch))

    def apply(self, manifest: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def upgrade(self, *values: str) -> None:
        """Change values of the release and wait until it runs with them."""
        settings = [word for value in values for word in ("--set", value)]
        system, chart = deploy.NAMESPACE, str(deploy.CHART)
        self.target.helm("upgrade", deploy.RELEASE, chart, "-n", system, "--reuse-values", "--wait", *settings)

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(
            **{"base_url": f"{self.url}/v1", "api_key": "none", "timeout": 120, "max_retries": 0, **options}
        )

    def everything_is_ready(self) -> bool:
        """Operator, gateways, diffusion and AR pods and the resource itself."""
        system = deploy.NAMESPACE
        return (
            self.condition("Ready")["status"] == "True"
            and len(self.ready_pods("app.kubernetes.io/component=operator", namespace=system)) == 1
            and len(self.ready_pods("app.kubernetes.io/component=gateway", namespace=system)) == 2
            and bool(self.ready_pods(f"{LABEL},serving.diffusion-operator.dev/kind=diffusion"))
            and bool(self.ready_pods(f"{LABEL},serving.diffusion-operator.dev/kind=ar"))
        )


def eventually(holds: Callable[[], Any], what: str, *, within: float = 240) -> Any:
    """Poll until `holds` returns something true, and return it; fail with `what` and the last value otherwise."""
    deadline = time.monotonic() + within
    last: Any = None
    while time.monotonic() < deadline:
        try:
            last = holds()
        except (deploy.DeployError, openai.OpenAIError) as error:
            last = error
        else:
            if last:
                return last
        time.sleep(1)
    pytest.fail(f"not within {within:.0f} s: {what}; last seen: {last!r}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The throw-away cluster with the chart and a serving storyteller."""
    if os.environ.get("KUBE_CONTEXT"):
        pytest.fail("these tests kill pods: run them on the throw-away cluster, without KUBE_CONTEXT")
    found = Cluster(demo.prepare())
    eventually(found.everything_is_ready, "operator, gateways and both arms are ready")
    yield found


@pytest.fixture(scope="session")
def fragile(cluster: Cluster) -> Iterator[Fragile]:
    """A second model, for tests that harm it; it serves when they begin."""
    made = Fragile(cluster)
    made.create()
    eventually(made.serves, "the model that will be harmed serves")
    yield made
    made.delete()


@pytest.fixture(autouse=True)
def _leave_it_ready(cluster: Cluster) -> Iterator[None]:
    yield
    eventually(cluster.everything_is_ready, "everything is Ready again without help")


@pytest.fixture(scope="session", name="eventually")
def eventually_fixture() -> Callable[..., Any]:
    return eventually
