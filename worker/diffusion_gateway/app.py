"""The HTTP endpoints, public and admin."""

import secrets
import time
from collections.abc import Callable
from typing import Any

from diffusion_operator.api.status import ArmRole
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from .access import Authorized, cors
from .answers import Answer
from .edge import EXCEPTION_HANDLERS, REQUEST_ID, EventStreamResponse, Traced, read_body, trace_of, unless_client_leaves
from .gateway import Gateway
from .openai.errors import ApiError, invalid_parameter, model_not_found, unavailable
from .openai.prompts import MAX_PROMPTS
from .openai.requests import MAX_CHOICES, ChatOrCompletion, parse_chat, parse_completion
from .openai.responses import AnswerHead, model_card, model_list
from .openai.sampling import read_workload
from .question import Question
from .routes import Model
from .stream import server_sent_events, whole_answer
from .trace import Trace

ARM = "x-diffusion-arm"
REVISION = "x-diffusion-revision"
RETRY_AFTER = "retry-after"
USER = "x-diffusion-user"
WORKLOAD = "x-diffusion-workload"
_SLOW_READER_SECONDS = 30.0


def public_app(gateway: Gateway) -> Starlette:
    """The OpenAI-compatible API."""
    api = _Api(gateway)
    routes = [
        Route("/v1/models", api.list_models, methods=["GET"]),
        Route("/v1/models/{name:path}", api.show_model, methods=["GET"]),
        Route("/v1/completions", api.completions, methods=["POST"]),
        Route("/v1/chat/completions", api.chat_completions, methods=["POST"]),
    ]
    access: list[Middleware] = []
    # Browsers ask without the key first whether they may ask with it.
    if gateway.settings.cors_origins:
        access.append(cors(gateway.settings.cors_origins, exposed=(ARM, REVISION, REQUEST_ID, RETRY_AFTER)))
    if gateway.keys is not None:
        access.append(Middleware(Authorized, keys=gateway.keys, refused=gateway.metrics.connections.refused_keys))
    return _app(gateway, routes, access)


def admin_app(gateway: Gateway) -> Starlette:
    """What the operator and Prometheus ask. Not for clients: it tells of all models, and a thousand models' metrics are 50 MB."""

    async def show_routes(_: Request) -> Response:
        table = gateway.table
        return JSONResponse(
            {
                "models": {
                    key: {
                        "generation": model.generation,
                        "arms": [arm.to_wire() | {"readyPods": gateway.ready_pods(model, arm)} for arm in model.arms],
                    }
                    for key, model in sorted(table.models.items())
                }
            }
        )

    async def show_endpoints(_: Request) -> Response:
        found = {key: gateway.endpoints.statuses(model) for key, model in sorted(gateway.table.models.items())}
        return JSONResponse(
            {"models": {key: [status.to_wire() for status in statuses] for key, statuses in found.items() if statuses}}
        )

    async def metrics(_: Request) -> Response:
        return StreamingResponse(gateway.metrics.page(), media_type=CONTENT_TYPE_LATEST)

    routes = [
        Route("/admin/routes", show_routes, methods=["GET"]),
        Route("/admin/endpoints", show_endpoints, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]
    return _app(gateway, routes, access=[])


def _app(gateway: Gateway, routes: list[Route], access: list[Middleware]) -> Starlette:
    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readiness(_: Request) -> Response:
        reason = gateway.not_ready_because()
        if reason is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "not ready", "reason": reason}, status_code=503)

    common = [
        Route("/healthz", health, methods=["GET"]),
        Route("/readyz", readiness, methods=["GET"]),
    ]
    app = Starlette(
        routes=[*routes, *common],
        middleware=[Middleware(Traced, gateway=gateway), *access],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    # A redirect of /v1/models/ would turn POST into GET in some clients.
    app.router.redirect_slashes = False
    return app


class _Api:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list_models(self, _: Request) -> Response:
        if not self._gateway.synced():
            raise _still_reading()
        served = self._gateway.table.served()
        return JSONResponse(model_list([_card(name, model) for name, model in served]))

    async def show_model(self, request: Request) -> Response:
        name = request.path_params["name"]
        model = self._find(name)
        if not model.arms:
            raise model_not_found(name)
        return JSONResponse(_card(name, model))

    async def completions(self, request: Request) -> Response:
        return await self._complete(request, parse_completion)

    async def chat_completions(self, request: Request) -> Response:
        return await self._complete(request, parse_chat)

    async def _complete(self, request: Request, parse: Callable[[bytes], ChatOrCompletion]) -> Response:
        trace = trace_of(request)
        trace.is_completion = True
        self._gateway.admit(trace)
        body = await read_body(
            request,
            limit=self._gateway.settings.max_body_bytes,
            hold=lambda size: self._gateway.hold(trace, size),
        )
        parsed = parse(body)
        table = self._gateway.table
        model = trace.model = self._find(parsed.model)
        # Drawn here, so that a second arm gets the same seed and the fingerprint is known from the first chunk on.
        seed = _drawn_seed(parsed) if parsed.seed is None else parsed.seed
        requests = parsed.to_wire(request_id=trace.worker_request_id, seed=seed)
        trace.choices, trace.choices_per_prompt = len(requests), parsed.n
        self._gateway.hold_choices(trace, len(requests))
        deadline = trace.started + self._gateway.settings.request_timeout_seconds
        question = Question(
            table=table,
            model=model,
            requests=requests,
            forced=_forced_arm(request),
            whole=not parsed.stream,
            deadline=deadline,
            traceparent=trace.context.traceparent,
            user=parsed.user or request.headers.get(USER),
            workload=parsed.workload or read_workload(request.headers.get(WORKLOAD), param=WORKLOAD),
        )
        answer = await unless_client_leaves(
            request.receive, self._gateway.dispatcher.ask(question, failures=trace.failures)
        )
        trace.arm, trace.asked_at = answer.arm, answer.asked_at
        self._gateway.pairs.watch(question, answer, is_first_choice=not trace.failures)
        head = AnswerHead(
            id=trace.unique_id,
            chat=parsed.chat,
            created=int(time.time()),
            model=parsed.model,
            revision=answer.arm.revision,
            seed=seed,
            choices_per_prompt=parsed.n,
        )
        headers = {ARM: answer.arm.role.value, REVISION: answer.arm.revision}
        if not parsed.stream:
            try:
                return JSONResponse(await whole_answer(answer, head, trace=trace), headers=headers)
            finally:
                _close(answer, trace)
        return EventStreamResponse(
            server_sent_events(answer, head, include_usage=parsed.include_usage, trace=trace),
            close=lambda: _close(answer, trace),
            trace=trace,
            timeout_seconds=max(0.0, deadline - time.monotonic()) + _SLOW_READER_SECONDS,
            headers=headers,
        )

    def _find(self, name: str) -> Model:
        """The model of a name. Raises `ApiError` (404; 503 while it is not known yet what there is)."""
        model = self._gateway.table.find(name)
        if model is None:
            # Clients give up at a 404, and a container that was restarted may get requests before its pod is unready.
            raise model_not_found(name) if self._gateway.synced() else _still_reading()
        return model


def _card(name: str, model: Model) -> dict[str, Any]:
    return model_card(
        name,
        created=model.created,
        max_model_len=model.max_sequence_length,
        revisions=tuple(dict.fromkeys(arm.revision for arm in model.arms)),
        max_choices=MAX_CHOICES,
        max_prompts=MAX_PROMPTS,
    )


def _drawn_seed(request: ChatOrCompletion) -> int:
    """Who asks for the most likely tokens expects the same answer each time, also from an arm that starts from noise."""
    return 0 if request.temperature == 0 else secrets.randbits(48)


def _still_reading() -> ApiError:
    return unavailable("The gateway has just started and does not know all models yet. Try again.")


def _close(answer: Answer, trace: Trace) -> None:
    trace.first_text_at = answer.first_text_at
    answer.close()


def _forced_arm(request: Request) -> ArmRole | None:
    given = request.headers.get(ARM)
    if given is None:
        return None
    try:
        return ArmRole(given)
    except ValueError:
        known = ", ".join(role.value for role in ArmRole)
        raise invalid_parameter(ARM, f"The header {ARM} is {given[:80]!r}; it can be {known}, or left out.") from None
