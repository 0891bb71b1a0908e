"""The summary says no more than was seen, and an end that was asked for comes."""

import os
import signal
import time

import pytest

from loadgen.demo.ending import Ending
from loadgen.demo.judge import Verdict
from loadgen.demo.plan import PhaseName, Plan
from loadgen.demo.run import Outcome, build_summary

PLAN = Plan()


def build_verdicts(*, failed: PhaseName | None = None) -> list[Verdict]:
    """Return a verdict on every phase, all as expected but *failed*."""
    return [Verdict(name=name, expected="e", observed="o", ok=name is not failed) for name in PhaseName]


@pytest.mark.parametrize(
    ("outcome", "ok"),
    [
        pytest.param(Outcome(verdicts=build_verdicts()), True, id="all-phases"),
        pytest.param(Outcome(verdicts=build_verdicts(failed=PhaseName.TYPO)), False, id="one-failed"),
        pytest.param(Outcome(verdicts=build_verdicts()[:-1], interrupted=True), False, id="one-missing"),
        pytest.param(Outcome(verdicts=build_verdicts(), failure="it broke"), False, id="failure"),
        pytest.param(Outcome(), False, id="nothing"),
    ],
)
def test_summary_is_ok_only_when_every_phase_was_seen_as_expected(outcome: Outcome, *, ok: bool) -> None:
    """What was not seen to its end is no success."""
    summary = build_summary(outcome, PLAN)
    assert summary["ok"] is ok
    assert all(set(phase) == {"name", "expected", "observed", "ok"} for phase in summary["phases"])


def test_plan_ends_in_time_and_watches_long_enough_to_tell() -> None:
    """All phases fit into 90 s; those of the outage are longer than what they allow, and 0 is never the truth."""
    durations_s = {phase.name: phase.duration_s for phase in PLAN.phases}
    assert list(durations_s) == list(PhaseName)
    assert PLAN.total_s < 80
    assert durations_s[PhaseName.EXPORTER_KILLED] > PLAN.lag_limit_s + 2
    assert durations_s[PhaseName.RECOVERED] > PLAN.return_limit_s + 2
    arrivals, service = PLAN.build_arrivals(), PLAN.build_service()
    depths = [PLAN.first_depth + arrivals.count(t) - service.count(t) for t in range(int(PLAN.total_s) + 1)]
    assert min(depths) > 50


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_ending_interrupts_once_and_lets_the_clearing_up_go_on(number: signal.Signals) -> None:
    """The first signal interrupts, a second one does not, and afterwards all is as it was."""
    before = signal.getsignal(number)
    interrupts = 0
    with Ending():
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        except KeyboardInterrupt:
            interrupts += 1
            os.kill(os.getpid(), number)
    assert interrupts == 1
    assert signal.getsignal(number) is before


def test_ending_is_not_lost_when_its_interrupt_was() -> None:
    """An interrupt that was swallowed elsewhere is made up for by the next sleep, however long that should be."""
    with Ending() as ending:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            pass
        started_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            ending.sleep(60)
        assert time.monotonic() - started_s < 5


def test_ending_sleeps_as_long_as_it_is_told() -> None:
    """Without a signal it is a sleep, and none for a time that is over."""
    with Ending() as ending:
        started_s = time.monotonic()
        ending.sleep(0.3)
        assert time.monotonic() - started_s >= 0.3
        ending.sleep(-5)
