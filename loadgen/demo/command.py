"""`loadgen demo`."""

import math
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from loadgen.demo.chain import Chain
from loadgen.demo.ending import Ending
from loadgen.demo.plan import MISTYPED_SELECTOR
from loadgen.demo.run import EXIT_FAILED, Options, Outcome, run_demo
from loadgen.demo.screen import LiveScreen, PlainScreen
from loadgen.servers import find_adapter

DEFAULT_FOLDER = Path("build/demo")


def demo(  # noqa: PLR0913  # an argument is an option
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="When all phases are over, keep everything running until Ctrl-C.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="One line every 2 s in place of the live view, as without a terminal.")
    ] = False,
    folder: Annotated[
        Path, typer.Option(help="Gets the adapter's configuration and the record of everything seen.")
    ] = DEFAULT_FOLDER,
    summary: Annotated[
        Path | None, typer.Option(help="Where the summary goes.", show_default="FOLDER/summary.json")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Where the adapter listens.", show_default="a free port")
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="The depthgauge program.", show_default="the one beside loadgen")
    ] = None,
) -> None:
    """Watch a real queue, exporter, Prometheus and adapter while the exporter is killed; about a minute.

    Exit code 0 when every phase went as expected, 1 when one did not, 130 after Ctrl-C. Nothing is installed on the
    system; everything listens on 127.0.0.1 and is stopped at the end.

    Example:
        loadgen demo --plain --summary summary.json
    """
    console = Console(highlight=False)
    program = adapter or find_adapter()
    if program is None:
        console.print("error: the depthgauge command is missing; run scripts/setup", markup=False)
        raise typer.Exit(EXIT_FAILED)
    options = Options(
        adapter=program.resolve() if adapter else program,
        folder=folder,
        summary=summary or folder / "summary.json",
        adapter_port=port,
    )
    is_live = console.is_terminal and not console.is_dumb_terminal and not plain
    screen = LiveScreen(console, options.plan) if is_live else PlainScreen(console)

    def afterwards(chain: Chain, outcome: Outcome, ending: Ending) -> None:
        _print_outcome(console, outcome, options, is_live=is_live)
        _print_next(console, chain, is_kept=keep)
        if keep:
            ending.sleep(math.inf)

    raise typer.Exit(run_demo(options, screen, afterwards=afterwards))


def _print_outcome(console: Console, outcome: Outcome, options: Options, *, is_live: bool) -> None:
    failed = [str(verdict.name) for verdict in outcome.verdicts if not verdict.ok]
    if failed:
        console.print(f"\nNOT as expected: {', '.join(failed)}.", style="bold red", markup=False)
        for verdict in outcome.verdicts:
            if not verdict.ok and is_live:  # the plain lines have said it already
                _print_line(console, f"{verdict.name}\n  expected: {verdict.expected}\n  observed: {verdict.observed}")
    else:
        console.print(f"\nAll {len(outcome.verdicts)} phases as expected.", style="bold green", markup=False)
    _print_line(console, f"Summary: {options.summary}")
    _print_line(console, f"Everything seen, a line for each look: {options.folder / 'chain.ndjson'}")


def _print_next(console: Console, chain: Chain, *, is_kept: bool) -> None:
    value = f"curl -s {shlex.quote(chain.build_url())}"
    error = f"curl -s {shlex.quote(chain.build_url(selector=MISTYPED_SELECTOR))}"
    if is_kept:
        lines = [
            "Everything keeps running. In another terminal:",
            f"  {value}",
            "      the number",
            f"  {error}",
            "      a mistyped selector: an error, not 0",
            f"  kill -9 {chain.exporter.pid}",
            "      end the exporter, then ask for the number again",
            f"  {chain.prometheus.url}/graph",
            "      Prometheus, in a browser",
            "Ctrl-C stops all of it.",
        ]
    else:
        lines = [
            "Next:",
            f"  scripts/demo --keep --port {chain.adapter.port}",
            "      the same, and everything keeps running; meanwhile, in another terminal:",
            f"  {value}",
            "      the number",
            f"  {error}",
            "      a mistyped selector: an error, not 0",
        ]
    _print_line(console, "\n".join(["", *lines, ""]))


def _print_line(console: Console, text: str) -> None:
    """Print *text* as it is, never broken: it is there to be copied."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
