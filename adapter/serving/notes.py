"""What `explain` is told at each step, in words: what every check saw, and the limit it saw it against.

The checks themselves are elsewhere; nothing here decides.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from adapter.domain.evidence import Evidence
from adapter.domain.quantity import LARGEST
from adapter.domain.rules import Rule
from adapter.domain.samples import QueryResult, Sample
from adapter.domain.selection import Selection
from adapter.errors import clip_text
from adapter.serving.trace import Trace

_VALUES_SHOWN: Final = 10
_VALUE_LIMIT_CHARS: Final = 80


def note_rule(trace: Trace, rule: Rule) -> None:
    """Note which rule answers, where it stands, and how it is evaluated."""
    trace.note("rule", f"{rule.name} ({rule.origin}), backend {rule.backend}")
    trace.note(
        "evaluation",
        "pushdown: the request's selectors go into the query"
        if rule.query.has_matchers
        else "snapshot: evaluated whole once a tick, selectors are applied to the result",
    )


def note_tick(trace: Trace, tick_s: float, resolution_s: float) -> None:
    """Note the instant that the query is evaluated for."""
    time = datetime.fromtimestamp(tick_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    trace.note("tick", f"{time} (Unix {tick_s:.3f}), one every {resolution_s:g}s")


def note_result_checks(trace: Trace, result: QueryResult, rule: Rule) -> None:
    """Note what the checks of a whole result see: those of `check_result`."""
    told = f"{len(result.warnings)} warning(s)" + ", isPartial" * result.is_partial
    trace.note("check", f"partial: {told}; {'accepted' if rule.guards.allow_partial else 'none'} (allowPartial)")
    trace.note("check", f"maxSeries: {len(result.samples)} series; at most {rule.guards.max_series}")


def note_ages(trace: Trace, aged: Evidence, rule: Rule) -> None:
    """Note what the guard maxAge sees: those of `check_fresh`."""
    limit = f"at most {rule.guards.max_age_s:g} s"
    if not aged.is_aged:
        why = "off" if rule.guards.max_age_s <= 0 else "not derivable: " + "; ".join(aged.inputs.gaps)
        trace.note("check", f"maxAge: {why}")
        return
    ages = [age.age_s for age in aged.ages.values()] if aged.told is None else [age.age_s for _, age in aged.told]
    seen = f"the oldest of {len(ages)} is {max(ages):.1f} s old" if ages else "no sample"
    trace.note("check", f"maxAge: {seen}; {limit}{_tell_underived(aged) if aged.told is None else ''}")


def note_losses(trace: Trace, evidence: Evidence, rule: Rule) -> None:
    """Note what the guard lostTargets sees: those of `check_complete`."""
    if rule.guards.lost_targets_s <= 0:
        trace.note("check", "lostTargets: off")
    elif evidence.inputs.selectors and not evidence.inputs.are_fed_by_targets:
        trace.note("check", "lostTargets: nothing to lose: the query selects only what Prometheus itself writes")
    elif not evidence.inputs.selectors:
        trace.note("check", "lostTargets: not derivable: " + "; ".join(evidence.inputs.gaps))
    else:
        fed = ", ".join(sorted({loss.target for loss in evidence.losses})) or "none of them fed this rule"
        trace.note(
            "check",
            f"lostTargets: {evidence.targets_down} target(s) down"
            + (f"; {fed}" if evidence.targets_down else "")
            + _tell_underived(evidence),
        )


def note_item_checks(trace: Trace, selected: Sequence[Sample], rule: Rule) -> None:
    """Note what the checks of the selected samples see: those of `build_answer`."""
    limit = "at most 1" if rule.guards.expect_one else "any number (off)"
    trace.note("check", f"expectOne: {len(selected)} selected; {limit}")
    finite = [value for sample in selected if (value := _find_finite(sample.value)) is not None]
    trace.note("check", f"finite: {len(selected) - len(finite)} are NaN, infinite or no number; none may be")
    if finite:
        policy = "served as 0" if rule.negative == "clamp" else "an error"
        trace.note("check", f"negative: the least is {min(finite):g}; below 0 is {policy} (negative: {rule.negative})")
        trace.note("check", f"representable: the sum is {sum(finite):g}; at most {LARGEST}")


def note_label_values(trace: Trace, samples: Iterable[Sample], selection: Selection) -> None:
    """Note which values exist for the labels that *selection* asks for, or for all labels if none of those exists."""
    asked = {requirement.key for requirement in selection.selector.requirements}
    if selection.namespace_matcher is not None:
        asked.add(selection.namespace_matcher.label)
    values: dict[str, set[str]] = {}
    for sample in samples:
        for label, value in sample.labels.items():
            values.setdefault(label, set()).add(value)
    chosen = asked & values.keys() or values.keys()
    lines = [f"{label}: {_list_clipped(values[label])}" for label in sorted(chosen)]
    trace.note("exists", "\n".join(lines) or "the series have no labels")


def _tell_underived(evidence: Evidence) -> str:
    """Return what of the inputs no guard can judge, as the end of a line; empty where there is nothing."""
    return "".join(f"; not derivable: {note}" for note in evidence.inputs.notes)


def _find_finite(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _list_clipped(values: set[str]) -> str:
    shown = [clip_text(value, _VALUE_LIMIT_CHARS) for value in sorted(values)[:_VALUES_SHOWN]]
    more = [f"... and {len(values) - _VALUES_SHOWN} more"] if len(values) > _VALUES_SHOWN else []
    return ", ".join(shown + more)
