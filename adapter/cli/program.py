"""The command line as a whole."""

from importlib.metadata import version
from typing import Annotated

import typer

from adapter.cli.serve import serve

app = typer.Typer(
    name="depthgauge",
    help="A Kubernetes external-metrics adapter that answers with the real number, or says why it does not.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command()(serve)


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if is_asked:
        typer.echo(f"depthgauge {version('depthgauge')}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,  # noqa: FBT002 - typer's option
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
