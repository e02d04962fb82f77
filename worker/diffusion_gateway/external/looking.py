"""Whether an AR server can take requests: it is asked for its models."""

import asyncio
import json
from urllib.parse import quote

import aiohttp
from diffusion_operator.api.models import EndpointState

from .failures import error_in, quoted
from .http import Http

_SECONDS = 5.0
_LARGEST_LIST_BYTES = 2**20
_LISTED_IN_MESSAGE = 5

Found = tuple[EndpointState, str]
"""And why, in words that stay the same while it does."""


async def look(http: Http) -> Found:
    """Ask once. The key is read anew before, which is how a rotation is noticed."""
    ref = http.endpoint.secret_ref
    if ref is not None and (why_not := await http.secrets.refresh(http.namespace, ref)):
        return EndpointState.SECRET_MISSING, why_not
    try:
        async with asyncio.timeout(_SECONDS):
            return await _ask(http)
    except TimeoutError:
        return EndpointState.UNREACHABLE, f"GET {_url(http)} was not answered within {_SECONDS:g} s"
    except (aiohttp.ClientError, OSError) as error:
        return EndpointState.UNREACHABLE, f"GET {_url(http)}: {_told(error)}"


async def _ask(http: Http) -> Found:
    async with http.get("models") as response:
        status, body = response.status, await response.content.read(_LARGEST_LIST_BYTES)
    if status in (401, 403):
        key = "the key" if http.endpoint.secret_ref else "requests without a key (secretRef names none)"
        return EndpointState.UNAUTHORIZED, f"GET {_url(http)}: {status}, the server refuses {key}"
    if status == 429:
        return EndpointState.READY, ""  # busy, not gone
    if status != 200:
        hint = "; url must include what comes before /models, often /v1" if status == 404 else ""
        return EndpointState.UNREACHABLE, f"GET {_url(http)}: {status}, {quoted(error_in(body), b'')}{hint}"
    names = _names(body)
    http.prompt_lengths.longest = _longest(body, model=http.model)
    if names is None:
        return EndpointState.UNREACHABLE, f"GET {_url(http)} is answered with something else than a list of models"
    if http.model in names or await _knows(http):
        return EndpointState.READY, ""
    listed = ", ".join(names[:_LISTED_IN_MESSAGE]) or "nothing"
    return EndpointState.MODEL_MISSING, f"the server does not know {http.model}; it lists {listed}"


async def _knows(http: Http) -> bool:
    """Some servers answer to more names than they list."""
    async with http.get(f"models/{quote(http.model, safe='/')}") as response:
        return response.status == 200


def _told(error: aiohttp.ClientError | OSError) -> str:
    """Without addresses and numbers that differ from one look to the next: each change is written into the resource."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "the host has no address"
        case aiohttp.ClientSSLError():
            return f"the certificate is not accepted ({type(error).__name__})"
        case aiohttp.ClientConnectorError():
            return "no connection"
    return f"the connection broke ({type(error).__name__})"


def _names(body: bytes) -> list[str] | None:
    try:
        return [str(model["id"]) for model in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        return None


def _longest(body: bytes, *, model: str) -> int | None:
    """As vLLM lists it; None where a server does not."""
    try:
        found = {card["id"]: card.get("max_model_len") for card in json.loads(body)["data"]}.get(model)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if isinstance(found, int) else None


def _url(http: Http) -> str:
    return f"{http.endpoint.url.rstrip('/')}/models"
