"""A server that speaks OpenAI's API, or fails to, as a test says: what `fallback.endpoint` names."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Respond = Callable[[web.Request, Json], Awaitable[web.StreamResponse]]

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


class FakeOpenAI:
    """Knows one model. Its texts have one token per word."""

    def __init__(self, respond: Respond | None = None) -> None:
        self.respond = respond or says("Hello", " from", " outside")
        """Answers streamed completions and chats."""
        self.model = "twin"
        self.models_status = 200
        self.max_model_len: int | None = None
        self.keys: set[str] | None = None
        """None: everyone may ask."""
        self.scores: set[str] = {"chats", "completions"}
        self.nats: Callable[[str], float] = lambda _: 1.0
        """Of each token of a text."""
        self.requests: list[Json] = []
        """Bodies of what was streamed."""
        self.scored: list[Json] = []
        """Bodies of what was not streamed."""
        self.headers: list[Mapping[str, str]] = []
        """Of all posts, by lower-case names."""
        self.looks = 0
        self.gone = asyncio.Event()
        """Set when a client left before it had its answer."""
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._post)
        app.router.add_post("/v1/completions", self._post)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def kill(self) -> None:
        """Away, with all connections. `start` brings it back at the same address."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self.keys is None or request.headers.get("authorization", "") in {f"Bearer {key}" for key in self.keys}:
            return None
        return error(401, "Incorrect API key provided")

    async def _models(self, request: web.Request) -> web.StreamResponse:
        self.looks += 1
        if self.models_status != 200:
            return error(self.models_status, "no")
        return self._refusal(request) or web.json_response(
            {"object": "list", "data": [{"id": self.model, "max_model_len": self.max_model_len}]}
        )

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if refusal := self._refusal(request):
            return refusal
        if not body["stream"]:
            self.scored.append(body)
            return self._score(body, is_chat=request.path.endswith("/chat/completions"))
        self.requests.append(body)
        try:
            return await self.respond(request, body)
        except (asyncio.CancelledError, ConnectionResetError):
            self.gone.set()
            raise

    def _score(self, body: Json, *, is_chat: bool) -> web.Response:
        if is_chat:
            *before, last = body["messages"]
            continued = body.get("continue_final_message", False)
            prompt = " ".join(
                ["<chat>", *(turn["content"] for turn in (before if continued else [*before, last])), ":"]
            )
            text = last["content"] if continued else ""
            values = [None, *([1.0] * (len(prompt.split()) - 1)), *([self.nats(text.strip())] * len(text.split()))]
            answer: Json = {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": len(values)}}
            if "prompt_logprobs" in body and "chats" in self.scores:
                found = [None if value is None else {"5": {"logprob": -value, "rank": 1}} for value in values]
                answer["prompt_logprobs"] = found
            return web.json_response(answer)
        tokens = body["prompt"].split()
        answer = {"choices": [{"text": "x", "logprobs": None}], "usage": {"prompt_tokens": len(tokens)}}
        if body.get("echo"):
            if "completions" not in self.scores:
                return error(400, "echo is not supported", param="echo")
            values = [None, *([-self.nats(body["prompt"])] * (len(tokens) - 1)), -9.0]  # and the one that it generates
            answer["choices"][0]["logprobs"] = {"tokens": [*tokens, "x"], "token_logprobs": values}
        return web.json_response(answer)


def error(status: int, message: str, **more: Any) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "error", **more}}, status=status)


async def begin(request: web.Request) -> web.StreamResponse:
    """The header of a stream."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    return response


async def send(response: web.StreamResponse, *chunks: Json | str) -> None:
    for chunk in chunks:
        data = chunk if isinstance(chunk, str) else json.dumps(chunk)
        await response.write(f"data: {data}\r\n\r\n".encode())


def piece(text: str, *, chat: bool, **more: Any) -> Json:
    return {"choices": [{"index": 0, **({"delta": {"content": text}} if chat else {"text": text}), **more}]}


def says(*texts: str, reason: str = "stop", usage: Json | None = USAGE, done: bool = True) -> Respond:
    """Each text as a chunk, then the end."""

    async def respond(request: web.Request, body: Json) -> web.StreamResponse:
        chat = "messages" in body
        response = await begin(request)
        if chat:
            await send(response, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        await send(response, *(piece(text, chat=chat) for text in texts), piece("", chat=chat, finish_reason=reason))
        if usage is not None:
            await send(response, {"choices": [], "usage": usage})
        if done:
            await send(response, "[DONE]")
        return response

    return respond


def refuses(status: int, message: str = "no", **more: Any) -> Respond:
    async def respond(_: web.Request, __: Json) -> web.StreamResponse:
        return error(status, message, **more)

    return respond


def breaks_off(*texts: str, with_error: Json | None = None) -> Respond:
    """Ends, by an error event or without one, before the answer does."""

    async def respond(request: web.Request, body: Json) -> web.StreamResponse:
        response = await begin(request)
        await send(response, *(piece(text, chat="messages" in body) for text in texts))
        if with_error is not None:
            await send(response, {"error": with_error})
        return response

    return respond


def sends(*raw: str, content_type: str = "text/event-stream") -> Respond:
    """What is no answer."""

    async def respond(request: web.Request, _: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": content_type})
        await response.prepare(request)
        for each in raw:
            await response.write(each.encode())
        return response

    return respond


def hangs(*texts: str) -> Respond:
    async def respond(request: web.Request, body: Json) -> web.StreamResponse:
        response = await begin(request)
        await send(response, *(piece(text, chat="messages" in body) for text in texts))
        await asyncio.Event().wait()
        return response

    return respond


def drops_the_connection(*texts: str) -> Respond:
    async def respond(request: web.Request, body: Json) -> web.StreamResponse:
        response = await begin(request)
        await send(response, *(piece(text, chat="messages" in body) for text in texts))
        assert request.transport is not None
        request.transport.abort()
        return response

    return respond
