"""Keeps a set of Kubernetes objects in memory, equal to the API server's, through whatever happens to the connection."""

import asyncio
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import aiohttp
import structlog
import yaml
from kubernetes.aio import client, config

T = TypeVar("T")

_log = structlog.get_logger()

_FIRST_BACKOFF_SECONDS = 0.1
_LAST_BACKOFF_SECONDS = 5.0
_GONE = 410
_NO_ANSWER = (aiohttp.ClientError, client.ApiException, config.ConfigException, OSError, TimeoutError)
"""ConfigException: the service account's token cannot be read now."""
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
"""Something between us and the API server answered with JSON of its own, or the watch reports an error."""

_WHAT_TO_DO = "name a kubeconfig file with --kubeconfig, or run in a pod with a service account"


class ConfigurationError(Exception):
    """No way to the API server is configured; the message says what to do."""


class _HistoryGoneError(Exception):
    """Our place in history is no longer there: list again."""


@dataclass(frozen=True)
class Timing:
    """How long to wait for the API server."""

    list_seconds: float = 30.0
    watch_seconds: int = 60
    """The server ends a watch after this time. A connection that went silent is noticed `grace_seconds` later, because nothing else
    tells a quiet cluster from a dead connection."""
    grace_seconds: float = 10.0
    connect_seconds: float = 5.0


async def connect(kubeconfig: str | None) -> client.ApiClient:
    """A client from a kubeconfig file, or from the pod's service account.

    Raises:
        ConfigurationError: neither is there, or the file cannot be used.
    """
    # Each watch holds a connection, and there are two for each namespace: no limit (0) on how many.
    configuration = client.Configuration(connection_pool_maxsize=0)
    # The library takes files that are not there for an empty one, and complains of what it lacks.
    if kubeconfig is not None and not _exists(kubeconfig):
        raise ConfigurationError(f"no access to Kubernetes: there is no kubeconfig file {kubeconfig}; {_WHAT_TO_DO}")
    try:
        if kubeconfig is not None:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, client_configuration=configuration
            )
        else:
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
    except (config.ConfigException, yaml.YAMLError, OSError, *_UNREADABLE) as error:
        why = " ".join(str(error).split())
        source = "no service account" if kubeconfig is None else f"the kubeconfig file {kubeconfig} cannot be used"
        raise ConfigurationError(f"no access to Kubernetes: {source} ({why}); {_WHAT_TO_DO}") from None
    return client.ApiClient(configuration)


def _exists(files: str) -> bool:
    return any(Path(file).expanduser().exists() for file in files.split(os.pathsep) if file)


@dataclass(frozen=True)
class Collection:
    """What to watch."""

    group_version: str
    plural: str
    namespace: str | None = None
    """None: all namespaces."""
    label_selector: str | None = None

    @property
    def path(self) -> str:
        """Below the API server's address."""
        scope = "" if self.namespace is None else f"/namespaces/{self.namespace}"
        return f"/apis/{self.group_version}{scope}/{self.plural}"


class Watcher(Generic[T]):
    """List, then watch, for ever. `objects` is what the API server said last and stays so while it is away."""

    def __init__(
        self,
        *,
        api: client.ApiClient,
        collection: Collection,
        read: Callable[[dict[str, Any]], T | None],
        changed: Callable[[], None],
        timing: Timing,
    ) -> None:
        """`read` turns JSON into what is kept, None to leave an object out. `changed` is called after each change."""
        self._api = api
        self._collection = collection
        self._read = read
        self._changed = changed
        self._timing = timing
        self._objects: dict[str, T] = {}
        self._version: str | None = None
        """The place in history up to which `objects` is right. None: list first."""
        self._log = _log.bind(resource=collection.plural, namespace=collection.namespace or "all")
        self.synced = False
        """True once the first list succeeded."""

    @property
    def objects(self) -> Mapping[str, T]:
        """By `<namespace>/<name>`."""
        return self._objects

    async def run(self) -> None:
        """Run until cancelled."""
        clock = asyncio.get_running_loop().time
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            started, before = clock(), self._version
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except _HistoryGoneError:
                self._log.info("list again: the watch's place in history is gone")
                self._version = None
            except _NO_ANSWER as error:
                self._log.warning("no answer from the API server; keep what was last known", error=repr(error))
            except _UNREADABLE as error:
                # From the same place in history the same would come again.
                self._log.warning("list again: the API server's answer cannot be read", error=repr(error))
                self._version = None
            if self._version not in (before, None) or clock() - started > _LAST_BACKOFF_SECONDS:
                backoff = _FIRST_BACKOFF_SECONDS
            # Also after a watch that ended in peace: some server might end each of them at once.
            await asyncio.sleep(backoff * (0.5 + random.random() / 2))  # noqa: S311 - spreads load, hides nothing
            backoff = min(2 * backoff, _LAST_BACKOFF_SECONDS)

    async def _list(self) -> None:
        async with self._get(total_seconds=self._timing.list_seconds) as response:
            body = json.loads(await response.read())
        objects = {_key(item): self._read(item) for item in body["items"]}
        self._objects = {key: value for key, value in objects.items() if value is not None}
        self.synced = True
        self._version = str(body["metadata"]["resourceVersion"])
        self._changed()

    async def _watch(self) -> None:
        """Apply events until the server ends the watch."""
        total = self._timing.watch_seconds + self._timing.grace_seconds
        query = [
            ("watch", "true"),
            ("resourceVersion", str(self._version)),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(self._timing.watch_seconds)),
        ]
        async with self._get(*query, total_seconds=total) as response:
            while line := await response.content.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    if event["object"].get("code") == _GONE:
                        raise _HistoryGoneError
                    raise ValueError(f"the watch reports {event['object'].get('message', event['object'])}")
                self._apply(event["type"], event["object"])
                self._version = str(event["object"]["metadata"]["resourceVersion"])

    def _apply(self, kind: str, item: dict[str, Any]) -> None:
        if kind == "BOOKMARK":
            return
        key, value = _key(item), None if kind == "DELETED" else self._read(item)
        if value == self._objects.get(key):
            return  # the operator writes much into a status that is nothing to us
        if value is None:
            del self._objects[key]
        else:
            self._objects[key] = value
        self._changed()

    @contextlib.asynccontextmanager
    async def _get(self, *query: tuple[str, str], total_seconds: float) -> AsyncIterator[aiohttp.ClientResponse]:
        selector = self._collection.label_selector
        request = await self._api.param_serialize(
            method="GET",
            resource_path=self._collection.path,
            query_params=[*query, *([("labelSelector", selector)] if selector else [])],
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        timeout = aiohttp.ClientTimeout(total=total_seconds, sock_connect=self._timing.connect_seconds)
        # The generated methods parse a watch twice and refuse aiohttp's timeouts, so only their transport is used.
        response = (await self._api.call_api(*request, _request_timeout=timeout)).response
        try:
            if response.status == _GONE:
                raise _HistoryGoneError
            if response.status != 200:
                raise client.ApiException(status=response.status, reason=(await response.text())[:500])
            yield response
        finally:
            # Not release(): what is left of a watch never ends.
            response.close()


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
