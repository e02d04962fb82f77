"""A worker pod that speaks Triton's gRPC protocol and does what a test's script says."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from diffusion_worker.wire import (
    REQUEST,
    BlockEvent,
    DraftEvent,
    ErrorEvent,
    FinishEvent,
    GenerateRequest,
    Likelihood,
    ScoreEvent,
    ScoreRequest,
    TokenLikelihood,
    encode_event,
)
from tritonclient.grpc import service_pb2, service_pb2_grpc

Event = BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent
Script = Callable[[Any, grpc.aio.ServicerContext], AsyncIterator[Event | str | bytes]]
"""Yields events, Triton's own error messages as strings, or raw bytes in place of an event."""


class FakeTriton(service_pb2_grpc.GRPCInferenceServiceServicer):
    """One pod."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Any] = []
        self.priorities: list[int] = []
        """0: none was given."""
        self.parameters: list[dict[str, str]] = []
        """Those that are text."""
        self.cancelled = asyncio.Event()
        """Set when a client cancelled a row that was still running."""
        self.read_to_the_end = asyncio.Event()
        """Set when a stream ended without being cancelled."""
        self.port = 0
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int = 0) -> None:
        """Listen; port 0 takes any that is free."""
        self._server = grpc.aio.server()
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"{host}:{port}")
        await self._server.start()

    async def kill(self) -> None:
        """End at once, with all connections."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    async def ModelStreamInfer(  # noqa: N802 - the protocol's name
        self, request_iterator: AsyncIterator[Any], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[Any]:
        async for message in request_iterator:
            assert message.model_name == "dlm"
            assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in message.inputs] == [
                ("request", "BYTES", [1, 1])
            ]
            request = REQUEST.validate_json(_unpack(message.raw_input_contents[0]))
            self.priorities.append(message.parameters["priority"].uint64_param)
            texts = {name: each.string_param for name, each in message.parameters.items() if each.string_param}
            self.parameters.append(texts)
            assert message.id == request.request_id
            self.requests.append(request)
            try:
                async for item in self.script(request, context):
                    yield _response(item)
            except (asyncio.CancelledError, GeneratorExit):
                self.cancelled.set()
                raise
        self.read_to_the_end.set()


def _unpack(raw: bytes) -> bytes:
    (length,) = struct.unpack_from("<I", raw)
    return raw[4 : 4 + length]


def _response(item: Event | str | bytes) -> Any:
    if isinstance(item, str):
        return service_pb2.ModelStreamInferResponse(error_message=item)
    data = item if isinstance(item, bytes) else encode_event(item)
    tensor = service_pb2.ModelInferResponse.InferOutputTensor(name="event", datatype="BYTES", shape=[1, 1])
    response = service_pb2.ModelInferResponse(
        model_name="dlm", outputs=[tensor], raw_output_contents=[struct.pack("<I", len(data)) + data]
    )
    return service_pb2.ModelStreamInferResponse(infer_response=response)


def block(index: int, text: str) -> BlockEvent:
    return BlockEvent(index=index, text=text, tokens=3, steps=5)


def finish(blocks: int, *, seed: int, reason: str = "stop") -> FinishEvent:
    return FinishEvent(
        reason=reason,
        prompt_tokens=7,
        completion_tokens=3 * blocks,
        steps=5 * blocks,
        blocks=blocks,
        seed=seed,
        queue_seconds=0.0,
    )


def says(*texts: str, reason: str = "stop") -> Script:
    """Answers with these blocks."""

    async def script(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
        for index, text in enumerate(texts):
            yield block(index, text)
        yield finish(len(texts), seed=request.seed or 0, reason=reason)

    return script


def drafts(*events: BlockEvent | DraftEvent) -> Script:
    """Shows its canvas in work."""

    async def script(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
        for event in events:
            yield event
        yield finish(sum(isinstance(event, BlockEvent) for event in events), seed=request.seed or 0)

    return script


def answers_and_scores(*texts: str, nats: Callable[[str], float]) -> Script:
    """An AR pod: answers with these blocks, and finds each token of a text as unlikely as `nats` says. A word has 4 tokens."""

    async def script(request: GenerateRequest | ScoreRequest, context: Any) -> AsyncIterator[Event | str | bytes]:
        if isinstance(request, GenerateRequest):
            async for event in says(*texts)(request, context):
                yield event
            return
        text = request.completion or ""
        tokens = 4 * len(text.split())
        yield ScoreEvent(nll=nats(text) * tokens, tokens=tokens, text_bytes=len(text.encode()), prompt_tokens=7)

    return script


def says_seed(*, logprobs: bool = False) -> Script:
    """Answers with its seed in two blocks, so that choices can be told apart."""

    async def script(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
        for index, text in enumerate(("seed ", str(request.seed))):
            token = TokenLikelihood(utf8=list(text.encode()), logprob=-0.5, top=_alternatives(request.logprobs or 0))
            yield BlockEvent(index=index, text=text, tokens=1, steps=1, logprobs=[token] if logprobs else None)
        yield finish(2, seed=request.seed or 0)

    return script


def _alternatives(count: int) -> list[Likelihood]:
    return [Likelihood(utf8=[0xC3], logprob=-0.25), Likelihood(utf8=list("é".encode()), logprob=-1.5)][:count]


def reports(error: ErrorEvent) -> Script:
    """Fails the row."""

    async def script(*_: Any) -> AsyncIterator[Event]:
        yield error

    return script


def sends_raw(data: bytes) -> Script:
    """What our gateway does not understand."""

    async def script(*_: Any) -> AsyncIterator[bytes]:
        yield data

    return script


def triton_says(message: str) -> Script:
    """Triton itself refuses."""

    async def script(*_: Any) -> AsyncIterator[str]:
        yield message

    return script


def closes_with(code: grpc.StatusCode, *, after: tuple[str, ...] = ()) -> Script:
    """The stream breaks off."""

    async def script(_: GenerateRequest, context: grpc.aio.ServicerContext) -> AsyncIterator[Event]:
        for index, text in enumerate(after):
            yield block(index, text)
        await context.abort(code, "the pod goes away")

    return script


def hangs(*texts: str) -> Script:
    """Says something, then nothing any more."""

    async def script(*_: Any) -> AsyncIterator[Event]:
        for index, text in enumerate(texts):
            yield block(index, text)
        await asyncio.Event().wait()

    return script


def waits_for(signal: asyncio.Event, *, before: tuple[str, ...], after: tuple[str, ...]) -> Script:
    """Stops in the middle until the test lets it go on."""

    async def script(request: GenerateRequest, _: Any) -> AsyncIterator[Event]:
        for index, text in enumerate(before):
            yield block(index, text)
        await signal.wait()
        for index, text in enumerate(after, start=len(before)):
            yield block(index, text)
        yield finish(len(before) + len(after), seed=request.seed or 0)

    return script
