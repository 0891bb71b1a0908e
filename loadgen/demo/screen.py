"""The two places where the demonstration is shown: a terminal that is redrawn, or lines one after the other."""

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.live import Live

from loadgen.demo.judge import Verdict
from loadgen.demo.plan import PhaseName, Plan
from loadgen.demo.view import Progress, build_plain_line, build_plain_verdict, build_view

LINE_INTERVAL_S = 2.0


class PlainScreen:
    """One line every two seconds and at the beginning of each phase; the whole verdict at its end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown_phase: PhaseName | None = None
        self._shown_s = 0.0

    def report(self, line: str) -> None:
        """Print *line*."""
        self._print(line)

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Nothing to prepare."""
        yield

    def show(self, progress: Progress) -> None:
        """Print the newest sample, where the last line is two seconds old or of another phase."""
        sample = progress.samples[-1]
        if progress.phase is self._shown_phase and sample.elapsed_s < self._shown_s + LINE_INTERVAL_S:
            return
        self._shown_phase, self._shown_s = progress.phase, sample.elapsed_s
        self._print(build_plain_line(sample))

    def conclude(self, verdict: Verdict) -> None:
        """Print *verdict*."""
        self._print(build_plain_verdict(verdict))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        self._console.file.flush()


class LiveScreen:
    """A terminal: the set-up line by line, then one view that is redrawn and stays when it ends."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self._console = console
        self._plan = plan
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._last: Progress | None = None

    def report(self, line: str) -> None:
        """Print *line*."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Redraw in place until the block is left."""
        with self._live:
            yield

    def show(self, progress: Progress) -> None:
        """Redraw."""
        self._last = progress
        self._live.update(build_view(progress, self._plan), refresh=True)

    def conclude(self, verdict: Verdict) -> None:
        """Redraw with *verdict*: the list of verdicts in the newest progress is the same one, grown."""
        if self._last is not None and verdict in self._last.verdicts:
            self.show(self._last)
