"""HTTP to one AR server, with its key."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from diffusion_operator.api.models import FallbackEndpoint

from .prompt_lengths import PromptLengths
from .secrets import Secrets

_CONNECT_SECONDS = 5.0
# Shorter than the 5 s after which uvicorn, and with it vLLM, closes a connection that is not used: a request must not run into that.
_KEEP_ALIVE_SECONDS = 4.0


def new_session() -> aiohttp.ClientSession:
    """For all servers. How long an answer may take is up to whoever waits for it, and how many there are up to the gateway."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
    )


@dataclass(frozen=True)
class Http:
    """One server."""

    session: Callable[[], aiohttp.ClientSession]
    secrets: Secrets
    namespace: str
    """Where its Secret is."""
    endpoint: FallbackEndpoint
    prompt_lengths: PromptLengths = field(default_factory=PromptLengths)

    @property
    def model(self) -> str:
        """What the model is called there."""
        return self.endpoint.model

    def note_status(self, status: int) -> None:
        """A key that is refused is read again: it may have been changed."""
        if status in (401, 403) and self.endpoint.secret_ref is not None:
            self.secrets.doubt(self.namespace, self.endpoint.secret_ref)

    @contextlib.asynccontextmanager
    async def post(
        self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Raises `WorkerError` when there is no key; aiohttp's errors pass."""
        async with self._request("POST", path, json=body, headers=headers) as response:
            yield response

    @contextlib.asynccontextmanager
    async def get(self, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Raises `WorkerError` when there is no key; aiohttp's errors pass."""
        async with self._request("GET", path, headers={}) as response:
            yield response

    @contextlib.asynccontextmanager
    async def _request(
        self, method: str, path: str, *, headers: Mapping[str, str], json: Any = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        key = {}
        if self.endpoint.secret_ref is not None:
            token = await self.secrets.key(self.namespace, self.endpoint.secret_ref)
            key = {"authorization": f"Bearer {token}"}
        async with self.session().request(
            method,
            f"{self.endpoint.url.rstrip('/')}/{path}",
            json=json,
            headers={**headers, **key},
            allow_redirects=False,  # the key is for this server
        ) as response:
            yield response
