"""Reading the API server's answers."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from diffusion_operator.adapters import clock
from diffusion_operator.adapters.cluster import LiveChild, Unreadable
from diffusion_operator.adapters.errors import ConflictError, InvalidError, NotFoundError, TransientError
from diffusion_operator.adapters.known_objects import KnownObjects
from diffusion_operator.adapters.kubernetes_cluster import KubernetesCluster
from diffusion_operator.api.models import DiffusionModel
from diffusion_operator.core.children import Child, ChildKind, children

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


class Server:
    """Keeps objects, as far as children need one. Lists `page` of them in one answer, and counts lists."""

    def __init__(self, *, page: int = 1000) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.lists = 0
        self.page = page
        self.is_down = False
        self.finalized: set[str] = set()

    async def request(
        self,
        method: str,
        path: str,
        *,
        what: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        **_: Any,
    ) -> Mapping[str, Any]:
        if method == "GET":
            self.lists += 1
            await asyncio.sleep(0)
            if self.is_down:
                raise TransientError(what)
            found = [item for place, item in self.objects.items() if place.startswith(f"{path}/")]
            begin = int((query or {}).get("continue", 0))
            end = begin + self.page
            more = {"continue": str(end)} if end < len(found) else {}
            return {"apiVersion": "v1", "metadata": more, "items": found[begin:end]}
        if method == "DELETE":
            if path not in self.objects:
                raise NotFoundError(what)
            if path in self.finalized:
                self.objects[path]["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "99"}
                return self.objects[path]
            del self.objects[path]
            return {"kind": "Status"}
        assert body is not None
        versions = {"uid": path, "resourceVersion": str(len(self.objects) + 1)}
        self.objects[path] = {**body, "metadata": {**body["metadata"], **versions}}
        return self.objects[path]


def made_of(server: Server) -> tuple[KubernetesCluster, tuple[Child, ...]]:
    """The cluster, and the children of a resource, of which none is there."""
    made = KubernetesCluster(server, known=KnownObjects())  # type: ignore[arg-type]
    return made, children(after(a_model(), seen()))


async def names(cluster: KubernetesCluster) -> list[tuple[ChildKind, str]]:
    return [(child.kind, child.name) for child in await cluster.live_children("stories", "storyteller")]


async def test_children_are_listed_once_and_what_is_written_then_is_known() -> None:
    server = Server()
    cluster, wanted = made_of(server)
    assert await names(cluster) == []
    lists = server.lists
    for child in wanted:
        await cluster.apply(child)
    assert await names(cluster) == [(child.kind, child.name) for child in wanted]
    (first, *_) = await cluster.live_children("stories", "storyteller")
    await cluster.delete(first, namespace="stories")
    assert await names(cluster) == [(child.kind, child.name) for child in wanted[1:]]
    assert server.lists == lists


async def test_a_child_that_something_keeps_from_going_is_known_to_be_going() -> None:
    server = Server()
    cluster, wanted = made_of(server)
    await names(cluster)
    await cluster.apply(wanted[0])
    server.finalized = set(server.objects)
    (child,) = await cluster.live_children("stories", "storyteller")
    await cluster.delete(child, namespace="stories")
    (going,) = await cluster.live_children("stories", "storyteller")
    assert going.is_going


async def test_all_pages_of_a_list_are_read_once_for_all_resources_of_a_namespace() -> None:
    server = Server(page=1)
    _, wanted = made_of(server)
    for child in wanted:
        await KubernetesCluster(server).apply(child)  # type: ignore[arg-type]
    cluster, _ = made_of(server)
    assert await names(cluster) == [(child.kind, child.name) for child in sorted(wanted, key=kind_order)]
    lists = server.lists
    assert lists > len(ChildKind)
    assert await cluster.live_children("stories", "poet") == ()
    assert server.lists == lists


def kind_order(child: Child) -> int:
    return list(ChildKind).index(child.kind)


async def test_resources_whose_passes_begin_at_once_wait_for_one_list() -> None:
    server = Server()
    cluster, _ = made_of(server)
    await asyncio.gather(*(cluster.live_children("stories", f"model-{number}") for number in range(9)))
    assert server.lists == len(ChildKind)


async def test_resources_that_wait_for_a_list_that_fails_fail_with_it_and_the_next_pass_lists_anew() -> None:
    server = Server()
    cluster, _ = made_of(server)
    server.is_down = True
    passes = [cluster.live_children("stories", f"model-{number}") for number in range(9)]
    failures = await asyncio.gather(*passes, return_exceptions=True)
    assert [type(failure) for failure in failures] == [TransientError] * 9
    assert server.lists == 1
    server.is_down = False
    assert await names(cluster) == []


async def test_a_pass_that_is_given_up_leaves_the_list_to_the_others() -> None:
    server = Server()
    cluster, _ = made_of(server)
    given_up = asyncio.create_task(cluster.live_children("stories", "storyteller"))
    other = asyncio.create_task(cluster.live_children("stories", "poet"))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await other == ()
    assert server.lists == len(ChildKind)


async def test_a_pass_that_begins_after_a_watch_did_takes_no_list_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1000))
    monkeypatch.setattr(clock, "monotonic", lambda: next(now))
    server, known = Server(), KnownObjects()
    cluster = KubernetesCluster(server, known=known)  # type: ignore[arg-type]
    early = asyncio.create_task(cluster.live_children("stories", "storyteller"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert server.lists
    known.doubt()
    late = asyncio.create_task(cluster.live_children("stories", "storyteller"))
    await asyncio.gather(early, late)
    assert server.lists == 2 * len(ChildKind)


async def test_a_resource_is_read_once_and_then_known_until_a_write_comes_too_late() -> None:
    raw = {
        "metadata": METADATA,
        "spec": {"model": {"source": "file:///a"}, "fallback": {"model": {"source": "file:///b"}}},
    }
    server = Resource(raw)
    cluster = KubernetesCluster(server, known=KnownObjects())  # type: ignore[arg-type]
    read = await cluster.read_model("stories", "storyteller")
    assert isinstance(read, DiffusionModel)
    await cluster.read_model("stories", "storyteller")
    assert server.reads == 1
    server.raw = {**raw, "metadata": {**METADATA, "resourceVersion": "8"}}
    with pytest.raises(ConflictError):
        await cluster.write_status(read.metadata, read.status)
    read = await cluster.read_model("stories", "storyteller")
    assert server.reads == 2
    assert isinstance(read, DiffusionModel)
    written = await cluster.write_status(read.metadata, read.status)
    again = await cluster.read_model("stories", "storyteller")
    assert (server.reads, again.metadata) == (2, written)  # type: ignore[union-attr]


class Resource:
    """Keeps one resource, and takes a status for its newest version only."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.reads = 0

    async def request(self, method: str, path: str, *, what: str, **more: Any) -> Mapping[str, Any]:
        if method == "GET":
            self.reads += 1
            return self.raw
        metadata = self.raw["metadata"]
        if more["body"]["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise ConflictError(what)
        version = str(int(metadata["resourceVersion"]) + 1)
        self.raw = {**self.raw, "metadata": {**metadata, "resourceVersion": version}, "status": more["body"]["status"]}
        return self.raw


async def test_without_watches_children_are_listed_each_time() -> None:
    server = Server()
    cluster = KubernetesCluster(server)  # type: ignore[arg-type]
    await names(cluster)
    lists = server.lists
    await names(cluster)
    assert server.lists == 2 * lists
