"""Reading an answer's body within bounds, without any network."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import BackendRefused
from adapter.upstream.body import read_beginning, read_body

LIMIT_BYTES = 1024 * 1024


async def send(*chunks: bytes) -> AsyncIterator[bytes]:
    """Yield *chunks* as they would arrive."""
    for chunk in chunks:
        yield chunk


def read(*chunks: bytes, encoding: str = "", limit_bytes: int = LIMIT_BYTES) -> bytes | None:
    """Read a whole body."""
    return asyncio.run(read_body(send(*chunks), content_encoding=encoding, limit_bytes=limit_bytes))


def begin(*chunks: bytes, encoding: str = "", limit_bytes: int = LIMIT_BYTES) -> bytes:
    """Read a body's beginning."""
    return asyncio.run(read_beginning(send(*chunks), content_encoding=encoding, limit_bytes=limit_bytes))


@given(st.binary(max_size=5000), st.integers(1, 700), st.sampled_from(["", "identity", "gzip", "x-gzip", " GZIP "]))
def test_body_is_the_same_however_it_is_cut_and_encoded(body: bytes, step_bytes: int, encoding: str) -> None:
    """A body comes out as it went in, in chunks of any size, plain or gzipped."""
    sent = gzip.compress(body) if "gzip" in encoding.lower() else body
    chunks = [sent[start : start + step_bytes] for start in range(0, len(sent), step_bytes)]

    assert read(*chunks, encoding=encoding) == body


def test_body_of_exactly_the_limit_is_read_and_one_byte_more_is_not() -> None:
    """The limit itself is allowed."""
    assert read(b"x" * 10, limit_bytes=10) == b"x" * 10
    assert read(b"x" * 11, limit_bytes=10) is None


def test_body_bomb_is_refused_without_being_held_in_memory() -> None:
    """A gigabyte of zeros in a megabyte of gzip is found too large after the limit, not after the gigabyte."""
    compressor = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    bomb = b"".join(compressor.compress(bytes(16 * 1024**2)) for _ in range(64)) + compressor.flush()
    tracemalloc.start()
    try:
        body = read(bomb, encoding="gzip")
        _now, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert body is None
    assert peak_bytes < 6 * LIMIT_BYTES


@pytest.mark.parametrize(
    ("sent", "encoding", "named"),
    [
        pytest.param(b"not gzip at all", "gzip", "damaged gzip", id="not gzip"),
        pytest.param(gzip.compress(b"x" * 1000)[:-9], "gzip", "ends too early", id="cut off"),
        pytest.param(b"", "gzip", "ends too early", id="empty"),
        pytest.param(b"anything", "br", "encoded as br", id="brotli"),
    ],
)
def test_body_that_cannot_be_decoded_is_refused(sent: bytes, encoding: str, named: str) -> None:
    """Damaged gzip and other encodings are refused, and named."""
    with pytest.raises(BackendRefused) as caught:
        read(sent, encoding=encoding)

    assert named in caught.value.detail


@pytest.mark.parametrize(
    ("sent", "encoding", "expected"),
    [
        pytest.param(b"x" * 20, "", b"x" * 10, id="longer than the limit"),
        pytest.param(gzip.compress(b"x" * 20), "gzip", b"x" * 10, id="longer, gzipped"),
        pytest.param(b"not gzip", "gzip", b"", id="not gzip"),
        pytest.param(b"anything", "br", b"", id="brotli"),
        pytest.param(b"short", "", b"short", id="short"),
    ],
)
def test_body_beginning_is_what_could_be_read(sent: bytes, encoding: str, expected: bytes) -> None:
    """An error's text never fails for its own sake: it is what could be decoded, up to the limit."""
    assert begin(sent, encoding=encoding, limit_bytes=10) == expected
