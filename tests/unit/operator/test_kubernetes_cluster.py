"""Reading the API server's answers."""

from collections.abc import Mapping
from typing import Any

import pytest
from diffusion_operator.adapters.cluster import LiveChild, Unreadable
from diffusion_operator.adapters.errors import InvalidError
from diffusion_operator.adapters.kubernetes_cluster import KubernetesCluster
from diffusion_operator.core.children import ChildKind, children

from tests.unit.operator.builders import a_model, after, diffusion, seen

METADATA = {"name": "storyteller", "namespace": "stories", "uid": "1", "resourceVersion": "7", "generation": 1}
BROKEN_SPEC = {"model": {"source": "file:///models/storyteller"}}


class Answers:
    """Gives one answer to everything, and keeps the last query."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.answer = answer
        self.query: Mapping[str, str] | None = None

    async def request(
        self, method: str, path: str, *, what: str, query: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        self.query = query
        return self.answer


def cluster(answers: Answers) -> KubernetesCluster:
    return KubernetesCluster(answers)  # type: ignore[arg-type]


async def test_a_spec_that_cannot_be_read_comes_with_its_status() -> None:
    answers = Answers({"metadata": METADATA, "spec": BROKEN_SPEC, "status": {"routes": {"generation": 3, "arms": []}}})
    read = await cluster(answers).read_model("stories", "storyteller")
    assert isinstance(read, Unreadable)
    assert read.resource.status.routes.generation == 3
    assert "spec.fallback" in read.message


async def test_a_status_that_cannot_be_read_is_an_error_so_that_nothing_is_written_over_it() -> None:
    status = {"phase": "Dreaming", "routes": {"generation": 3, "arms": []}}
    answers = Answers({"metadata": METADATA, "spec": BROKEN_SPEC, "status": status})
    with pytest.raises(InvalidError, match=r"stories/storyteller: status\.phase.*left as it is"):
        await cluster(answers).read_model("stories", "storyteller")


async def test_only_pods_of_the_resource_itself_are_asked_what_they_wait_for() -> None:
    model = after(a_model(), seen())
    made = next(
        child for child in children(model) if child.kind is ChildKind.DEPLOYMENT and child.revision == diffusion(model)
    )
    deployment = LiveChild(
        kind=made.kind, name=made.name, revision=made.revision, is_going=False, manifest=made.manifest
    )
    answers = Answers({"items": []})
    await cluster(answers).pods(deployment, namespace="stories")
    assert answers.query == {
        "labelSelector": "serving.diffusion-operator.dev/model=storyteller,"
        f"serving.diffusion-operator.dev/revision={diffusion(model)}"
    }
