import json

from diffusion_gateway.openai.responses import AnswerHead, ChoiceText
from diffusion_gateway.stream import encode
from diffusion_worker.wire import BlockEvent, FinishEvent

FINISH = FinishEvent(
    reason="length", prompt_tokens=2, completion_tokens=3, steps=9, blocks=1, seed=4, queue_seconds=0.0
)


def head(*, chat: bool) -> AnswerHead:
    return AnswerHead(id="abc", chat=chat, created=1, model="story", revision="aaaa0001", seed=4)


def block(text: str) -> BlockEvent:
    return BlockEvent(index=0, text=text, tokens=1, steps=1)


def test_an_event_is_one_line_whatever_the_text_holds() -> None:
    text = 'a\nb\r\n\u2028 "c" 🙂 \x00'
    event = encode(head(chat=False).chunk(ChoiceText(0), block(text)))
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    line = event[:-2]
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line.removeprefix(b"data: "))["choices"][0]["text"] == text


def test_chunks_have_the_fields_of_openai() -> None:
    chunk = head(chat=True).chunk(ChoiceText(0), block("hello"))
    assert chunk == {
        "id": "chatcmpl-abc",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "story",
        "system_fingerprint": "fp_aaaa0001_4",
        "choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": None, "logprobs": None}],
    }
    last = head(chat=True).finish_chunk(1, FINISH)
    assert last["choices"] == [{"index": 1, "delta": {}, "finish_reason": "length", "logprobs": None}]
    assert head(chat=False).chunk(ChoiceText(0), block("x"))["object"] == "text_completion"


def test_whole_answers_carry_the_usage() -> None:
    whole = head(chat=True).whole([ChoiceText(0, text="hi", finish=FINISH)])
    assert whole["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5, "seed": 4}
    assert whole["choices"][0]["message"] == {"role": "assistant", "content": "hi", "refusal": None}
    assert whole["choices"][0]["finish_reason"] == "length"
    assert head(chat=True).usage_chunk([FINISH])["choices"] == []
