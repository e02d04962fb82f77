"""The table in force: built anew whenever a watcher saw a change."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

import aiohttp
from diffusion_operator.api import labels
from kubernetes.aio import client

from .external.secrets import SecretError
from .resources import Slice, build_table, read_model, read_slice
from .routes import Model, Table
from .watch import Collection, Timing, Watcher

_SECRET_SECONDS = 5.0
# With a thousand models a table takes 25 ms. While that many come into being there are hundreds of changes a second, and requests
# would wait for one table after the other.
_REST_PER_TABLE = 4.0
_LONGEST_REST_SECONDS = 0.2
_EVERYWHERE: tuple[str | None, ...] = (None,)


class TableSource:
    """Watches DiffusionModels and the EndpointSlices of their Services, cluster-wide or in some namespaces."""

    def __init__(
        self,
        *,
        api: client.ApiClient,
        namespaces: Iterable[str] = (),
        on_change: Callable[[Table], None],
        timing: Timing | None = None,
    ) -> None:
        """`on_change` gets each new table, as soon as an event is read unless tables take long. No namespaces: all of them."""
        self._core = client.CoreV1Api(api)
        self._on_change = on_change
        self._is_due = False
        self._rests_until = float("-inf")
        self.synced = False
        """True once there is a table from all first lists."""
        scopes = tuple(namespaces) or _EVERYWHERE
        timing = timing or Timing()
        self._models: list[Watcher[Model]] = [
            Watcher(
                api=api,
                collection=Collection(labels.API_VERSION, labels.PLURAL, scope),
                read=read_model,
                changed=self._rebuild_soon,
                timing=timing,
            )
            for scope in scopes
        ]
        # A Service's labels are copied to its EndpointSlices, so other people's pods need not pass through here.
        selector = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
        self._slices: list[Watcher[Slice]] = [
            Watcher(
                api=api,
                collection=Collection("discovery.k8s.io/v1", "endpointslices", scope, selector),
                read=read_slice,
                changed=self._rebuild_soon,
                timing=timing,
            )
            for scope in scopes
        ]

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for models in self._models:
                tasks.create_task(models.run())
            for slices in self._slices:
                tasks.create_task(slices.run())

    async def read_secret(self, namespace: str, name: str) -> Mapping[str, str]:
        """`data` of a Secret: base64, by entry. Raises `SecretError`."""
        try:
            secret = await self._core.read_namespaced_secret(name, namespace, _request_timeout=_SECRET_SECONDS)
        except client.ApiException as error:
            match error.status:
                case 404:
                    raise SecretError(f"there is no Secret {name} in namespace {namespace}") from None
                case 403:
                    why = "the gateway may not read it; see docs/external-fallback.md, or set gateway.readSecrets"
                    raise SecretError(f"Secret {name}: {why}") from None
            raise SecretError(
                f"Secret {name}: the API server answers {error.status} {error.reason}", is_certain=False
            ) from None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise SecretError(
                f"Secret {name}: the API server does not answer ({type(error).__name__})", is_certain=False
            ) from None
        return {name: str(value) for name, value in (secret.data or {}).items()}

    def _rebuild_soon(self) -> None:
        """Once for all events that came together: at once, or after a rest in proportion to what the last table took."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(max(0.0, self._rests_until - time.monotonic()), self._rebuild)

    def _rebuild(self) -> None:
        self._is_due = False
        began = time.monotonic()
        models = [model for watcher in self._models for model in watcher.objects.values()]
        slices = [item for watcher in self._slices for item in watcher.objects.values()]
        self._on_change(build_table(models, slices))
        self.synced = all(each.synced for each in self._models) and all(each.synced for each in self._slices)
        now = time.monotonic()
        self._rests_until = now + min(_REST_PER_TABLE * (now - began), _LONGEST_REST_SECONDS)
