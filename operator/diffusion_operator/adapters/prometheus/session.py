"""The HTTP session that prometheus-api-client asks through.

The client itself has no timeout for a whole answer, follows redirects to login pages, puts long queries into the URL, and
takes a partial answer for a whole one. All of that is mended here, where it says what it sends and what it got.
"""

import io
import json
import string
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlsplit

import requests
import urllib3

from .failures import NoAnswerError, Reason
from .settings import PrometheusSettings

_MOST_BYTES = 64 * 1024 * 1024
_PIECE = 64 * 1024
_EXCERPT = 200
_UNQUOTED = frozenset(string.ascii_letters + string.digits + "_.-~% ")


class Session(requests.Session):
    """Sends forms, reads answers up to a deadline, and raises NoAnswerError for all that is no whole answer."""

    def __init__(self, settings: PrometheusSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._timeout = settings.timeout_seconds
        self._token_file = settings.bearer_token_file
        self._clock = clock
        # No proxies and no .netrc from the environment: the latter would replace the token.
        self.trust_env = False
        self.verify = not settings.insecure
        if settings.ca_file and not settings.insecure:
            self.verify = str(settings.ca_file)
        if settings.insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        *,
        params: dict[str, str],
        **_: Any,  # headers, timeout and the rest of what the client passes: ours are in its place
    ) -> requests.Response:
        """Ask; `params` go into the body, where nothing on the way has a limit for their length."""
        deadline = self._clock() + self._timeout
        sent = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if self._token_file:
            sent["Authorization"] = f"Bearer {_token(self._token_file)}"
        try:
            response = super().request(
                method, url, data=_form(params), headers=sent, timeout=self._timeout, allow_redirects=False, stream=True
            )
            with response:
                return self._read(response, deadline)
        except (requests.Timeout, urllib3.exceptions.TimeoutError) as error:
            raise self._late(url) from error
        except requests.exceptions.SSLError as error:
            raise NoAnswerError(
                Reason.UNREACHABLE,
                f"{url} is not trusted: {_cause(error)}. Give the CA that signed its certificate with --prometheus-ca-file "
                "(chart value prometheus.caSecret)",
            ) from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise NoAnswerError(
                Reason.UNREACHABLE, f"{url} cannot be asked: {_cause(error)}. Is Prometheus up, and the address right?"
            ) from error

    def _read(self, response: requests.Response, deadline: float) -> requests.Response:
        """All of the body, as a response that needs no connection any more."""
        body = bytearray()
        # One read of the socket at a time: whole pieces of one that dribbles may take for ever.
        while piece := response.raw.read1(_PIECE, decode_content=True):
            body += piece
            if self._clock() > deadline:
                raise self._late(response.url)
            if len(body) > _MOST_BYTES:
                raise NoAnswerError(
                    Reason.TOO_LARGE,
                    f"{response.url} answers with more than {_MOST_BYTES >> 20} MiB: it has more series of this model than a "
                    "few gateways make. Look for what adds labels to them",
                )
        if response.status_code != 200:
            raise _refusal(response, bytes(body))
        whole = Answer()
        whole.status_code, whole.headers, whole.url = response.status_code, response.headers, response.url
        whole.encoding = "utf-8"
        whole.raw = io.BytesIO(bytes(body))
        return whole

    def _late(self, url: str) -> NoAnswerError:
        return NoAnswerError(
            Reason.TIMEOUT,
            f"{url} did not answer in {self._timeout:g} s. Is it overloaded? --prometheus-timeout (chart value "
            "prometheus.timeout) is how long we wait",
        )


class Answer(requests.Response):
    """An answer of which only the whole is taken."""

    def json(self, **_: Any) -> Any:
        """The JSON of a successful, complete answer.

        Raises:
            NoAnswerError: it is anything else.
        """
        try:
            found = json.loads(self.content)
            is_vector_or_matrix = found["status"] == "success" and isinstance(found["data"]["result"], list)
        except (ValueError, KeyError, TypeError):
            is_vector_or_matrix = False
        if not is_vector_or_matrix:
            raise NoAnswerError(
                Reason.NOT_PROMETHEUS,
                f"{self.url} does not answer like Prometheus, but with {_excerpt(self.content)}. Is there a proxy or a login "
                "page in between, or a path missing in the address?",
            )
        if found.get("warnings"):
            raise NoAnswerError(
                Reason.INCOMPLETE,
                f"{self.url} says that its answer may be incomplete: {'; '.join(map(str, found['warnings']))[:500]}",
            )
        return found


def _form(params: Mapping[str, str]) -> str:
    """Fields as a form has them."""
    return "&".join(f"{name}={_quoted(text)}" for name, text in params.items())


def _quoted(text: str) -> str:
    """What urllib gives; it goes character by character, which takes longer for a window's query than all else that asking costs."""
    if not text.isascii():
        return quote_plus(text)
    quoted = text.replace("%", "%25")
    for sign in set(text) - _UNQUOTED:
        quoted = quoted.replace(sign, quote_plus(sign))
    return quoted.replace(" ", "+")


def _token(file: Path) -> str:
    """The token, read anew each time: Kubernetes writes a new one before the old one ends."""
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise NoAnswerError(
            Reason.CREDENTIALS,
            f"the token for Prometheus cannot be read from {file}: {why}. Look at --prometheus-bearer-token-file (chart value "
            "prometheus.bearerTokenSecret)",
        ) from error
    if not token or any(sign.isspace() or not sign.isprintable() or not sign.isascii() for sign in token):
        raise NoAnswerError(
            Reason.CREDENTIALS, f"{file} is no token for Prometheus: it must be one word, and not empty"
        )
    return token


def _refusal(response: requests.Response, body: bytes) -> NoAnswerError:
    status, url = response.status_code, response.url
    try:
        said = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        said = _excerpt(body)
    if 300 <= status < 400:
        target = urlsplit(response.headers.get("Location", ""))
        where = f"{target.scheme}://{target.netloc}{target.path}" if target.netloc else target.path
        return NoAnswerError(
            Reason.REDIRECT,
            f"{url} sends us on to {where or 'nowhere'}, where no token is ever taken. Give the address that answers itself",
        )
    if status in {401, 403, 407}:
        return NoAnswerError(
            Reason.CREDENTIALS,
            f"{url} does not let us in (HTTP {status}: {said}). Give a token that may read with "
            "--prometheus-bearer-token-file (chart value prometheus.bearerTokenSecret)",
        )
    if status in {404, 405, 501}:
        return NoAnswerError(
            Reason.NOT_PROMETHEUS,
            f"{url} takes no queries (HTTP {status}: {said}). Give the address without /api/v1, of something that answers POST",
        )
    if status in {408, 429, 502, 503, 504}:
        return NoAnswerError(
            Reason.OVERLOADED, f"{url} is overloaded, or what is behind it is down (HTTP {status}: {said})"
        )
    return NoAnswerError(Reason.REFUSED, f"{url} refuses the query (HTTP {status}: {said})")


def _cause(error: BaseException) -> str:
    """What happened, out of the four layers of wrapping that requests and urllib3 put around it."""
    found: BaseException | None = error
    last = error
    while found is not None:
        last = found
        inner = getattr(found, "reason", None) or (found.args[0] if found.args else None)
        found = inner if isinstance(inner, BaseException) else None
    return str(last).partition(": ")[2] or str(last) or type(last).__name__


def _excerpt(body: bytes) -> str:
    text = " ".join(body[: 4 * _EXCERPT].decode(errors="replace").split())
    if not text:
        return "nothing"
    return f"{text[:_EXCERPT]}{'…' if len(text) > _EXCERPT else ''}"
