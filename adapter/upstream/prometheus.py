"""One Prometheus-compatible server, asked instant queries: every failure becomes the error that says why."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from urllib.parse import urlencode

from adapter.clock import Clock, SystemClock
from adapter.domain.backends import BackendSettings
from adapter.domain.samples import QueryResult
from adapter.errors import BackendRefused, DeadlineExceeded, MetricError, TooManySeries
from adapter.upstream.answer import decode_answer, is_json, judge_error, media_type_of
from adapter.upstream.body import read_beginning, read_body
from adapter.upstream.credentials import Authorization, Credentials
from adapter.upstream.transport import Answer, Connections, Progress, Request

ANSWER_LIMIT_BYTES = 16 * 1024 * 1024
"""The largest answer read, decoded: some 100,000 series. Larger ones belong aggregated or pushed down."""

ERROR_TEXT_LIMIT_BYTES = 64 * 1024
"""How much of an error's body is read; its beginning holds what may be quoted."""

DECODED_INLINE_BYTES = 128 * 1024
"""Larger answers (some 2,000 series, a few milliseconds) are decoded in a thread: other requests go on meanwhile."""


class PrometheusBackend:
    """The client of one backend.

    Nothing is opened before the first query. *clock* is only used to tell whether a credential file changed just now.
    """

    def __init__(self, settings: BackendSettings, *, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._settings = settings
        self._credentials = Credentials(settings, clock=clock)
        self._connections = Connections(settings, clock=clock)
        self._decoders = ThreadPoolExecutor(max_workers=1, thread_name_prefix="decode")
        self._headers = {
            b"user-agent": f"depthgauge/{version('depthgauge')}".encode(),
            b"accept": b"application/json",
            b"accept-encoding": b"gzip",
            b"content-type": b"application/x-www-form-urlencoded",
            **{name.lower().encode(): text.encode() for name, text in settings.headers.items()},
        }

    @property
    def name(self) -> str:
        """Return the backend's name in the configuration."""
        return self._settings.name

    async def query(self, promql: str, *, time_s: float, timeout_s: float) -> QueryResult:
        """Return the answer to an instant query at *time_s* (Unix seconds), within *timeout_s* seconds.

        The deadline covers everything: reading credential files, connecting, sending, and a body that trickles. When it
        passes, the connection is closed, which makes the server give up the query.

        Raises: BadQuery, BackendRefused, BackendUnavailable, DeadlineExceeded, WrongResultType, TooManySeries (an
                answer of more than 16 MiB).
        Source: Prometheus HTTP API, "Instant queries": POST of a form, `time` in Unix seconds, `timeout` a duration
                (whole milliseconds: it takes no fractions before a unit).
        """
        progress = Progress()
        if timeout_s <= 0:
            raise DeadlineExceeded(deadline_s=max(timeout_s, 0.0), detail=progress.describe())
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(promql, time_s, timeout_s, progress)
        except TimeoutError:
            raise DeadlineExceeded(deadline_s=timeout_s, detail=progress.describe()) from None
        except MetricError as exc:
            # Whoever asks may keep the error until the next tick: without the frames that hold the answer's body.
            raise exc.with_traceback(None) from exc.__cause__

    async def aclose(self) -> None:
        """Close all connections, after the queries under way have ended."""
        await self._connections.aclose()
        self._decoders.shutdown(wait=False)

    async def _ask(self, promql: str, time_s: float, timeout_s: float, progress: Progress) -> QueryResult:
        authorization = self._credentials.read()
        form = {
            "query": promql,
            "time": format_time(time_s),
            "timeout": f"{max(1, round(timeout_s * 1000))}ms",
        }
        headers = self._headers
        if authorization.header is not None:
            headers = {**headers, b"authorization": authorization.header}
        request = Request(params=self._settings.params, headers=headers, body=urlencode(form).encode())
        async with self._connections.post(request, progress) as answer:
            if not 200 <= answer.status < 300:
                raise await self._read_error(answer, authorization, timeout_s)
            body = await _read_result(answer)
            # Still within: a close waits for the decoding too.
            if len(body) <= DECODED_INLINE_BYTES:
                return decode_answer(body, timeout_s=timeout_s)
            progress.stage = "while the answer was decoded"
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._decoders, lambda: decode_answer(body, timeout_s=timeout_s))

    async def _read_error(self, answer: Answer, authorization: Authorization, timeout_s: float) -> MetricError:
        body = await read_beginning(
            answer.chunks,
            content_encoding=answer.headers.get("content-encoding", ""),
            limit_bytes=ERROR_TEXT_LIMIT_BYTES,
        )
        return judge_error(
            answer.status,
            answer.headers.get("content-type", ""),
            authorization.redact(body.decode("utf-8", "replace")).encode(),
            timeout_s=timeout_s,
            location=answer.location,
        )


def format_time(time_s: float) -> str:
    """Return Unix seconds in milliseconds' precision, without zeros at the end: `1700000000`, `1700000000.5`."""
    return f"{time_s:.3f}".rstrip("0").rstrip(".")


async def _read_result(answer: Answer) -> bytes:
    content_type = answer.headers.get("content-type", "")
    if not is_json(content_type):
        raise BackendRefused(detail=f"something that is not a Prometheus JSON answer ({media_type_of(content_type)})")
    content_encoding = answer.headers.get("content-encoding", "")
    body = await read_body(answer.chunks, content_encoding=content_encoding, limit_bytes=ANSWER_LIMIT_BYTES)
    if body is None:
        limit = f"{ANSWER_LIMIT_BYTES // 1024**2} MiB"
        raise TooManySeries(got=f"more than {limit} of JSON", limit=limit, setting="")
    return body
