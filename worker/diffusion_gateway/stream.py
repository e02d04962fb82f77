"""An answer as OpenAI's clients want it: as server-sent events, one chunk per block, or in one piece."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from diffusion_worker.wire import BlockEvent, FinishEvent

from .dispatch import Answer
from .openai.errors import ApiError
from .openai.responses import AnswerHead
from .trace import Trace
from .triton import WorkerError

_DONE = b"data: [DONE]\n\n"


async def server_sent_events(
    answer: Answer, head: AnswerHead, *, include_usage: bool, trace: Trace
) -> AsyncIterator[bytes]:
    """The whole stream. If the worker stops in the middle, the last event is an error and [DONE] does not come."""
    if head.chat:
        yield encode(head.role_chunk())
    try:
        async for event in answer.events():
            match event:
                case BlockEvent(text=text) if text:
                    yield encode(head.chunk(text))
                case FinishEvent():
                    trace.finish = event
                    yield encode(head.chunk("", finish_reason=event.reason))
                    if include_usage:
                        yield encode(head.usage_chunk(event))
                    yield _DONE
    except (WorkerError, ApiError) as error:
        trace.broken = str(error)
        yield encode(broken_off(error).body())


async def whole_answer(answer: Answer, head: AnswerHead, *, trace: Trace) -> dict[str, Any]:
    """The body of an answer that is not streamed. The dispatcher has read it to its end already."""
    texts: list[str] = []
    async for event in answer.events():
        match event:
            case BlockEvent(text=text):
                texts.append(text)
            case FinishEvent():
                trace.finish = event
                return head.whole("".join(texts), event)
    raise AssertionError("events end with a FinishEvent")


def broken_off(error: WorkerError | ApiError) -> ApiError:
    """What the client is told when an answer ends in the middle."""
    if isinstance(error, ApiError):
        return error
    return ApiError(
        502, f"The answer broke off: {error.reason.words}. Send the request again.", code="answer_broken_off"
    )


def encode(data: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
