"""Odd bytes over real TLS: whatever a client sends, the server goes on, and what it says is well-formed."""

import json
import ssl
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.odd_requests import headers, methods, paths, queries
from tests.support.secure_stage import DEPTH, Stage, connect, read_answer, stage

EXAMPLES = settings.default.max_examples // 10  # each is a handshake and a request of a real process
few = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
Headers = tuple[tuple[bytes, bytes], ...]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server that must outlive all examples, without a line in its log."""
    with stage(tmp_path_factory.mktemp("odd")) as server:
        before = server.server.read_log()
        yield server
        assert server.get(DEPTH).values == ["5"]
        assert server.server.read_log() == before


def check_answer(head: bytes, body: bytes, method: str) -> int:
    """Return the code of a well-formed answer."""
    code = int(head.split(b" ")[1])
    assert code in {200, 304, 400, 401, 403, 404, 405, 431}
    content_type = b"".join(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-type:"))
    assert b"retry-after" not in head.lower()
    if b"application/json" in content_type and method != "HEAD":
        document = json.loads(body)
        assert code == 200 or (document["kind"], document["code"]) == ("Status", code)
    else:
        assert code in {200, 304} or method == "HEAD"
    return code


def exchange(tls: ssl.SSLSocket, sent: bytes, method: str) -> int | None:
    """Send *sent*; return the answer's code, None if the connection ended without one."""
    tls.settimeout(10)
    try:
        tls.sendall(sent)
        head, body = read_answer(tls, has_body=method != "HEAD")
    except (ConnectionError, ssl.SSLError):
        return None
    return check_answer(head, body, method) if head else None


@few
@given(paths, queries, headers, methods, st.booleans())
@example(b"/apis", b"", ((b"audit-id", b"\x7f"),), "GET", True)
@example(b"/apis", b"", ((b"content-length", b"-1"),), "GET", True)
@example(b"/apis", b"", ((b"transfer-encoding", b"chunked"), (b"content-length", b"3")), "POST", True)
@example(b"/apis", b"", ((b"upgrade", b"websocket"), (b"connection", b"upgrade")), "GET", True)
@example(b"http://x/apis", b"", (), "GET", True)
@example(b"*", b"", (), "OPTIONS", True)
@example(b"x:443", b"", (), "CONNECT", True)
def test_odd_request_gets_a_well_formed_answer_and_nobody_comes_in(  # noqa: PLR0917 - hypothesis passes positions
    running: Stage,
    path: bytes,
    query: bytes,
    sent: Headers,
    method: str,
    is_alice: bool,  # noqa: FBT001 - drawn
) -> None:
    """A real client with a certificate, or with none: never a fault, never in without one."""
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in sent)
    target = path + (b"?" + query if query else b"")
    request = method.encode() + b" " + target + b" HTTP/1.1\r\nConnection: close\r\n" + lines + b"\r\n"
    with connect(running.server, running.alice if is_alice else None) as tls:
        code = exchange(tls, request, method)
    assert is_alice or code in {None, 400, 401} or path in {b"/readyz", b"/livez", b"/%72eadyz"}


@few
@given(st.lists(st.binary(max_size=60), max_size=6))
@example([b"GET /apis HTTP/1.1\r\n", b"Host: x\r\n\r", b"\n"])
@example([b"GET /apis HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\n\r\n"])
@example([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_bytes_that_are_no_request_end_with_a_status_or_without_a_word(running: Stage, pieces: list[bytes]) -> None:
    """And the server goes on."""
    with connect(running.server, running.alice) as tls:
        assert exchange(tls, b"".join(pieces) + b"\r\n\r\n\x00\r\n", "GET") != 500
