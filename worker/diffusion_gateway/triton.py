"""Streams events from worker pods. All of Triton's and gRPC's peculiarities end here."""

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable
from typing import Any

import grpc
from diffusion_worker.wire import (
    EVENT,
    MODEL_NAME,
    REQUEST_TENSOR,
    REVISION_PARAMETER,
    SCORE_PRIORITY,
    TRACEPARENT_PARAMETER,
    GenerateRequest,
    ScoreRequest,
    encode_request,
)
from pydantic import ValidationError
from tritonclient.grpc import service_pb2

from .event_stream import Event, EventStream
from .reasons import Reason, WorkerError

_METHOD = "/inference.GRPCInferenceService/ModelStreamInfer"
_LENGTH = struct.Struct("<I")
"""Before each element of a BYTES tensor."""
_MAX_MESSAGE_BYTES = 64 * 2**20
_CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    # A pod whose node vanished sends no FIN. By default Triton hangs up at the fourth ping without data in between; at this
    # pace that is after 80 s, when --silence-seconds has ended the stream already.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    # How long one attempt to connect may take, and how soon the next may follow: pods come back at the same address.
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Pods are reached directly, whatever the environment says about proxies.
    ("grpc.enable_http_proxy", 0),
]
# Between the last event and the natural end of the stream lies one message.
_TAIL_SECONDS = 5.0


class TritonStream(EventStream):
    """One request on one pod.

    It is read to its natural end even when the client left on the last event: Triton 2.51 leaks a model reference when a stream is
    closed in the moment of its final response.
    """

    def __init__(
        self,
        infer: Callable[[Any], Any],
        request: GenerateRequest | ScoreRequest,
        *,
        revision: str | None = None,
        traceparent: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`infer`: of a `TritonServer`. `revision`: another one's worker refuses the request. `traceparent`: for the worker's log lines."""
        self._infer = infer
        self._message = _message(request, revision=revision, traceparent=traceparent)
        super().__init__(clock=clock)

    async def _read(self) -> None:
        call = self._infer(self._message)
        try:
            async for response in call:
                await self._put(_event(response))
                if self._ended:
                    break
            else:
                await self._put(WorkerError(Reason.UNAVAILABLE, "the stream ended before the answer did"))
                return
            await _read_tail(call)
        except grpc.aio.AioRpcError as error:
            await self._put(_from_status(error))
        finally:
            call.cancel()


class TritonServer:
    """One pod, by its `host:port`. The connection is made with the first request, and again whenever it broke."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.aio.insecure_channel(target, options=_CHANNEL_OPTIONS)
        # By its definition the method takes a stream of requests, and tritonclient's `stream_infer` sends headers, request and end of the
        # stream one after the other. The only request of a stream goes out together with both.
        self._infer = self._channel.unary_stream(
            _METHOD,
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelStreamInferResponse.FromString,
        )

    def open(
        self,
        request: GenerateRequest | ScoreRequest,
        *,
        revision: str | None,
        traceparent: str | None,
        clock: Callable[[], float],
    ) -> TritonStream:
        """Send a request. Failures to connect show in the stream."""
        return TritonStream(self._infer, request, revision=revision, traceparent=traceparent, clock=clock)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


async def _read_tail(call: Any) -> None:
    with contextlib.suppress(TimeoutError, grpc.aio.AioRpcError):
        async with asyncio.timeout(_TAIL_SECONDS):
            async for _ in call:
                pass


def _message(request: GenerateRequest | ScoreRequest, *, revision: str | None, traceparent: str | None) -> Any:
    """The request as a `ModelInferRequest`."""
    data = encode_request(request)
    tensor = service_pb2.ModelInferRequest.InferInputTensor(name=REQUEST_TENSOR, datatype="BYTES", shape=[1, 1])
    message = service_pb2.ModelInferRequest(
        model_name=MODEL_NAME,
        id=request.request_id,
        inputs=[tensor],
        raw_input_contents=[_LENGTH.pack(len(data)) + data],
    )
    for name, value in ((REVISION_PARAMETER, revision), (TRACEPARENT_PARAMETER, traceparent)):
        if value is not None:
            message.parameters[name].string_param = value
    # Without one it has the model's default, which is the first.
    if isinstance(request, ScoreRequest) or request.background:
        message.parameters["priority"].uint64_param = SCORE_PRIORITY
    return message


def _event(response: Any) -> Event | WorkerError:
    """What a `ModelStreamInferResponse` says."""
    if response.error_message:
        return _from_message(response.error_message)
    outputs = response.infer_response.raw_output_contents
    try:
        # The one element of the one tensor, `event`.
        return EVENT.validate_json(outputs[0][_LENGTH.size :])
    except ValidationError as problem:
        # Not its text: that quotes the event, and the event holds the answer, which no log should.
        first = problem.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the event"
        return WorkerError(Reason.ENGINE_ERROR, f"the worker sent what is no event: {where}: {first['type']}")
    except IndexError:
        return WorkerError(Reason.ENGINE_ERROR, "the worker sent what is no event: an empty response")


def _from_message(message: str) -> WorkerError:
    """Triton's errors inside a stream are text without a code."""
    lower = message.lower()
    if "exceeds maximum queue size" in lower or "request timeout expired" in lower:
        return WorkerError(Reason.QUEUE_FULL, message)
    if "unknown model" in lower or "no available versions" in lower or "not ready" in lower:
        return WorkerError(Reason.UNAVAILABLE, message)
    return WorkerError(Reason.ENGINE_ERROR, message)


def _from_status(error: grpc.aio.AioRpcError) -> WorkerError:
    details = error.details() or error.code().name
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        known = _from_message(details)
        return known if known.reason == Reason.QUEUE_FULL else WorkerError(Reason.UNAVAILABLE, details)
    return _from_message(details)
