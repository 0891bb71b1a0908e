"""The command line as a whole."""

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Final

import typer

from adapter.cli.check import check
from adapter.cli.explain import explain
from adapter.cli.get import get
from adapter.cli.schema import schema
from adapter.cli.serve import serve

_KEPT_AS_TYPED: Final = "\b"
"""Before a paragraph of help: its lines are not joined (click)."""


app = typer.Typer(
    name="depthgauge",
    help="A Kubernetes external-metrics adapter that answers with the real number, or says why it does not.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def format_help(command: Callable[..., None]) -> str:
    """Return the help of *command*: its docstring, in which indented blocks such as examples keep their lines."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(f"{_KEPT_AS_TYPED}\n{text}" if "\n  " in text else text for text in paragraphs)


for _command in (serve, check, get, explain, schema):
    app.command(help=format_help(_command))(_command)


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if is_asked:
        typer.echo(f"depthgauge {version('depthgauge')}")
        raise typer.Exit


_VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def _root(show_version: _VersionOption = False) -> None:  # noqa: FBT002 - typer's option
    pass


def main() -> None:
    """Run the command line."""
    app()
