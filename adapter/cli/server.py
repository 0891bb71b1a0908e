"""The server's process: listen, serve, reload, drain."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
import uvicorn
import uvloop

from adapter.cli.listening import describe, listen
from adapter.cli.logs import set_up_logs
from adapter.clock import SystemClock
from adapter.config.load import Loaded, load_configuration
from adapter.config.problems import ConfigurationError, Problem
from adapter.config.reload import ConfigurationWatcher
from adapter.observe import SelfMetrics
from adapter.server.app import Application, build_operations
from adapter.server.drain import FINISH_LIMIT_S, DrainingServer, SideServer
from adapter.server.health import Health
from adapter.server.selfsigned import write_self_signed
from adapter.server.transport import BadCertificate, ServingTls, build_tls_config
from adapter.serving.live import LiveProvider
from adapter.upstream.kube import ClusterUnavailable
from adapter.wiring import ClusterTrust, Factory, connect_trust

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How to serve. Exactly one of *dev_http* and *listen_on* is an address; the rest is about the latter."""

    config: Path
    dev_http: str | None = None
    listen_on: str | None = None
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    self_signed_for: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    ops_listen: str | None = None
    shutdown_delay_s: float = 0.0
    max_in_flight: int = 400
    log_format: str = "text"


def run_server(options: ServeOptions) -> None:
    """Serve until told to end; a configuration, certificate or cluster that cannot be used ends the process with 1."""
    set_up_logs(options.log_format)
    is_secure = options.listen_on is not None
    listener = listen(options.listen_on or options.dev_http or "", is_loopback_only=not is_secure)
    ops_listener = listen(options.ops_listen) if options.ops_listen is not None else None
    try:
        loaded = load_configuration(options.config)
        with TemporaryDirectory(prefix="depthgauge-tls-") as folder:
            tls = _load_tls(options, Path(folder)) if is_secure else None
            uvloop.run(_run(options, loaded, tls, listener, ops_listener))
    except (ConfigurationError, BadCertificate, ClusterUnavailable) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _load_tls(options: ServeOptions, folder: Path) -> ServingTls:
    """Return the TLS of *options*; a certificate of the server's own lives in *folder*."""
    if options.self_signed_for:
        if options.tls_cert_file is not None or options.tls_key_file is not None:
            raise typer.BadParameter("give either --tls-self-signed, or --tls-cert-file and --tls-key-file")
        try:
            return ServingTls(*write_self_signed(options.self_signed_for, folder))
        except ValueError as error:
            raise typer.BadParameter(f"--tls-self-signed: {error}") from None
    if options.tls_cert_file is None or options.tls_key_file is None:
        raise typer.BadParameter("--listen needs --tls-cert-file and --tls-key-file, or --tls-self-signed NAME")
    return ServingTls(options.tls_cert_file, options.tls_key_file)


async def _run(
    options: ServeOptions,
    loaded: Loaded,
    tls: ServingTls | None,
    listener: socket.socket,
    ops_listener: socket.socket | None,
) -> None:
    clock = SystemClock()
    metrics = SelfMetrics(clock)
    health = Health()
    trust: ClusterTrust | None = None
    if tls is not None:
        trust = await connect_trust(options.kubeconfig, tls=tls, clock=clock, observer=metrics)
    factory = Factory(clock, metrics)
    live = LiveProvider(factory.build_generation(loaded.configuration))
    watcher = _watch_configuration(options.config, loaded, live=live, factory=factory, metrics=metrics)
    app = Application(
        live,
        lambda: [rule.name for rule in live.configuration.rules.values()],
        door=trust.door if trust is not None else None,
        health=health,
        observer=metrics,
        max_in_flight=options.max_in_flight,
    )
    background = [asyncio.create_task(watcher.run())]
    if tls is not None and trust is not None:
        background += [asyncio.create_task(tls.keep_fresh()), asyncio.create_task(trust.keep_fresh())]
    config = (
        build_tls_config(app, tls, **UVICORN_SETTINGS)
        if tls
        else uvicorn.Config(app, http="httptools", **UVICORN_SETTINGS)
    )
    url = describe(listener, "https" if tls else "http")
    server = DrainingServer(config, health, delay_s=options.shutdown_delay_s, url=url)
    side: SideServer | None = None
    if ops_listener is not None:
        operations = build_operations(health, metrics.render)
        side = SideServer(uvicorn.Config(operations, http="httptools", **UVICORN_SETTINGS))
        background.append(asyncio.create_task(side.serve(sockets=[ops_listener])))
        _log.info("operations url=%s", describe(ops_listener, "http"))
    try:
        await server.serve(sockets=[listener])
    finally:
        if side is not None:
            side.should_exit = True
            await asyncio.wait({background.pop()}, timeout=5)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await live.aclose()
        if trust is not None:
            await trust.aclose()
        _log.info("stopped")


UVICORN_SETTINGS: dict[str, Any] = {
    "loop": "uvloop",
    "ws": "none",
    "lifespan": "off",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,  # nothing here depends on the address or scheme that a proxy reports
    "timeout_graceful_shutdown": FINISH_LIMIT_S,
    "timeout_keep_alive": 75,
}


def _watch_configuration(
    path: Path, loaded: Loaded, *, live: LiveProvider, factory: Factory, metrics: SelfMetrics
) -> ConfigurationWatcher:
    _log_loaded("config_loaded", path, loaded)
    metrics.note_loaded(loaded.configuration)

    def on_loaded(reloaded: Loaded) -> None:
        live.replace(factory.build_generation(reloaded.configuration))
        metrics.note_loaded(reloaded.configuration)
        _log_loaded("config_reloaded", path, reloaded)

    def on_failed(problems: Sequence[Problem]) -> None:
        metrics.note_load_failed()
        _log.error("config_reload_failed path=%s problems=%d kept=last_good", path, len(problems))

    return ConfigurationWatcher(path, on_loaded=on_loaded, on_failed=on_failed, fingerprint=loaded.fingerprint)


def _log_loaded(event: str, path: Path, loaded: Loaded) -> None:
    for warning in loaded.warnings:
        _log.warning("config_warning %s", warning)
    configuration = loaded.configuration
    _log.info("%s path=%s rules=%d backends=%d", event, path, len(configuration.rules), len(configuration.backends))
