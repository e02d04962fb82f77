"""All AR servers in the table: how to reach each, and what was found when it was looked at last."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import aiohttp
import structlog
from diffusion_operator.api.endpoints import LONGEST_ENDPOINT_MESSAGE
from diffusion_operator.api.models import EndpointState, EndpointStatus, FallbackEndpoint, RouteArm, endpoint_hash
from diffusion_worker.wire import GenerateRequest, ScoreRequest

from ..pool import Server
from ..reasons import Reason, WorkerError
from ..routes import ENDPOINT_TARGET, Model, Table, endpoint_target
from ..triton import TritonServer
from .http import Http, new_session
from .looking import look
from .scoring import scored_prompts
from .secrets import Secrets
from .stream import ExternalStream

_SCORING_SECONDS = 30.0
_log = structlog.get_logger()

_Key = tuple[str, FallbackEndpoint]
"""With the namespace, in which its Secret is."""


@dataclass(frozen=True)
class Pace:
    """How often servers are looked at, in seconds."""

    look: float = 10.0
    after_failure: float = 3.0
    failures: int = 2
    """In a row, before a server that was ready is not."""
    scores: float = 600.0
    """Between two looks at what it can score."""


@dataclass
class _Watched:
    http: Http
    status: EndpointStatus | None = None
    failures: int = 0
    scores_due: float = float("-inf")
    task: "asyncio.Task[NoReturn] | None" = field(default=None, repr=False)


class Endpoints:
    """One per gateway."""

    def __init__(self, *, pace: Pace | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` counts seconds."""
        self.secrets = Secrets()
        self.pace = pace or Pace()
        self._clock = clock
        self._watched: dict[_Key, _Watched] = {}
        self._by_target: dict[str, Http] = {}
        self._session: aiohttp.ClientSession | None = None

    def use_table(self, table: Table) -> None:
        """Look after the servers of this table, and of no others. Also after those that no arm has yet: the operator waits for them."""
        keys = {(model.namespace, endpoint) for model in table.models.values() for endpoint in endpoints_of(model)}
        for key in self._watched.keys() - keys:
            if task := self._watched.pop(key).task:
                task.cancel()
        for namespace, endpoint in keys - self._watched.keys():
            http = Http(session=self._shared_session, secrets=self.secrets, namespace=namespace, endpoint=endpoint)
            watched = self._watched[namespace, endpoint] = _Watched(http)
            watched.task = asyncio.create_task(self._look_after(watched))
        refs = ((namespace, endpoint.secret_ref) for namespace, endpoint in keys)
        self.secrets.keep_only({(namespace, ref.name, ref.key) for namespace, ref in refs if ref})
        self._by_target = {
            endpoint_target(model, arm): self._watched[model.namespace, arm.endpoint].http
            for model in table.models.values()
            for arm in model.arms
            if arm.endpoint
        }

    def connect(self, target: str) -> Server:
        """What a target of the table leads to. Raises `WorkerError` when it is no longer there."""
        if not target.startswith(ENDPOINT_TARGET):
            return TritonServer(target)
        if target not in self._by_target:
            raise WorkerError(Reason.UNAVAILABLE, "the server is no longer in the table")
        return _ExternalServer(self._by_target[target])

    def status(self, model: Model, endpoint: FallbackEndpoint) -> EndpointStatus | None:
        """What was found at the last look. None before the first."""
        watched = self._watched.get((model.namespace, endpoint))
        return watched.status if watched else None

    def statuses(self, model: Model) -> list[EndpointStatus]:
        """Of all servers of a model that were looked at."""
        found = (self.status(model, endpoint) for endpoint in dict.fromkeys(endpoints_of(model)))
        return [status for status in found if status is not None]

    def is_ready(self, model: Model, arm: RouteArm) -> bool:
        """Whether the server of an arm answers, as far as known."""
        status = self.status(model, arm.endpoint) if arm.endpoint else None
        return status is not None and status.is_ready

    def can_score(self, model: Model, arm: RouteArm, request: GenerateRequest) -> bool:
        """Whether an AR arm can score texts after the prompt of a request. Our own pods can; a server of others has no use for our token ids.

        While it is not known it is tried, so that what fails is counted.
        """
        if arm.endpoint is None:
            return True
        if request.prompt_token_ids is not None:
            return False
        status = self.status(model, arm.endpoint)
        able = status.scores if status else None
        return able is None or ("completions" if request.messages is None else "chats") in able

    async def close(self) -> None:
        """Stop looking, and close all connections."""
        tasks = [watched.task for watched in self._watched.values() if watched.task]
        self._watched.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def _shared_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = new_session()
        return self._session

    async def _look_after(self, watched: _Watched) -> NoReturn:
        while True:
            try:
                await self._look(watched)
            except Exception as error:  # noqa: BLE001 - one server must not stop the looks at it, whatever it sends
                _log.error("looking at an AR server failed by a mistake of ours", error=type(error).__name__)
            usual = self.pace.after_failure if watched.failures else self.pace.look
            await asyncio.sleep(usual * random.uniform(0.8, 1.2))  # noqa: S311 - spreads load, hides nothing

    async def _look(self, watched: _Watched) -> None:
        state, message = await look(watched.http)
        before = watched.status
        watched.failures = 0 if state is EndpointState.READY else watched.failures + 1
        if before and before.is_ready and 0 < watched.failures < self.pace.failures:
            return
        endpoint, scores = watched.http.endpoint, before.scores if before else None
        watched.status = EndpointStatus(
            revision=endpoint_hash(endpoint), state=state, message=message[:LONGEST_ENDPOINT_MESSAGE], scores=scores
        )
        if before is None or before.state is not state:
            watched.scores_due = self._clock()
            _log.info("AR server", url=endpoint.url, model=endpoint.model, state=state.value, message=message)
        if watched.status.is_ready and self._clock() >= watched.scores_due:
            await self._look_at_scores(watched, watched.status)

    async def _look_at_scores(self, watched: _Watched, status: EndpointStatus) -> None:
        """What cannot be told now is tried again at the next look, and until then it is as it was."""
        try:
            async with asyncio.timeout(_SCORING_SECONDS):
                able = await scored_prompts(watched.http)
        except (WorkerError, TimeoutError, aiohttp.ClientError, OSError) as error:
            _log.warning("cannot tell whether an AR server scores", url=watched.http.endpoint.url, error=str(error))
            return
        watched.scores_due = self._clock() + self.pace.scores
        if able != status.scores:
            _log.info("AR server", url=watched.http.endpoint.url, model=watched.http.model, scores=able)
        watched.status = status.model_copy(update={"scores": able})


def endpoints_of(model: Model) -> Iterator[FallbackEndpoint]:
    """Those of its arms, and the one that its spec asks for."""
    yield from (arm.endpoint for arm in model.arms if arm.endpoint)
    if model.endpoint:
        yield model.endpoint


class _ExternalServer:
    """One server, as the pool sees it. Connections belong to all of them together."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def open(
        self,
        request: GenerateRequest | ScoreRequest,
        *,
        revision: str | None,  # noqa: ARG002 - what answers there is the server's affair
        traceparent: str | None,
        clock: Callable[[], float],
    ) -> ExternalStream:
        """Send a request. Failures to connect show in the stream."""
        return ExternalStream(self._http, request, traceparent=traceparent, clock=clock)

    async def close(self) -> None:
        """Nothing to do."""
