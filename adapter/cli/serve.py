"""`depthgauge serve`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from adapter.cli.options import ConfigOption


class LogFormat(StrEnum):
    """How log lines are written."""

    TEXT = "text"
    JSON = "json"


def serve(  # noqa: PLR0913, PLR0917 - a command's options
    config: ConfigOption,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve HTTPS as an aggregated API server: [::]:6443. Port 0 picks a free one.",
            show_default=False,
        ),
    ] = None,
    tls_cert_file: Annotated[
        Path | None, typer.Option(help="The serving certificate (PEM); read again when it changes.")
    ] = None,
    tls_key_file: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    tls_self_signed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Make a certificate for this name instead, which nobody can verify. May be given several times.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="How to reach the cluster; without it, as a pod does.", show_default=False)
    ] = None,
    ops_listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve /metrics, /livez and /readyz there too, over plain HTTP.",
            show_default=False,
        ),
    ] = None,
    shutdown_delay: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="SECONDS", help="With --listen: how long to go on after /readyz says that the end comes."
        ),
    ] = 5.0,
    max_requests_in_flight: Annotated[
        int, typer.Option(min=1, help="More than so many requests at once are refused with 503.")
    ] = 400,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines are written.")] = LogFormat.TEXT,
    dev_http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve plain HTTP without authentication on this loopback address, to try things.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve external metrics.

    The configuration is loaded again whenever it changes. A configuration that cannot be loaded ends the process at
    start; later the last good one stays in force.

    Examples:
      depthgauge serve --config depthgauge.yaml --dev-http 127.0.0.1:8080
      depthgauge serve -c conf --listen '[::]:6443' --tls-self-signed localhost

    Exit codes:
      0  told to end (SIGTERM, Ctrl-C), and every request finished
      1  the configuration, the certificate or the cluster cannot be used
      2  wrong usage
    """
    from adapter.cli.server import ServeOptions, run_server

    if (listen is None) == (dev_http is None):
        raise typer.BadParameter("give --listen HOST:PORT to serve a cluster, or --dev-http HOST:PORT to try things")
    run_server(
        ServeOptions(
            config=config,
            dev_http=dev_http,
            listen_on=listen,
            tls_cert_file=tls_cert_file,
            tls_key_file=tls_key_file,
            self_signed_for=tuple(tls_self_signed or ()),
            kubeconfig=kubeconfig,
            ops_listen=ops_listen,
            shutdown_delay_s=shutdown_delay if listen is not None else 0.0,
            max_in_flight=max_requests_in_flight,
            log_format=log_format,
        )
    )
