"""What probes are told, and how the server ends."""

import asyncio
import signal
from typing import Any

import pytest
import uvicorn

from adapter.server import drain
from adapter.server.app import Application, build_operations
from adapter.server.drain import DrainingServer
from adapter.server.health import Health
from tests.support.asgi import Metrics, Reply, call
from tests.support.serving import asynchronous


def probe(path: str, health: Health, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    """Return what a probe is told."""
    return call(path, application=Application(Metrics(), lambda: ["depth"], health=health), headers=headers)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_well_server_says_ok(path: str) -> None:
    """And in detail where asked."""
    reply = probe(path, Health())
    assert (reply.code, reply.body) == (200, b"ok")
    assert reply.headers[b"content-type"].startswith(b"text/plain")
    lines = probe(f"{path}?verbose", Health()).body.decode().splitlines()
    assert lines[0] == "[+]ping ok"
    assert lines[-1] == f"{path.strip('/')} check passed"


def test_draining_server_is_not_ready_but_lives() -> None:
    """Readiness fails first and says why; a liveness probe must not kill what is ending well."""
    health = Health()
    health.drain()
    reply = probe("/readyz", health)
    assert reply.code == 503
    assert reply.body.decode().splitlines() == [
        "[+]ping ok",
        "[-]shutdown failed: the process is shutting down",
        "readyz check failed",
    ]
    assert b"retry-after" not in reply.headers
    assert probe("/livez", health).code == 200
    assert probe("/healthz", health).code == 200


def test_failing_check_is_named() -> None:
    """Whoever looks at a probe sees which check fails and why."""
    health = Health(readiness={"config": lambda: "not loaded", "other": str})
    reply = probe("/readyz?verbose", health)
    assert reply.code == 503
    assert b"[-]config failed: not loaded\n[+]other ok\n[+]shutdown ok\nreadyz check failed" in reply.body


@pytest.mark.parametrize("host", [b"x?", b"x/livez?", b"x#", b"/", b"", b"@", b"[", b"a:b:c"])
def test_host_header_does_not_choose_the_probe(host: bytes) -> None:
    """A draining server is not ready, whatever name it is asked by."""
    health = Health()
    health.drain()
    assert probe("/readyz", health, ((b"host", host),)).code == 503
    assert probe("/livez", health, ((b"host", host),)).code == 200


def test_every_answer_of_a_draining_server_closes_its_connection() -> None:
    """So the client's next request finds another server: metrics, discovery, errors, probes."""
    health = Health()
    application = Application(Metrics(), lambda: ["depth"], health=health)
    paths = ["/apis/external.metrics.k8s.io/v1beta1/namespaces/n/depth", "/apis", "/x", "/livez", "/readyz"]
    assert [call(path, application=application).headers.get(b"connection") for path in paths] == [None] * 5
    health.drain()
    assert [call(path, application=application).headers.get(b"connection") for path in paths] == [b"close"] * 5


def test_operations_port_serves_probes_and_metrics_alone() -> None:
    """Plain HTTP, for the cluster's own use: no metric of a user's is there."""
    health = Health()
    operations = build_operations(health, lambda: (b"depthgauge_x 1\n", "text/plain; version=1"))
    assert call("/metrics", application=operations).body == b"depthgauge_x 1\n"
    assert call("/livez", application=operations).code == 200
    assert call("/readyz", application=operations).code == 200
    health.drain()
    assert call("/readyz", application=operations).code == 503
    for path in ("/apis", "/docs", "/openapi.json", "/apis/external.metrics.k8s.io/v1beta1/namespaces/n/depth"):
        assert call(path, application=operations).code == 404


class Loop:
    """An event loop that runs what was put off when it is told to."""

    def __init__(self) -> None:
        self.later: list[tuple[float, Any, tuple[Any, ...]]] = []

    def call_later(self, delay_s: float, callback: Any, *args: Any) -> None:
        """Put off."""
        self.later.append((delay_s, callback, args))


def build_server(health: Health, monkeypatch: pytest.MonkeyPatch) -> tuple[DrainingServer, Loop]:
    """Return a server that was not started, and the loop that it puts things off on."""
    loop = Loop()
    monkeypatch.setattr(drain.asyncio, "get_running_loop", lambda: loop)
    config = uvicorn.Config(lambda: None, log_config=None)
    return DrainingServer(config, health, delay_s=7.0, url="https://x"), loop


def test_signal_fails_readiness_first_and_ends_after_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the two the server goes on."""
    health = Health()
    server, loop = build_server(health, monkeypatch)
    server.handle_exit(signal.SIGTERM, None)
    assert health.is_draining
    assert not server.should_exit
    ((delay_s, callback, args),) = loop.later
    assert delay_s == 7.0
    callback(*args)
    assert server.should_exit
    assert not server.force_exit


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_the_delay(second: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever insists is obeyed."""
    server, loop = build_server(Health(), monkeypatch)
    server.handle_exit(signal.SIGTERM, None)
    server.handle_exit(second, None)
    assert server.should_exit
    assert len(loop.later) == 1


@asynchronous
async def test_signals_are_taken_while_serving_and_given_back() -> None:
    """And not raised again afterwards: the process ends with 0."""
    health = Health()
    server = DrainingServer(uvicorn.Config(lambda: None, log_config=None), health, delay_s=60.0, url="https://x")
    with server.capture_signals():
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            while not health.is_draining:  # noqa: ASYNC110 - a signal announces itself by no event
                await asyncio.sleep(0.001)
        assert not server.should_exit
    assert server._delay is not None
    assert server._delay.cancelled()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
