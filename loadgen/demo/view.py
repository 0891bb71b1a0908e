"""The live view, and the plain lines that stand in for it where there is no terminal; pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from loadgen.demo.judge import Verdict
from loadgen.demo.plan import PhaseName, Plan
from loadgen.records import ChainSample, Look

BARS = "▁▂▃▄▅▆▇█"
CROSS = "×"  # noqa: RUF001  # a sign that fits between the bars
CURVE_COLUMNS = 60

WHAT_HAPPENS = {
    PhaseName.RISING: "more messages come than are finished",
    PhaseName.FALLING: "fewer messages come than are finished",
    PhaseName.TYPO: "the adapter is also asked with a mistyped selector and metric",
    PhaseName.EXPORTER_KILLED: "the exporter is dead, the queue grows unseen",
    PhaseName.RECOVERED: "the exporter runs again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What there is to show.

    Attributes:
        phase: the current one.
        left_s: until the end of all phases.
        samples: everything seen so far, oldest first, at least one.
        verdicts: those on the phases that are over.
    """

    phase: PhaseName
    left_s: float
    samples: Sequence[ChainSample]
    verdicts: Sequence[Verdict]


def build_curve(points: Sequence[tuple[float, float | None]], *, total_s: float, top: float) -> str:
    """Return a curve of one line: time from 0 to *total_s* over at most 60 characters, values from 0 to *top*.

    *points* are (elapsed_s, value), oldest first; the last one within a character's time counts. A value of None is a
    cross, a time without a point is blank.
    """
    column_s = max(1.0, math.ceil(total_s / CURVE_COLUMNS))
    columns = [" "] * math.ceil(total_s / column_s)
    for elapsed_s, value in points:
        bar = CROSS if value is None else BARS[max(0, min(len(BARS) - 1, int(value / (top or 1) * len(BARS))))]
        columns[min(len(columns) - 1, int(elapsed_s / column_s))] = bar
    return "".join(columns).rstrip()


def build_view(progress: Progress, plan: Plan) -> RenderableType:
    """Return the screen, for 80 columns or more."""
    sample = progress.samples[-1]
    number = [phase.name for phase in plan.phases].index(progress.phase) + 1
    title = Text.assemble(
        ("depthgauge demo", "bold"),
        f"   phase {number}/{len(plan.phases)} ",
        (progress.phase, "bold cyan"),
        f"   {max(0, round(progress.left_s))} s left",
    )
    lines: list[RenderableType] = [
        title,
        Text(WHAT_HAPPENS[progress.phase], style="dim"),
        _build_hops(sample, plan),
        *_build_curves(progress.samples, plan),
    ]
    lines += [Text.assemble(("asked ", "dim"), line) for line in _describe_mistyped(sample)]
    lines += [_build_outcome(verdict) for verdict in progress.verdicts]
    return Group(*lines)


def build_plain_line(sample: ChainSample) -> str:
    """Return the chain at one moment as one line of text."""
    hops = (("exporter", sample.exporter), ("prometheus", sample.prometheus), ("adapter", sample.adapter))
    chain = " -> ".join(f"{name} {_describe_look(look)}" for name, look in hops)
    line = f"[{sample.elapsed_s:5.1f} s] {sample.phase:15} queue {sample.depth} -> {chain}"
    return "; ".join([line, *(text.plain for text in _describe_mistyped(sample))])


def build_plain_verdict(verdict: Verdict) -> str:
    """Return a verdict as three lines of text."""
    head = f"{'ok  ' if verdict.ok else 'FAIL'} {verdict.name}"
    return f"{head}\n     expected: {verdict.expected}\n     observed: {verdict.observed}"


def _build_hops(sample: ChainSample, plan: Plan) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("hop", width=10)
    table.add_column("number", justify="right", width=6)
    table.add_column("lag", justify="right", width=6)
    table.add_column("", ratio=1, overflow="fold")
    table.add_row("queue", str(sample.depth), "", Text("messages that wait: the truth", style="dim"))
    for name, look, about in (
        ("exporter", sample.exporter, "asks the queue at every scrape"),
        ("Prometheus", sample.prometheus, f"scrapes every {plan.scrape_interval_s:g} s"),
        ("adapter", sample.adapter, f"asks Prometheus at most every {plan.resolution_s:g} s"),
    ):
        if look.has_number:
            is_wrong = look.lag_s is None or look.lag_s > plan.lag_limit_s
            lag = Text(
                "never" if look.lag_s is None else f"{look.lag_s:.1f} s", style="bold red" if is_wrong else "green"
            )
            table.add_row(name, look.reading.describe(), lag, Text(about, style="dim"))
        else:
            style = "bold yellow" if look.reading.is_explicit_error else "yellow"
            table.add_row(name, Text("none", style=style), "", Text(look.reading.describe(), style=style))
    return table


def _build_curves(samples: Sequence[ChainSample], plan: Plan) -> list[Text]:
    top = max(sample.depth for sample in samples)
    held = build_curve([(s.elapsed_s, s.depth) for s in samples], total_s=plan.total_s, top=top)
    numbers = [
        (s.elapsed_s, None if s.adapter.reading.value is None else float(s.adapter.reading.value)) for s in samples
    ]
    said = Text(build_curve(numbers, total_s=plan.total_s, top=top), style="green")
    said.highlight_regex(f"{CROSS}+", "bold yellow")
    return [
        Text.assemble(("queue    ", "dim"), (held, "cyan")),
        Text.assemble(("adapter  ", "dim"), said),
        Text(f"{CROSS} an error, no number; lag: how long ago the queue last held that number", style="dim"),
    ]


def _build_outcome(verdict: Verdict) -> Text:
    mark, style = ("ok  ", "bold green") if verdict.ok else ("FAIL", "bold red")
    return Text.assemble((mark, style), f" {verdict.name}: {verdict.observed}")


def _describe_mistyped(sample: ChainSample) -> list[Text]:
    readings = (sample.mistyped_selector, sample.mistyped_metric)
    return [Text(reading.describe(), style="yellow") for reading in readings if reading is not None]


def _describe_look(look: Look) -> str:
    if not look.has_number:
        return f"none ({look.reading.describe()})"
    return f"{look.reading.describe()} ({'never true' if look.lag_s is None else f'lag {look.lag_s:.1f} s'})"
