"""Whether a phase went as expected, from what was seen of the chain; pure.

A number that the queue did not have within the limit is wrong wherever it appears, and one such number fails the
phase: a 0 where the queue is not empty, or the last number served on and on. An explicit error is never wrong; while
the exporter runs there may be a few, because a scrape can time out on a busy machine.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from loadgen.demo.plan import MISTYPED_METRIC, MISTYPED_SELECTOR, PhaseName, Plan
from loadgen.hops import Reading
from loadgen.records import ChainSample

TOLERATED_ERRORS = 0.2
"""The part of the answers that may be an explicit error while the exporter runs."""

FOLLOWED = 0.5
"""The least part of the queue's change that the adapter's numbers must have gone through."""


SHOWN_KINDS = 3
"""Different answers that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was expected of a phase and what was observed, in words."""

    name: PhaseName
    expected: str
    observed: str
    ok: bool


def judge_phase(name: PhaseName, samples: Sequence[ChainSample], plan: Plan) -> Verdict:
    """Return the verdict on the phase *name* from all *samples* of it."""
    match name:
        case PhaseName.RISING:
            return _judge_following(name, samples, plan, direction=1)
        case PhaseName.FALLING:
            return _judge_following(name, samples, plan, direction=-1)
        case PhaseName.TYPO:
            return _judge_typo(samples)
        case PhaseName.EXPORTER_KILLED:
            return _judge_killed(samples, plan)
        case PhaseName.RECOVERED:
            return _judge_recovered(samples, plan)


def find_last_number_s(samples: Sequence[ChainSample]) -> float | None:
    """Return how many seconds into the phase the adapter gave its last number, or None for no number at all."""
    return max((sample.phase_elapsed_s for sample in samples if sample.adapter.has_number), default=None)


def find_first_number_s(samples: Sequence[ChainSample]) -> float | None:
    """Return how many seconds into the phase the adapter gave its first number, or None for no number at all."""
    return min((sample.phase_elapsed_s for sample in samples if sample.adapter.has_number), default=None)


def _judge_following(name: PhaseName, samples: Sequence[ChainSample], plan: Plan, *, direction: int) -> Verdict:
    expected = (
        f"depth {'grows' if direction > 0 else 'shrinks'}, and the adapter's numbers with it: each one the queue had "
        f"at most {plan.lag_limit_s:g} s before; errors at most 1 answer in 5"
    )
    numbers, wrong = _split(samples, plan)
    change = samples[-1].depth - samples[0].depth if samples else 0
    seen = [sample.adapter.reading.value or Decimal(0) for sample in numbers]
    followed = float(seen[-1] - seen[0]) * direction if seen else 0.0
    has_followed = change * direction > 0 and followed >= FOLLOWED * change * direction
    parts = [f"depth {samples[0].depth} to {samples[-1].depth}" if samples else "nothing seen"]
    if seen:
        parts.append(f"adapter {seen[0]:f} to {seen[-1]:f}")
    parts += [*_describe_lags(numbers), *_describe_errors(samples), *_describe_wrong(wrong)]
    return Verdict(
        name=name,
        expected=expected,
        observed=", ".join(parts),
        ok=has_followed and not wrong and _has_few_errors(samples),
    )


def _judge_typo(samples: Sequence[ChainSample]) -> Verdict:
    selector = [sample.mistyped_selector for sample in samples if sample.mistyped_selector is not None]
    metric = [sample.mistyped_metric for sample in samples if sample.mistyped_metric is not None]
    return Verdict(
        name=PhaseName.TYPO,
        expected=f"never a number: 404 NoMatch for {MISTYPED_SELECTOR}, 404 UnknownMetric for {MISTYPED_METRIC}",
        observed=f"{MISTYPED_SELECTOR}: {_count_answers(selector)}; {MISTYPED_METRIC}: {_count_answers(metric)}",
        ok=_is_refused(selector, "NoMatch") and _is_refused(metric, "UnknownMetric"),
    )


def _judge_killed(samples: Sequence[ChainSample], plan: Plan) -> Verdict:
    limit_s = plan.lag_limit_s
    _, wrong = _split(samples, plan)
    late = [sample for sample in samples if sample.phase_elapsed_s > limit_s]
    last_number_s = find_last_number_s(samples)
    unexplained = [s for s in samples if not s.adapter.has_number and not s.adapter.reading.is_explicit_error]
    parts = ["no number at all"] if last_number_s is None else [f"last number {last_number_s:.1f} s after the kill"]
    parts += [*_describe_errors(samples), *_describe_wrong(wrong)]
    return Verdict(
        name=PhaseName.EXPORTER_KILLED,
        expected=(
            f"within {limit_s:g} s of the exporter's end an explicit error with its reason in place of every number, "
            "and until then no number that the queue did not have"
        ),
        observed=", ".join(parts),
        ok=bool(late) and not any(s.adapter.has_number for s in late) and not wrong and not unexplained,
    )


def _judge_recovered(samples: Sequence[ChainSample], plan: Plan) -> Verdict:
    numbers, wrong = _split(samples, plan)
    first_s = find_first_number_s(samples)
    after = [sample for sample in samples if first_s is not None and sample.phase_elapsed_s >= first_s]
    if first_s is None:
        parts = ["no number at all"]
    else:
        parts = [f"first number {first_s:.1f} s after the exporter was back", *_describe_lags(numbers)]
    parts += [*_describe_errors(samples), *_describe_wrong(wrong)]
    return Verdict(
        name=PhaseName.RECOVERED,
        expected=(
            f"a number again within {plan.return_limit_s:g} s of the exporter's return, each one the queue had at most "
            f"{plan.lag_limit_s:g} s before; from then on errors at most 1 answer in 5"
        ),
        observed=", ".join(parts),
        ok=first_s is not None and first_s <= plan.return_limit_s and not wrong and _has_few_errors(after),
    )


def _split(samples: Sequence[ChainSample], plan: Plan) -> tuple[list[ChainSample], list[ChainSample]]:
    """Return the samples in which the adapter gave a number, and those of them in which it was a wrong one."""
    numbers = [sample for sample in samples if sample.adapter.has_number]
    wrong = [s for s in numbers if s.adapter.lag_s is None or s.adapter.lag_s > plan.lag_limit_s]
    return numbers, wrong


def _has_few_errors(samples: Sequence[ChainSample]) -> bool:
    without = [sample.adapter.reading for sample in samples if not sample.adapter.has_number]
    is_explained = all(reading.is_explicit_error for reading in without)
    return bool(samples) and is_explained and len(without) <= TOLERATED_ERRORS * len(samples)


def _is_refused(readings: Sequence[Reading], reason: str) -> bool:
    """Whether all are 404s that name a reason, and nearly all the *reason* expected."""
    expected = [reading for reading in readings if reading.reason == reason]
    is_never_a_number = all(reading.is_explicit_error and reading.code == 404 for reading in readings)
    return is_never_a_number and bool(expected) and len(expected) >= (1 - TOLERATED_ERRORS) * len(readings)


def _describe_lags(numbers: Sequence[ChainSample]) -> list[str]:
    lags_s = [sample.adapter.lag_s for sample in numbers if sample.adapter.lag_s is not None]
    return [f"lag {median(lags_s):.1f} s (at most {max(lags_s):.1f} s)"] if lags_s else []


def _describe_errors(samples: Sequence[ChainSample]) -> list[str]:
    readings = [sample.adapter.reading for sample in samples if not sample.adapter.has_number]
    return (
        [f"{len(readings)} of {len(samples)} answers without a number: {_count_answers(readings)}"] if readings else []
    )


def _describe_wrong(wrong: Sequence[ChainSample]) -> list[str]:
    if not wrong:
        return []
    first = wrong[0]
    return [f"{len(wrong)} WRONG, first {first.adapter.reading.describe()} where the queue had {first.depth}"]


def _count_answers(readings: Sequence[Reading]) -> str:
    """Return `404 NoMatch (8x)` and so on, the most frequent first."""
    counts = Counter(_name_answer(reading) for reading in readings)
    shown = [f"{name} ({count}x)" for name, count in counts.most_common(SHOWN_KINDS)]
    more = len(counts) - len(shown)
    return ", ".join(shown + [f"{more} other answers"] * (more > 0)) or "not asked"


def _name_answer(reading: Reading) -> str:
    if reading.value is not None:
        return f"the number {reading.describe()}"
    return " ".join(filter(None, (str(reading.code or ""), reading.reason or reading.message)))
