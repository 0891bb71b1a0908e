"""Runs the demonstration from set-up to summary: one straight walk."""

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from loadgen.demo.chain import Chain, NoFirstNumber
from loadgen.demo.ending import Ending
from loadgen.demo.judge import Verdict, find_first_number_s, find_last_number_s, judge_phase
from loadgen.demo.plan import PhaseName, Plan
from loadgen.demo.view import Progress
from loadgen.parts import PartUnavailable, ensure_part
from loadgen.parts.process import ServerFailed
from loadgen.records import ChainSample

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


class Screen(Protocol):
    """Where the demonstration is shown."""

    def report(self, line: str) -> None:
        """Show one line of the set-up."""

    def watch(self) -> contextlib.AbstractContextManager[None]:
        """Enter the live view; left again after the last phase."""

    def show(self, progress: Progress) -> None:
        """Show the chain as it is now."""

    def conclude(self, verdict: Verdict) -> None:
        """Show the verdict on a phase that is over."""


@dataclass(slots=True)
class Outcome:
    """What the demonstration came to, as far as it came.

    Attributes:
        verdicts: one for each phase that was finished.
        samples: everything seen.
        set_up_s: how long the set-up took.
        failure: why it could not go on; empty when it could.
        interrupted: whether someone ended it.
    """

    verdicts: list[Verdict] = field(default_factory=list)
    samples: list[ChainSample] = field(default_factory=list)
    set_up_s: float = 0.0
    failure: str = ""
    interrupted: bool = False

    def is_ok(self, plan: Plan) -> bool:
        """Whether every phase of *plan* came to its end and went as expected."""
        return not self.failure and len(self.verdicts) == len(plan.phases) and all(v.ok for v in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run.

    Attributes:
        adapter: the `depthgauge` program.
        folder: gets the adapter's configuration and the record of everything seen.
        summary: where the summary goes.
        adapter_port: where the adapter listens; None picks a free port.
        plan: what is done.
    """

    adapter: Path
    folder: Path
    summary: Path
    adapter_port: int | None = None
    plan: Plan = field(default_factory=Plan)


def run_demo(options: Options, screen: Screen, *, afterwards: Callable[[Chain, Outcome, Ending], None]) -> int:
    """Run everything, write the summary, and return the exit code: 0, 1 for any failure, 130 for Ctrl-C.

    *afterwards* is called when all phases are over, while everything still runs.
    """
    outcome = Outcome()
    options.folder.mkdir(parents=True, exist_ok=True)
    options.summary.parent.mkdir(parents=True, exist_ok=True)
    options.summary.unlink(missing_ok=True)  # a run that is killed must not leave an older run's summary
    try:
        with Ending() as ending:
            _run(options, screen, outcome, ending, afterwards)
    except KeyboardInterrupt:
        outcome.interrupted = len(outcome.verdicts) < len(options.plan.phases)
        if outcome.interrupted:
            screen.report(f"interrupted: {len(outcome.verdicts)} of {len(options.plan.phases)} phases were over")
    except (PartUnavailable, ServerFailed, NoFirstNumber) as exc:
        outcome.failure = str(exc)
        screen.report(f"error: {exc}")
    finally:
        options.summary.write_text(json.dumps(build_summary(outcome, options.plan), indent=2) + "\n")
        _write_record(options.folder / "chain.ndjson", outcome.samples)
    if outcome.interrupted:
        return EXIT_INTERRUPTED
    return EXIT_OK if outcome.is_ok(options.plan) else EXIT_FAILED


def build_summary(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    """Return what `summary.json` holds."""
    killed = [sample for sample in outcome.samples if sample.phase == PhaseName.EXPORTER_KILLED]
    recovered = [sample for sample in outcome.samples if sample.phase == PhaseName.RECOVERED]
    return {
        "ok": outcome.is_ok(plan),
        "phases": [asdict(verdict) for verdict in outcome.verdicts],
        "failure": outcome.failure,
        "interrupted": outcome.interrupted,
        "set_up_s": round(outcome.set_up_s, 1),
        "run_s": round(outcome.samples[-1].elapsed_s, 1) if outcome.samples else 0.0,
        "looks": len(outcome.samples),
        "scrape_interval_s": plan.scrape_interval_s,
        "resolution_s": plan.resolution_s,
        "lag_limit_s": plan.lag_limit_s,
        "lag_s": {hop: _summarize_lags(outcome.samples, hop) for hop in ("exporter", "prometheus", "adapter")},
        "last_number_after_kill_s": _round(find_last_number_s(killed)),
        "first_number_after_return_s": _round(find_first_number_s(recovered)),
    }


def _run(
    options: Options,
    screen: Screen,
    outcome: Outcome,
    ending: Ending,
    afterwards: Callable[[Chain, Outcome, Ending], None],
) -> None:
    started_s = time.monotonic()

    def report(line: str) -> None:
        screen.report(f"[{time.monotonic() - started_s:5.1f} s] {line}")

    prometheus = ensure_part("prometheus", report=report)
    with Chain(
        options.plan,
        prometheus=prometheus,
        adapter=options.adapter,
        folder=options.folder,
        adapter_port=options.adapter_port,
        report=report,
    ) as chain:
        outcome.set_up_s = time.monotonic() - started_s
        chain.begin()
        with screen.watch():
            for number in range(len(options.plan.phases)):
                outcome.verdicts.append(_watch_phase(number, chain, options.plan, screen, outcome, ending))
                screen.conclude(outcome.verdicts[-1])
        afterwards(chain, outcome, ending)
        ending.ignore_further()


def _watch_phase(  # noqa: PLR0913, PLR0917  # one caller
    number: int, chain: Chain, plan: Plan, screen: Screen, outcome: Outcome, ending: Ending
) -> Verdict:
    name = plan.phases[number].name
    end_s = sum(phase.duration_s for phase in plan.phases[: number + 1])
    if name is PhaseName.EXPORTER_KILLED:
        chain.kill_exporter()
    elif name is PhaseName.RECOVERED:
        chain.restart_exporter()
    begin_s = chain.elapsed_s()
    samples: list[ChainSample] = []
    while True:
        sample = chain.look(name, phase_begin_s=begin_s)
        samples.append(sample)
        outcome.samples.append(sample)
        screen.show(
            Progress(
                phase=name,
                left_s=plan.total_s - sample.elapsed_s,
                samples=outcome.samples,
                verdicts=outcome.verdicts,
            )
        )
        next_s = sample.elapsed_s + plan.look_interval_s
        if next_s >= end_s:
            break
        ending.sleep(next_s - chain.elapsed_s())
    ending.sleep(end_s - chain.elapsed_s())
    return judge_phase(name, samples, plan)


def _write_record(path: Path, samples: Sequence[ChainSample]) -> None:
    path.write_text("".join(json.dumps(sample.as_json()) + "\n" for sample in samples))


def _summarize_lags(samples: Sequence[ChainSample], hop: str) -> dict[str, float | None]:
    lags_s = [look.lag_s for look in (getattr(sample, hop) for sample in samples) if look.lag_s is not None]
    return {"median": _round(median(lags_s) if lags_s else None), "max": _round(max(lags_s, default=None))}


def _round(value_s: float | None) -> float | None:
    return None if value_s is None else round(value_s, 2)
