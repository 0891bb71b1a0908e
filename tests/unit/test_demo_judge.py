"""A phase of the demonstration is called as expected only when it was."""

from collections.abc import Callable, Sequence
from decimal import Decimal

import pytest

from loadgen.demo.judge import find_last_number_s, judge_phase
from loadgen.demo.plan import PhaseName, Plan
from loadgen.hops import Reading
from loadgen.records import ChainSample, Look

PLAN = Plan()
ERROR = Reading(code=404, reason="NoSamples", message="query returned no samples")
NO_MATCH = Reading(code=404, reason="NoMatch", message="none matches")
UNKNOWN = Reading(code=404, reason="UnknownMetric", message="no rule")
NOTHING = Look(reading=Reading(message="connection refused"))


def number(value: float, *, lag_s: float | None = 1.0) -> Look:
    """Return an adapter's answer with a number."""
    return Look(reading=Reading(code=200, value=Decimal(value)), lag_s=lag_s)


def build_samples(phase: PhaseName, answer: Callable[[float, int], Look], *, slope: int = 10) -> list[ChainSample]:
    """Return 12 s of samples, one a second, of a queue that changes by *slope* a second; *answer* is the adapter's."""
    samples = []
    for second in range(12):
        depth = 300 + slope * second
        samples.append(
            ChainSample(
                phase=phase,
                elapsed_s=50.0 + second,
                phase_elapsed_s=float(second),
                depth=depth,
                exporter=NOTHING,
                prometheus=NOTHING,
                adapter=answer(float(second), depth),
                mistyped_selector=NO_MATCH if phase is PhaseName.TYPO else None,
                mistyped_metric=UNKNOWN if phase is PhaseName.TYPO else None,
            )
        )
    return samples


def error(reading: Reading = ERROR) -> Look:
    """Return an adapter's answer without a number."""
    return Look(reading=reading)


@pytest.mark.parametrize(
    ("phase", "slope"),
    [pytest.param(PhaseName.RISING, 10, id="rising"), pytest.param(PhaseName.FALLING, -10, id="falling")],
)
def test_following_is_ok_when_the_adapter_lags_within_the_limit(phase: PhaseName, slope: int) -> None:
    """Numbers that the queue had a second ago are as expected."""
    samples = build_samples(phase, lambda _, depth: number(depth - slope), slope=slope)
    assert judge_phase(phase, samples, PLAN).ok


def test_following_tolerates_one_error_in_five_and_says_so() -> None:
    """A scrape that timed out on a busy machine is told, and no failure."""
    samples = build_samples(PhaseName.RISING, lambda s, depth: error() if s in {3, 4} else number(depth))
    verdict = judge_phase(PhaseName.RISING, samples, PLAN)
    assert verdict.ok
    assert "2 of 12 answers without a number: 404 NoSamples (2x)" in verdict.observed


@pytest.mark.parametrize(
    ("answer", "observed"),
    [
        pytest.param(lambda _s, _d: number(0, lag_s=None), "12 WRONG, first 0 where the queue had 300", id="zero"),
        pytest.param(lambda s, _d: number(300, lag_s=s), "6 WRONG, first 300", id="last-number"),
        pytest.param(lambda s, d: number(0, lag_s=None) if s == 5 else number(d), "1 WRONG", id="one-zero"),
        pytest.param(lambda _s, _d: number(300, lag_s=0.5), "adapter 300 to 300", id="does-not-follow"),
        pytest.param(lambda s, d: error() if s > 8 else number(d), "3 of 12 answers", id="many-errors"),
        pytest.param(lambda s, d: NOTHING if s == 5 else number(d), "connection refused", id="one-silence"),
        pytest.param(
            lambda s, d: error(Reading(code=200, message="no items")) if s == 5 else number(d), "no items", id="empty"
        ),
    ],
)
def test_following_fails_when_the_adapter_does_not_give_the_queues_numbers(
    answer: Callable[[float, int], Look], observed: str
) -> None:
    """One number that was never true, or no explanation in place of one, is enough to fail, and is named."""
    verdict = judge_phase(PhaseName.RISING, build_samples(PhaseName.RISING, answer), PLAN)
    assert not verdict.ok
    assert observed in verdict.observed


def test_following_fails_when_the_queue_itself_did_not_move() -> None:
    """A demonstration without a demonstration is none."""
    samples = build_samples(PhaseName.RISING, lambda _, depth: number(depth), slope=0)
    assert not judge_phase(PhaseName.RISING, samples, PLAN).ok


def test_killed_is_ok_when_an_explicit_error_takes_over_in_time() -> None:
    """The last numbers before the first failed scrape are allowed; then errors only."""
    samples = build_samples(PhaseName.EXPORTER_KILLED, lambda s, _: number(290, lag_s=s) if s < 2 else error())
    verdict = judge_phase(PhaseName.EXPORTER_KILLED, samples, PLAN)
    assert verdict.ok
    assert find_last_number_s(samples) == 1.0
    assert "last number 1.0 s after the kill" in verdict.observed


@pytest.mark.parametrize(
    "reason", ["NoSamples", "Incomplete", "Stale", "RequirementFailed"], ids=lambda reason: f"reason-{reason}"
)
def test_killed_accepts_any_explicit_reason(reason: str) -> None:
    """Guards answer 503 where an empty result answers 404; both are explicit."""
    reading = Reading(code=404 if reason == "NoSamples" else 503, reason=reason, message="...")
    assert judge_phase(
        PhaseName.EXPORTER_KILLED, build_samples(PhaseName.EXPORTER_KILLED, lambda _s, _d: error(reading)), PLAN
    ).ok


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda s, _: number(0, lag_s=None) if s == 2 else error(), id="one-silent-zero-early"),
        pytest.param(lambda s, _: number(0, lag_s=None) if s == 9 else error(), id="one-silent-zero-late"),
        pytest.param(lambda s, _: number(290, lag_s=s), id="last-number-on-and-on"),
        pytest.param(lambda s, _: number(290, lag_s=1.0) if s == 11 else error(), id="a-number-that-happens-to-fit"),
        pytest.param(lambda _s, _d: error(Reading(code=200, message="no items")), id="empty-list"),
        pytest.param(lambda _s, _d: error(Reading(code=503, message="not a Status")), id="error-without-reason"),
        pytest.param(lambda _s, _d: NOTHING, id="no-answer"),
    ],
)
def test_killed_fails_on_anything_but_an_explicit_error(answer: Callable[[float, int], Look]) -> None:
    """A 0, an old number, an empty list or silence while the truth is unknown fails the phase."""
    assert not judge_phase(PhaseName.EXPORTER_KILLED, build_samples(PhaseName.EXPORTER_KILLED, answer), PLAN).ok


def test_killed_fails_when_it_was_not_watched_long_enough() -> None:
    """No look after the limit means that nothing is known, which is not success."""
    samples = build_samples(PhaseName.EXPORTER_KILLED, lambda _s, _d: error())[:4]
    assert not judge_phase(PhaseName.EXPORTER_KILLED, samples, PLAN).ok


def test_recovered_is_ok_when_right_numbers_come_back_in_time() -> None:
    """Errors until Prometheus has scraped again, then right numbers."""
    samples = build_samples(PhaseName.RECOVERED, lambda s, depth: number(depth) if s >= 3 else error())
    verdict = judge_phase(PhaseName.RECOVERED, samples, PLAN)
    assert verdict.ok
    assert "first number 3.0 s after the exporter was back" in verdict.observed


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda _s, _d: error(), id="never"),
        pytest.param(lambda s, d: number(d) if s >= 8 else error(), id="too-late"),
        pytest.param(lambda s, d: number(d, lag_s=20.0 if s == 3 else 1.0) if s >= 3 else error(), id="old-first"),
        pytest.param(lambda s, d: number(d) if s >= 3 and s % 2 else error(), id="on-and-off"),
    ],
)
def test_recovered_fails_when_numbers_are_late_old_or_unsteady(answer: Callable[[float, int], Look]) -> None:
    """Recovery means right numbers, soon and for good."""
    assert not judge_phase(PhaseName.RECOVERED, build_samples(PhaseName.RECOVERED, answer), PLAN).ok


def test_typo_is_ok_when_both_mistakes_are_refused_by_their_names() -> None:
    """A mistyped selector is NoMatch, a mistyped metric UnknownMetric."""
    verdict = judge_phase(PhaseName.TYPO, build_samples(PhaseName.TYPO, lambda _s, d: number(d)), PLAN)
    assert verdict.ok
    assert verdict.observed == "queue=oders: 404 NoMatch (12x); queue_lenght: 404 UnknownMetric (12x)"


@pytest.mark.parametrize(
    ("selector", "metric"),
    [
        pytest.param(number(0).reading, UNKNOWN, id="selector-gives-zero"),
        pytest.param(NO_MATCH, number(0).reading, id="metric-gives-zero"),
        pytest.param(UNKNOWN, UNKNOWN, id="selector-wrong-reason"),
        pytest.param(Reading(code=500, reason="NoMatch"), UNKNOWN, id="selector-wrong-code"),
        pytest.param(None, None, id="not-asked"),
    ],
)
def test_typo_fails_on_any_other_answer(selector: Reading | None, metric: Reading | None) -> None:
    """A typo is never a number, and never another error's name."""
    right: Sequence[ChainSample] = build_samples(PhaseName.TYPO, lambda _s, d: number(d))[:1] if selector else ()
    wrong = ChainSample(
        phase=PhaseName.TYPO,
        elapsed_s=1,
        phase_elapsed_s=1,
        depth=1,
        exporter=NOTHING,
        prometheus=NOTHING,
        adapter=NOTHING,
        mistyped_selector=selector,
        mistyped_metric=metric,
    )
    assert not judge_phase(PhaseName.TYPO, [*right, wrong], PLAN).ok
