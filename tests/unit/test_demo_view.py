"""The view fits its terminal, and shows an error where there is no number."""

from decimal import Decimal
from io import StringIO

import pytest
from rich.console import Console

from loadgen.demo.judge import Verdict
from loadgen.demo.plan import PhaseName, Plan
from loadgen.demo.view import BARS, CROSS, Progress, build_curve, build_plain_line, build_plain_verdict, build_view
from loadgen.hops import Reading
from loadgen.records import ChainSample, Look

PLAN = Plan()
LONG_ERROR = Reading(code=503, reason="Incomplete", message="target 127.0.0.1:9100 of job queue-exporter is down " * 4)


def build_sample(adapter: Look, *, elapsed_s: float = 30.0) -> ChainSample:
    """Return a sample of a queue of 120, whose exporter is dead."""
    return ChainSample(
        phase=PhaseName.EXPORTER_KILLED,
        elapsed_s=elapsed_s,
        phase_elapsed_s=2.0,
        depth=120,
        exporter=Look(reading=Reading(message="connection refused")),
        prometheus=Look(reading=Reading(code=200, value=Decimal(100)), lag_s=1.25),
        adapter=adapter,
    )


def render(sample: ChainSample, *, columns: int) -> list[str]:
    """Return the lines of the view on a terminal of that width."""
    verdicts = [Verdict(name=PhaseName.RISING, expected="up", observed="rose " * 30, ok=True)]
    progress = Progress(phase=PhaseName.EXPORTER_KILLED, left_s=20.4, samples=[sample], verdicts=verdicts)
    console = Console(file=StringIO(), width=columns, force_terminal=False, color_system=None)
    console.print(build_view(progress, PLAN))
    output: str = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO from above
    return output.splitlines()


@pytest.mark.parametrize("columns", [pytest.param(80, id="80"), pytest.param(120, id="120")])
def test_view_fits_its_columns_and_shows_the_error_in_place_of_a_number(columns: int) -> None:
    """No line is wider than the terminal, the whole view is a screen high, and the Reason can be read."""
    lines = render(build_sample(Look(reading=LONG_ERROR)), columns=columns)
    assert max(len(line) for line in lines) <= columns
    assert len(lines) <= 24
    adapter = next(line for line in lines if line.lstrip().startswith("adapter "))
    assert "none" in adapter
    assert "503 Incomplete" in adapter
    assert any("phase 4/5 exporter-killed   20 s left" in line for line in lines)


def test_view_shows_each_hops_number_and_lag() -> None:
    """What each hop says, and how late it is."""
    lines = render(build_sample(Look(reading=Reading(code=200, value=Decimal(90)), lag_s=2.5)), columns=80)
    rows = {line.split()[0]: line.split()[1:4] for line in lines if line.split()}
    assert rows["Prometheus"][:3] == ["100", "1.2", "s"]
    assert next(line.split()[1:4] for line in lines if line.lstrip().startswith("adapter ")) == ["90", "2.5", "s"]


def test_curve_has_bars_crosses_and_gaps_where_they_belong() -> None:
    """A number is a bar of its height, an error a cross, and a time when nobody looked is blank."""
    curve = build_curve([(0.0, 0), (1.0, 50), (2.5, None), (4.0, 100)], total_s=6, top=100)
    assert curve == f"{BARS[0]}{BARS[4]}{CROSS} {BARS[-1]}"


def test_curve_stays_within_its_columns_for_a_long_run_and_a_number_beyond_the_top() -> None:
    """However long the run, and whatever an adapter says, it is one line."""
    curve = build_curve([(float(second), 10.0**second) for second in range(300)], total_s=300, top=5)
    assert len(curve) == 60


def test_plain_line_names_every_hop() -> None:
    """Without a terminal the same is said in one line."""
    assert build_plain_line(build_sample(Look(reading=Reading(code=404, reason="NoSamples", message="empty")))) == (
        "[ 30.0 s] exporter-killed queue 120 -> exporter none (connection refused) -> prometheus 100 (lag 1.2 s)"
        " -> adapter none (404 NoSamples: empty)"
    )


def test_plain_line_says_that_a_number_was_never_true() -> None:
    """A silent zero is called what it is."""
    assert "adapter 0 (never true)" in build_plain_line(build_sample(Look(reading=Reading(code=200, value=Decimal(0)))))


def test_plain_verdict_says_what_was_expected_and_observed() -> None:
    """A failure can be understood from the log alone."""
    verdict = Verdict(name=PhaseName.TYPO, expected="404", observed="0", ok=False)
    assert build_plain_verdict(verdict) == "FAIL typo\n     expected: 404\n     observed: 0"
