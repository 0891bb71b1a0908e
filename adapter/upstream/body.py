"""An answer's body, read as it arrives and never held beyond a bound."""

import zlib
from collections.abc import AsyncIterator, Iterator

from adapter.errors import BackendRefused

_INFLATE_STEP_BYTES = 256 * 1024


async def read_body(chunks: AsyncIterator[bytes], *, content_encoding: str, limit_bytes: int) -> bytes | None:
    """Return the decoded body; None where it is larger than *limit_bytes*.

    Raises: BackendRefused for an encoding that was not asked for, and for damaged gzip.
    """
    inflater = _build_inflater(content_encoding)
    body = bytearray()
    async for chunk in chunks:
        for piece in inflater.inflate(chunk) if inflater is not None else (chunk,):
            body += piece
            if len(body) > limit_bytes:
                return None
    if inflater is not None:
        inflater.check_complete()
    return bytes(body)


async def read_beginning(chunks: AsyncIterator[bytes], *, content_encoding: str, limit_bytes: int) -> bytes:
    """Return up to *limit_bytes* of the decoded body, as much as can be decoded: the text of an error.

    Raises: nothing of its own.
    """
    body = bytearray()
    try:
        inflater = _build_inflater(content_encoding)
        async for chunk in chunks:
            for piece in inflater.inflate(chunk) if inflater is not None else (chunk,):
                body += piece
                if len(body) >= limit_bytes:
                    return bytes(body[:limit_bytes])
    except BackendRefused:
        pass
    return bytes(body)


class _Inflater:
    """gzip, inflated in steps, so that a small bomb never becomes large in memory."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    def inflate(self, chunk: bytes) -> Iterator[bytes]:
        while chunk and not self._decoder.eof:
            try:
                yield self._decoder.decompress(chunk, _INFLATE_STEP_BYTES)
            except zlib.error as exc:
                raise BackendRefused(detail="a malformed answer: damaged gzip") from exc
            chunk = self._decoder.unconsumed_tail

    def check_complete(self) -> None:
        if not self._decoder.eof:
            raise BackendRefused(detail="a malformed answer: gzip that ends too early")


def _build_inflater(content_encoding: str) -> _Inflater | None:
    encoding = content_encoding.strip().lower()
    if encoding in {"", "identity"}:
        return None
    if encoding in {"gzip", "x-gzip"}:
        return _Inflater()
    raise BackendRefused(detail=f"an answer encoded as {encoding[:40]}, which was not asked for")
