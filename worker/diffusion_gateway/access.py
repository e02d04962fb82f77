"""Who may ask: API keys, and pages of other origins."""

from prometheus_client import Counter
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from .keys import Keys
from .openai.errors import ApiError, invalid_api_key, unavailable

_PROTECTED = "/v1/"


class Authorized:
    """Lets requests to the API in that bring a key. Health and metrics need none."""

    def __init__(self, app: ASGIApp, keys: Keys, refused: Counter) -> None:
        """`refused` counts those that brought none."""
        self._app = app
        self._keys = keys
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and scope["path"].startswith(_PROTECTED):
            problem = self._problem(Headers(scope=scope).get("authorization"))
            if problem is not None:
                self._refused.inc()
                # The body is not read, so the connection ends with this answer.
                headers = problem.headers() | {"connection": "close"}
                await JSONResponse(problem.body(), problem.status, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _problem(self, authorization: str | None) -> ApiError | None:
        keys = self._keys.current()
        if keys is None:
            return unavailable("The API keys of this gateway cannot be read; its log says why. Try again later.")
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            return invalid_api_key("This API needs a key. Send it in the header: Authorization: Bearer <key>.")
        if not keys.has(key.strip()):
            return invalid_api_key("The API key is not one of those that are known here.")
        return None


def cors(origins: tuple[str, ...], *, exposed: tuple[str, ...]) -> Middleware:
    """Lets pages of these origins ask, and read the headers `exposed`."""
    return Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=("GET", "POST"),
        # The official clients send a dozen headers of their own.
        allow_headers=("*",),
        expose_headers=exposed,
    )
