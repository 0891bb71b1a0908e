"""`depthgauge serve`."""

from typing import Annotated

import typer

from adapter.cli.options import ConfigOption


def serve(
    config: ConfigOption,
    dev_http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve plain HTTP without authentication on this loopback address; port 0 picks a free one.",
            show_default=False,
        ),
    ],
) -> None:
    """Serve external metrics.

    The configuration is loaded again whenever it changes. A configuration that cannot be loaded ends the process at
    start; later the last good one stays in force.

    Examples:
      depthgauge serve --config depthgauge.yaml --dev-http 127.0.0.1:8080
      curl http://127.0.0.1:8080/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue_length

    Exit codes:
      0  told to end (SIGTERM, Ctrl-C), and every request finished
      1  the configuration has problems
      2  wrong usage
    """
    from adapter.cli.server import run_server

    run_server(config, dev_http)
