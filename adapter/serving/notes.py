"""What `explain` is told at each step, in words: what every check saw, and the limit it saw it against.

The checks themselves are elsewhere; nothing here decides.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from adapter.domain.quantity import LARGEST
from adapter.domain.rules import Rule
from adapter.domain.samples import QueryResult, Sample
from adapter.domain.selection import Selection
from adapter.domain.standing import Standing
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


def note_standings(trace: Trace, standings: Iterable[Standing]) -> None:
    """Note how the guards stand that judge where the values come from."""
    for standing in standings:
        trace.note("check", str(standing))


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
