"""The server's process: listen, serve, reload, drain."""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer
import uvicorn
import uvloop

from adapter.cli.logs import set_up_logs
from adapter.config.load import Loaded, load_configuration
from adapter.config.problems import ConfigurationError, Problem
from adapter.config.reload import ConfigurationWatcher
from adapter.server.app import Application
from adapter.serving.live import LiveProvider
from adapter.wiring import Factory

_DRAIN_LIMIT_S = 60
_log = logging.getLogger(__name__)


def run_server(config: Path, address: str) -> None:
    """Serve the configuration at *config* on *address* until told to end; problems end the process with 1."""
    set_up_logs()
    listener = _listen(address)
    try:
        loaded = load_configuration(config)
    except ConfigurationError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    uvloop.run(_run(config, loaded, listener))


def _listen(address: str) -> socket.socket:
    """Return a listening socket on *address*; only loopback, because there is no authentication."""
    host, _, port = address.rpartition(":")
    try:
        ip = ipaddress.ip_address(host.strip("[]").replace("localhost", "127.0.0.1"))
        number = int(port)
    except ValueError:
        raise typer.BadParameter(f'"{address}" is not HOST:PORT, such as 127.0.0.1:8080') from None
    if not ip.is_loopback:
        raise typer.BadParameter(
            f"{ip} is not a loopback address; plain HTTP has no authentication and is served to this machine only"
        )
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(ip), number))
    except (OSError, OverflowError) as error:
        listener.close()
        raise typer.BadParameter(f"cannot listen on {address}: {error}") from None
    return listener


async def _run(path: Path, loaded: Loaded, listener: socket.socket) -> None:
    factory = Factory()
    live = LiveProvider(factory.build_generation(loaded.configuration))
    _log_loaded("config_loaded", path, loaded)

    def on_loaded(reloaded: Loaded) -> None:
        live.replace(factory.build_generation(reloaded.configuration))
        _log_loaded("config_reloaded", path, reloaded)

    def on_failed(problems: Sequence[Problem]) -> None:
        _log.error("config_reload_failed path=%s problems=%d kept=last_good", path, len(problems))

    watcher = ConfigurationWatcher(path, on_loaded=on_loaded, on_failed=on_failed, fingerprint=loaded.fingerprint)
    watching = asyncio.create_task(watcher.run())
    app = Application(live, lambda: [rule.name for rule in live.configuration.rules.values()])
    server = _Server(
        uvicorn.Config(
            app,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_LIMIT_S,
        )
    )
    try:
        await server.serve(sockets=[listener])
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await live.aclose()
        _log.info("stopped")


def _log_loaded(event: str, path: Path, loaded: Loaded) -> None:
    for warning in loaded.warnings:
        _log.warning("config_warning %s", warning)
    configuration = loaded.configuration
    _log.info("%s path=%s rules=%d backends=%d", event, path, len(configuration.rules), len(configuration.backends))


class _Server(uvicorn.Server):
    """Says where it listens, and ends with exit code 0 when it is told to end."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            _log.info("serving url=http://%s:%d", f"[{host}]" if ":" in host else host, port)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
