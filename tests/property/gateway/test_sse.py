"""Server-sent events come out the same however their bytes were cut."""

import itertools

from diffusion_gateway.external.sse import ServerSentEvents
from hypothesis import given
from hypothesis import strategies as st

# As JSON is sent: one line without a break in it.
DATA = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1, max_size=20).map(str.encode)
NOISE = st.sampled_from([b"", b": still here\n\n", b"event: message\n", b"id: 7\nretry: 5\n"])
ENDS = st.sampled_from([b"\n", b"\r\n"])


def read(pieces: list[bytes]) -> list[bytes]:
    events = ServerSentEvents()
    found = [data for piece in pieces for data in events.feed(piece)]
    return [*found, *([last] if (last := events.close()) else [])]


@given(st.lists(st.tuples(NOISE, DATA), max_size=5), ENDS, st.lists(st.integers(0, 300)), st.booleans())
def test_events_do_not_depend_on_where_the_bytes_are_cut(
    parts: list[tuple[bytes, bytes]], end: bytes, cuts: list[int], is_complete: bool
) -> None:
    sent = b"".join(noise + b"data: " + data + end + end for noise, data in parts)
    if not is_complete:
        sent = sent.removesuffix(end + end)
    places = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    pieces = [sent[start:stop] for start, stop in itertools.pairwise(places)]
    assert read(pieces) == [data for _, data in parts]
