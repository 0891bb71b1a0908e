"""What goes to a person's screen: backends' texts made harmless, columns, and errors on stderr."""

from collections.abc import Iterable, Sequence

import typer


def make_printable(text: str) -> str:
    """Return *text* with everything but printable characters and line breaks escaped: no colours, no cursor moves."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def print_text(text: str) -> None:
    """Print *text* on stdout."""
    typer.echo(make_printable(text))


def print_error(text: str) -> None:
    """Print *text* on stderr, as what went wrong."""
    typer.echo(f"depthgauge: {make_printable(text)}", err=True)


def format_columns(rows: Iterable[Sequence[str]]) -> str:
    """Return *rows* with their columns aligned, two blanks apart."""
    table = [[make_printable(cell).replace("\n", "\\n") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)
