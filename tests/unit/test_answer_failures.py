"""What is said of a failed connection, from the errors that the libraries chain."""

import errno
import socket
import ssl
from itertools import pairwise

import pytest

from adapter.upstream.failures import describe_cause


def ssl_error(reason: str) -> ssl.SSLError:
    """Return OpenSSL's error with this reason."""
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


def chain(*causes: BaseException) -> BaseException:
    """Return the first of *causes*, each caused by the next."""
    for outer, inner in pairwise(causes):
        outer.__cause__ = inner
    return causes[0]


NO_NAME = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        pytest.param(ConnectionRefusedError(), "connection refused", id="plain"),
        pytest.param(chain(OSError("all failed"), ConnectionRefusedError()), "connection refused", id="caused"),
        pytest.param(RuntimeError(ConnectionRefusedError()), "connection refused", id="as an argument"),
        pytest.param(
            chain(OSError("all failed"), ExceptionGroup("all", [ConnectionRefusedError(), ConnectionRefusedError()])),
            "connection refused",
            id="in a group",
        ),
        pytest.param(chain(OSError("x"), NO_NAME), "name resolution failed (Name or service not known)", id="name"),
        pytest.param(OSError(errno.EHOSTUNREACH, "x"), "no route to the host", id="route"),
        pytest.param(ConnectionResetError(), "connection reset by the server", id="reset"),
        pytest.param(
            chain(BrokenPipeError(), ssl.SSLWantReadError(2, "x")), "connection reset by the server", id="TLS at work"
        ),
        pytest.param(
            chain(ConnectionResetError(), ssl_error("WRONG_VERSION_NUMBER")),
            "the server does not speak TLS on this port",
            id="TLS before reset",
        ),
        pytest.param(
            ssl_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"),
            "the server may want a client certificate (tls.certFile) (tlsv13 alert certificate required)",
            id="certificate wanted",
        ),
        pytest.param(ssl_error("UNSUPPORTED_PROTOCOL"), "TLS failed (unsupported protocol)", id="other TLS"),
        pytest.param(RuntimeError("hunter2"), "", id="unknown"),
    ],
)
def test_failure_is_described_by_its_deepest_cause(cause: BaseException, expected: str) -> None:
    """The cause is found wherever a library has put it, TLS before the network, and no foreign text is quoted."""
    assert describe_cause(cause) == expected


def test_failure_that_causes_itself_is_described() -> None:
    """A circle of causes ends."""
    first, second = OSError("a"), OSError("b")
    first.__cause__, second.__cause__ = second, first

    assert describe_cause(first) == ""
