"""Commands that list the real servers and provide those that are missing."""

import sys
import time
from typing import Annotated

import typer

from loadgen.parts.catalogue import PARTS
from loadgen.parts.errors import PartUnavailable
from loadgen.parts.provide import ensure_part, find_part

app = typer.Typer(no_args_is_help=True, help="Real servers for demonstrations and tests: find them, provide them.")


@app.command("list")
def list_parts() -> None:
    """Print every part and where its program is."""
    for name in PARTS:
        typer.echo(f"{name:24} {find_part(name) or 'missing'}")


@app.command()
def ensure(
    names: Annotated[list[str], typer.Argument(help=f"Parts to provide: {', '.join(PARTS)}.")],
) -> None:
    """Provide the named parts where they are missing, without installing anything on the system.

    Example: ensure prometheus victoria-metrics prometheus3
    """
    started_s = time.monotonic()

    def report(line: str) -> None:
        print(f"[{time.monotonic() - started_s:6.1f} s] {line}", flush=True)  # noqa: T201  # progress, also into a pipe

    try:
        for name in names:
            ensure_part(name, report=report)
    except PartUnavailable as exc:
        print(f"error: {exc}", file=sys.stderr)  # noqa: T201  # the same
        raise typer.Exit(1) from exc
