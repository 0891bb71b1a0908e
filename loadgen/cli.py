"""The command line as a whole."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from loadgen.cluster.cli import app as cluster_app
from loadgen.demo.command import demo
from loadgen.exporter import run_exporter
from loadgen.parts.cli import app as parts_app
from loadgen.textfile import run_text_exporter

app = typer.Typer(
    name="loadgen",
    help="Synthetic load on a queue, and the chain from the queue to the adapter watched.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.add_typer(parts_app, name="parts")
app.add_typer(cluster_app, name="cluster")


@app.command()
def exporter(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where /metrics is served.")],
    queue_url: Annotated[
        str | None, typer.Option(metavar="URL", help='Gives {"queue": NAME, "depth": N} for a GET.')
    ] = None,
    text_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Metrics in Prometheus' text format, served as they stand.")
    ] = None,
) -> None:
    """Export the depth of a queue as myapp_queue_length, or a text file; read anew at every scrape.

    Example:
        loadgen exporter --queue-url http://127.0.0.1:9000/depth --listen 127.0.0.1:9100
        loadgen exporter --text-file metrics.prom --listen 127.0.0.1:9100
    """
    if (queue_url is None) == (text_file is None):
        raise typer.BadParameter("give one of them", param_hint="--queue-url, --text-file")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise typer.BadParameter(f'"{listen}" is not HOST:PORT, such as 127.0.0.1:9100', param_hint="--listen")
    if queue_url is not None:
        run_exporter(queue_url, host=host, port=int(port))
    elif text_file is not None:
        run_text_exporter(text_file, host=host, port=int(port))


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if is_asked:
        typer.echo(f"loadgen {version('depthgauge')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
