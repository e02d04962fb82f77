"""The resource and its events as `explain` tells of them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from diffusion_operator.adapters import clock
from diffusion_operator.adapters.cluster import Unreadable
from diffusion_operator.adapters.connection import Connection
from diffusion_operator.adapters.errors import AdapterError, NotFoundError
from diffusion_operator.adapters.kubernetes_cluster import KubernetesCluster
from diffusion_operator.core.explanation import SeenEvent, explain


class NoStoryError(Exception):
    """There is nothing to tell, or no way to it. The message says why."""


async def story(namespace: str, name: str, *, kubeconfig: str | None) -> str:
    """The text of `explain`.

    Raises:
        NoStoryError: the resource cannot be read.
    """
    try:
        async with await Connection.open(kubeconfig=kubeconfig) as connection:
            return await _told(connection, namespace, name)
    except NotFoundError:
        raise NoStoryError(f"there is no DiffusionModel {name} in namespace {namespace}") from None
    except AdapterError as error:
        raise NoStoryError(str(error)) from error


async def _told(connection: Connection, namespace: str, name: str) -> str:
    model = await KubernetesCluster(connection).read_model(namespace, name)
    if isinstance(model, Unreadable):
        return f"{namespace}/{name}: spec cannot be read: {model.message}\n"
    try:
        return explain(model, await _events(connection, namespace, model.metadata.uid), now=clock.now())
    except AdapterError as error:
        # The rest of the story does not depend on them.
        return (
            f"{explain(model, (), now=clock.now())}\nEvents are not shown ({error}); "
            f"`kubectl -n {namespace} events --for dm/{name}` shows what you may read of them.\n"
        )


async def _events(connection: Connection, namespace: str, uid: str) -> list[SeenEvent]:
    found = await connection.request(
        "GET",
        f"/api/v1/namespaces/{namespace}/events",
        what=f"list events of {namespace}",
        query={"fieldSelector": f"involvedObject.uid={uid}"},
    )
    return [
        SeenEvent(
            at=_time(item),
            reason=item.get("reason", ""),
            message=item.get("message", ""),
            count=int(item.get("count") or 1),
        )
        for item in found["items"]
    ]


def _time(event: Mapping[str, Any]) -> datetime:
    text = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(text).astimezone(UTC)
