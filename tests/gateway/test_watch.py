"""The table follows the API server, and outlives it."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from diffusion_gateway.routes import Table
from diffusion_gateway.table_source import TableSource
from diffusion_gateway.watch import Timing, connect
from kubernetes.aio import client

from tests.gateway.fake_api import FakeApi
from tests.gateway.stack import MODELS, SLICES, Arm, eventually, model_resource, slice_resource

STABLE = Arm("stable", "diffusion", "aaaa0001", 100, 8001, [])


class Watched:
    """A table source on a fake API server."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.table = Table()
        self.tables = 0
        """How many were built."""
        self.seconds_per_table = 0.0
        """What it takes to put one in force, as with very many models."""
        self.source: TableSource | None = None
        self._client: client.ApiClient | None = None
        self._task: asyncio.Task[None] | None = None

    def use(self, table: Table) -> None:
        self.table = table
        self.tables += 1
        time.sleep(self.seconds_per_table)

    async def begin(self, *namespaces: str, **timing: Any) -> None:
        self._client = client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{self.api.port}"))
        self.source = TableSource(api=self._client, namespaces=namespaces, on_change=self.use, timing=Timing(**timing))
        self._task = asyncio.create_task(self.source.run())

    async def sync(self) -> None:
        await eventually(lambda: self.source is not None and self.source.synced)

    async def generation(self, generation: int, *, seconds: float = 60.0) -> None:
        await eventually(lambda: [m.generation for m in self.table.models.values()] == [generation], seconds=seconds)

    async def end(self) -> None:
        if self._task is not None and self._client is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._client.close()
        await self.api.stop()


@pytest.fixture
async def watched():
    watched = Watched()
    await watched.api.start()
    try:
        yield watched
    finally:
        await watched.end()


async def test_what_was_there_before_and_what_comes_later_is_seen(watched: Watched) -> None:
    await watched.api.put(MODELS, model_resource(STABLE, generation=1))
    await watched.begin()
    await watched.generation(1)
    await watched.api.put(MODELS, model_resource(STABLE, generation=2))
    await watched.generation(2)
    await watched.api.put(SLICES, slice_resource(STABLE.service, "10.0.0.1", "10.0.0.2"))
    await eventually(lambda: len(watched.table.all_targets()) == 2)
    await watched.api.delete(MODELS, "default", "story")
    await eventually(lambda: watched.table.models == {})


async def test_what_the_operator_writes_for_others_makes_no_new_table(watched: Watched) -> None:
    await watched.api.put(MODELS, model_resource(STABLE, generation=1))
    await watched.begin()
    await eventually(lambda: watched.api.watches == 2)
    tables = watched.tables
    looked_at = model_resource(STABLE, generation=1)
    looked_at["status"]["rollout"] = {"observedSeconds": 5}
    await watched.api.put(MODELS, looked_at)
    await eventually(lambda: watched.source._models[0]._version == str(watched.api._version))
    await asyncio.sleep(0)
    assert watched.tables == tables


async def test_events_that_come_together_make_one_table(watched: Watched) -> None:
    await watched.begin()
    await eventually(lambda: watched.api.watches == 2)
    tables = watched.tables
    names = [f"model-{number}" for number in range(50)]
    await asyncio.gather(*(watched.api.put(MODELS, model_resource(STABLE, name=name)) for name in names))
    await eventually(lambda: len(watched.table.models) == len(names))
    assert watched.tables < tables + len(names)


async def test_it_is_not_synced_before_both_lists_succeeded(watched: Watched) -> None:
    watched.api.list_status = 403
    await watched.begin()
    await eventually(lambda: watched.api.lists >= 4)
    assert not watched.source.synced
    watched.api.list_status = 200
    await watched.sync()


async def test_the_last_table_stays_while_the_api_server_is_away(watched: Watched) -> None:
    await watched.api.put(MODELS, model_resource(STABLE, generation=1))
    await watched.begin()
    await watched.generation(1)
    await watched.sync()
    await watched.api.stop()
    await asyncio.sleep(0.5)
    assert [model.generation for model in watched.table.models.values()] == [1]
    assert watched.source.synced
    await watched.api.put(MODELS, model_resource(STABLE, generation=2))
    await watched.api.start()
    await watched.generation(2)


async def test_a_watch_that_breaks_goes_on_from_where_it_was(watched: Watched) -> None:
    await watched.api.put(MODELS, model_resource(STABLE, generation=1))
    await watched.begin()
    await watched.generation(1)
    await eventually(lambda: watched.api.watches == 2)
    lists = watched.api.lists
    watched.api.cut_watches()
    await watched.api.put(MODELS, model_resource(STABLE, generation=2))
    await watched.generation(2)
    assert watched.api.lists == lists


async def test_when_history_is_gone_it_lists_again_and_drops_what_was_deleted_meanwhile(watched: Watched) -> None:
    await watched.api.put(MODELS, model_resource(STABLE, name="other"))
    await watched.api.put(MODELS, model_resource(STABLE))
    await watched.begin()
    await eventually(lambda: len(watched.table.models) == 2 and watched.api.watches == 2)
    lists = watched.api.lists
    watched.api.cut_watches()
    await watched.api.delete(MODELS, "default", "other")
    watched.api.forget_history()
    await eventually(lambda: watched.table.models.keys() == {"default/story"})
    assert watched.api.lists > lists


async def test_an_event_that_cannot_be_read_does_not_come_again_and_again(watched: Watched) -> None:
    await watched.api.put(MODELS, model_resource(STABLE, generation=1))
    await watched.begin()
    await watched.generation(1)
    await eventually(lambda: watched.api.watches == 2)
    lists = watched.api.lists
    await watched.api.garble(MODELS)
    await watched.api.put(MODELS, model_resource(STABLE, generation=2))
    await watched.generation(2)
    assert watched.api.lists == lists + 1


async def test_bookmarks_keep_the_place_in_history_fresh(watched: Watched) -> None:
    await watched.api.put(MODELS, model_resource(STABLE, generation=1))
    await watched.begin()
    await watched.generation(1)
    await eventually(lambda: watched.api.watches == 2)
    watched.api.forget_history()
    await watched.api.bookmark(MODELS)
    await watched.api.bookmark(SLICES)
    await eventually(lambda: watched.source._slices[0]._version == str(watched.api._version))
    lists = watched.api.lists
    await watched.api.put(MODELS, model_resource(STABLE, generation=2))
    await watched.generation(2)
    watched.api.cut_watches()
    await eventually(lambda: watched.api.watches == 4)
    await watched.api.put(MODELS, model_resource(STABLE, generation=3))
    await watched.generation(3)
    assert watched.api.lists == lists


async def test_a_connection_that_went_silent_is_noticed(watched: Watched) -> None:
    await watched.api.put(MODELS, model_resource(STABLE, generation=1))
    await watched.begin(watch_seconds=1, grace_seconds=0.2)
    await watched.generation(1)
    await eventually(lambda: watched.api.watches >= 2)
    watched.api.silent = True
    await watched.api.put(MODELS, model_resource(STABLE, generation=2))
    silent = watched.api.watches
    await eventually(lambda: watched.api.watches >= silent + 2)
    watched.api.silent = False
    await watched.generation(2)


async def test_watches_that_the_server_ends_in_peace_are_resumed(watched: Watched) -> None:
    await watched.begin(watch_seconds=1)
    await eventually(lambda: watched.api.watches >= 4)
    assert watched.api.lists == 2
    await watched.api.put(MODELS, model_resource(STABLE, generation=5))
    await watched.generation(5)


async def test_only_the_given_namespaces_are_watched(watched: Watched) -> None:
    for namespace in ("a", "b", "c"):
        await watched.api.put(MODELS, model_resource(STABLE, namespace=namespace))
    await watched.begin("a", "b")
    await watched.sync()
    assert watched.table.models.keys() == {"a/story", "b/story"}
    assert watched.table.find("a/story") is not None
    assert watched.table.find("c/story") is None


async def test_there_may_be_more_namespaces_than_a_pool_has_connections(watched: Watched, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    address = f"http://127.0.0.1:{watched.api.port}"
    kubeconfig.write_text(
        f"{{apiVersion: v1, kind: Config, current-context: fake, clusters: [{{name: fake, cluster: {{server: '{address}'}}}}],"
        " users: [], contexts: [{name: fake, context: {cluster: fake}}]}"
    )
    names = [f"team-{number}" for number in range(60)]
    async with await connect(str(kubeconfig)) as api:
        source = TableSource(api=api, namespaces=names, on_change=watched.use)
        task = asyncio.create_task(source.run())
        try:
            await eventually(lambda: source.synced and watched.api.watches == 2 * len(names))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_other_peoples_endpoint_slices_are_not_asked_for(watched: Watched) -> None:
    stranger = slice_resource("web", "10.0.0.9")
    stranger["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm"
    await watched.api.put(SLICES, stranger)
    await watched.api.put(SLICES, slice_resource(STABLE.service, "10.0.0.1"))
    await watched.begin()
    await watched.sync()
    assert {key.name for key in watched.table.pods} == {STABLE.service}


async def test_a_resource_that_cannot_be_read_does_not_stop_the_others(watched: Watched) -> None:
    broken = model_resource(STABLE, name="broken")
    broken["status"]["routes"]["generation"] = "many"
    await watched.api.put(MODELS, broken)
    await watched.api.put(MODELS, model_resource(STABLE))
    await watched.begin()
    await watched.sync()
    assert watched.table.models.keys() == {"default/story"}


async def test_tables_that_take_long_leave_most_of_the_time_to_requests(watched: Watched) -> None:
    await watched.begin()
    await watched.sync()
    watched.seconds_per_table = 0.02
    turns, begun = 0, watched.tables
    while watched.tables < begun + 5:
        await watched.api.put(MODELS, model_resource(STABLE, generation=turns))
        await asyncio.sleep(0)
        turns += 1
    assert turns > 5 * 25
    await watched.generation(turns - 1)
