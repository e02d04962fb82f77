"""One HTTP connection pool to the API server."""

import json
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import client

from . import kubeconfig as kubeconfig_file
from .errors import from_response, translated

# A healthy API server answers in milliseconds. Without a limit one lost packet would stop a loop for five minutes.
_TIMEOUT = aiohttp.ClientTimeout(total=15, connect=5)


class Connection:
    """Requests to the API server, as JSON. Made within a running event loop; use it as an async context manager."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api

    @classmethod
    async def open(cls, *, kubeconfig: str | None) -> Self:
        """Connect as the pod's service account, or by a kubeconfig file when one is named or we run outside a cluster.

        Raises:
            NoClusterError: there is neither, or the file cannot be used.
        """
        configuration = client.Configuration()
        await kubeconfig_file.load(configuration, kubeconfig)
        # Left to aiohttp, proxies and .netrc are looked for anew, in a thread, for each request.
        configuration.proxy = configuration.proxy or _proxy_for(configuration.host)
        configuration.client_session_kwargs = {"trust_env": False}
        return cls(client.ApiClient(configuration))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.close()  # type: ignore[no-untyped-call]

    async def request(
        self,
        method: str,
        path: str,
        *,
        what: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> dict[str, Any]:
        """Send one request and return the JSON of the answer.

        Raises:
            AdapterError: in the terms of `errors`.
        """
        with translated(what):
            method, url, headers, _, _ = await self._api.param_serialize(
                method,
                f"{path}?{urlencode(query)}" if query else path,
                query_params=[],
                header_params={"Accept": accept, "Content-Type": content_type},
                auth_settings=["BearerToken"],
            )
            response = await self._api.call_api(method, url, headers, body, _request_timeout=_TIMEOUT)
            data: bytes = await response.read()  # type: ignore[no-untyped-call]
            if response.status >= 300:
                raise from_response(
                    what,
                    status=response.status,
                    body=data.decode(errors="replace"),
                    retry_after=response.headers.get("Retry-After"),
                )
            parsed: dict[str, Any] = json.loads(data)
            return parsed


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for an address, if any."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
