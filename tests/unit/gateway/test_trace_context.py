"""https://www.w3.org/TR/trace-context/"""

import pytest
from diffusion_gateway.trace_context import continue_trace
from hypothesis import given
from hypothesis import strategies as st

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_the_clients_trace_goes_on_with_a_span_of_our_own() -> None:
    context = continue_trace(f"00-{TRACE}-{SPAN}-01", sample_new=False)
    assert (context.trace_id, context.parent_id, context.sampled) == (TRACE, SPAN, True)
    assert context.span_id != SPAN
    assert context.traceparent == f"00-{TRACE}-{context.span_id}-01"


def test_a_client_that_does_not_sample_is_obeyed() -> None:
    context = continue_trace(f"00-{TRACE}-{SPAN}-00", sample_new=True)
    assert not context.sampled
    assert context.traceparent.endswith("-00")


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "x",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
    ],
)
def test_without_a_valid_one_a_new_trace_begins(given: str | None) -> None:
    first, second = (continue_trace(given, sample_new=True) for _ in range(2))
    assert first.parent_id is None
    assert first.sampled
    assert first.trace_id not in (TRACE, second.trace_id)


def test_a_later_version_may_say_more() -> None:
    assert continue_trace(f"01-{TRACE}-{SPAN}-03-more", sample_new=False).trace_id == TRACE


@given(st.text(max_size=80), st.booleans())
def test_whatever_a_client_sends_the_next_one_gets_a_valid_one(given: str, sample: bool) -> None:
    sent = continue_trace(given, sample_new=sample).traceparent
    assert continue_trace(sent, sample_new=not sample).traceparent[:35] == sent[:35]
