"""An answer as OpenAI's clients want it: as server-sent events, one chunk per block, or in one piece."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from diffusion_worker.wire import BlockEvent, DraftEvent, FinishEvent
from pydantic_core import to_json

from .answers import Answer
from .openai.errors import ApiError
from .openai.responses import AnswerHead, ChoiceText
from .reasons import WorkerError
from .trace import Trace

_DONE = b"data: [DONE]\n\n"


async def server_sent_events(
    answer: Answer, head: AnswerHead, *, include_usage: bool, trace: Trace
) -> AsyncIterator[bytes]:
    """The whole stream. If the worker stops in the middle, the last event is an error and [DONE] does not come."""
    choices = [ChoiceText(index) for index in range(trace.choices)]
    # What follows at once goes out together: sending costs more than all else that is done for a chunk.
    held = b"".join(encode(head.role_chunk(choice.index)) for choice in choices) if head.chat else b""
    try:
        async for index, event in answer.events():
            match event:
                case DraftEvent():
                    held += encode(head.draft_chunk(index, event))
                case BlockEvent() if event.text or event.logprobs:
                    held += encode(head.chunk(choices[index], event))
                case FinishEvent():
                    trace.finishes.append(event)
                    held += encode(head.finish_chunk(index, event))
            if held and len(trace.finishes) < len(choices):
                yield held
                held = b""
        if include_usage:
            held += encode(head.usage_chunk(trace.finishes))
        yield held + _DONE
    except (WorkerError, ApiError) as error:
        trace.break_off(error)
        yield held + encode(broken_off(error).body())


async def whole_answer(answer: Answer, head: AnswerHead, *, trace: Trace) -> dict[str, Any]:
    """The body of an answer that is not streamed. The dispatcher has read it to its end already."""
    choices = [ChoiceText(index) for index in range(trace.choices)]
    async for index, event in answer.events():
        match event:
            case BlockEvent():
                choices[index].add(event)
            case FinishEvent():
                choices[index].finish = event
                trace.finishes.append(event)
    return head.whole(choices)


def broken_off(error: WorkerError | ApiError) -> ApiError:
    """What the client is told when an answer ends in the middle."""
    if isinstance(error, ApiError):
        return error
    return ApiError(
        502, f"The answer broke off: {error.reason.words}. Send the request again.", code="answer_broken_off"
    )


def encode(data: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + to_json(data) + b"\n\n"
