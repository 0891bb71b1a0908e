"""Why a connection failed, in words that a person can act on."""

import errno
import socket
import ssl
from collections.abc import Iterator

CERTIFICATE_HINT = "the server may want a client certificate (tls.certFile)"

_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})
_CHAIN_LIMIT = 20


def describe_cause(exc: BaseException) -> str:
    """Return what went wrong below HTTP, "" where it is not known; no text of the other side is quoted.

    TLS comes first: its failures are often followed by a reset connection.
    """
    causes = tuple(_walk_causes(exc))
    for describe in (_describe_certificate, _describe_tls, _describe_name, _describe_network):
        for cause in causes:
            described = describe(cause)
            if described:
                return described
    return ""


def _describe_certificate(cause: BaseException) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {cause.verify_message.rstrip('.')}"
    return ""


def _describe_tls(cause: BaseException) -> str:
    if not isinstance(cause, ssl.SSLError) or isinstance(cause, ssl.SSLWantReadError | ssl.SSLWantWriteError):
        return ""
    reason = (cause.reason or "").upper()
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER" in reason:
        return "the server does not speak TLS on this port"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return f"{CERTIFICATE_HINT} ({_words(reason)})"
    return f"TLS failed ({_words(reason) or 'handshake not completed'})"


def _describe_name(cause: BaseException) -> str:
    return f"name resolution failed ({cause.strerror})" if isinstance(cause, socket.gaierror) else ""


def _describe_network(cause: BaseException) -> str:
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, ConnectionResetError | BrokenPipeError):
        return "connection reset by the server"
    if isinstance(cause, OSError) and cause.errno in _NO_ROUTE:
        return "no route to the host"
    return ""


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


def _walk_causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield *exc* and all that it came from: httpcore keeps the cause in args, anyio in an exception group."""
    pending = [exc]
    seen: set[int] = set()
    while pending and len(seen) < _CHAIN_LIMIT:
        current = pending.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        pending += [part for part in current.args if isinstance(part, BaseException)]
        pending += [part for part in (current.__cause__, current.__context__) if part is not None]
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions
