"""The PromQL that asks about a rule's inputs: how fresh, how many, fed by which targets.

Every part is tagged, because `or` lets a series hide another with equal labels. A tag's label is dropped before rows
meet the rule's own series.
"""

from collections.abc import Sequence

from adapter.domain.inputs import Input, Inputs, format_duration
from adapter.domain.matchers import Matcher, is_label_name, quote_regex, quote_string

TAG = "depthgauge_part"
DOWN_TARGETS = "up == 0"

_STEPS_AT_MOST = 500
_TARGETS_NAMED_AT_MOST = 50


def build_freshness_query(inputs: Inputs, *, max_age_s: float, with_age: bool, with_count: bool) -> str:
    """Return the one query for age and number of *inputs*; empty where there is nothing to ask.

    Rows tagged `a0`, `a1`, ... are the Unix seconds of the oldest contributing sample of that selector, by the
    grouping of *inputs*; rows tagged `c0`, ... are the number of its series.
    """
    parts: list[str] = []
    for index, selector in enumerate(inputs.selectors):
        if with_age:
            newest = _format_newest(selector, max_age_s)
            grouped = newest if inputs.grouping is None else f"min by ({_format_labels(inputs.grouping)}) ({newest})"
            parts.append(_tag(grouped, f"a{index}"))
        if with_count:
            parts.append(_tag(f"count({_format_selected(selector)})", f"c{index}"))
    return "\nor\n".join(parts)


def build_lost_query(inputs: Inputs, *, window_s: float, down: Sequence[tuple[str, str]]) -> str:
    """Return which of the *down* targets (job, instance) fed *inputs* within *window_s*, and which groups they fed.

    Rows carry job and instance, and the labels of the grouping. Empty where no target feeds the inputs.
    """
    narrowing = _narrow_to(down)
    kept = _format_labels(frozenset({"job", "instance"}) | (inputs.grouping or frozenset()))
    parts = []
    for index, selector in enumerate(inputs.selectors):
        if not selector.is_fed_by_target:
            continue
        fed = f"last_over_time({selector.format_selector(narrowing)}[{_format_window(window_s)}])"
        lost = f"({fed} and on (job, instance) {DOWN_TARGETS})"
        parts.append(_tag(lost if inputs.grouping is None else f"group by ({kept}) {lost}", f"l{index}"))
    return "\nor\n".join(parts)


def build_alive_query(inputs: Inputs) -> str:
    """Return the groups of *inputs* that some target which is up feeds now; rows carry the labels of the grouping."""
    parts = []
    for index, selector in enumerate(inputs.selectors):
        if not selector.is_fed_by_target:
            continue
        alive = f"({_format_selected(selector)} and on (job, instance) (up == 1))"
        grouped = alive if inputs.grouping is None else f"group by ({_format_labels(inputs.grouping)}) {alive}"
        parts.append(_tag(grouped, f"u{index}"))
    return "\nor\n".join(parts)


def build_feeding_query(inputs: Inputs) -> str:
    """Return how many series each target gives to *inputs* now; rows carry job and instance.

    Only targets that have an `up` of their own: where none has, no loss can be noticed.
    """
    parts = [
        _tag(f"(count by (job, instance) ({_format_selected(selector)}) and on (job, instance) up)", f"f{index}")
        for index, selector in enumerate(inputs.selectors)
        if selector.is_fed_by_target
    ]
    return "\nor\n".join(parts)


def build_existed_query(inputs: Inputs, matchers: Sequence[Matcher], *, window_s: float) -> str:
    """Return how many series of *inputs* that *matchers* select existed within *window_s*."""
    parts = [
        _tag(f"count(last_over_time({selector.format_selector(tuple(matchers))}[{_format_window(window_s)}]))", f"e{i}")
        for i, selector in enumerate(inputs.selectors)
    ]
    return "\nor\n".join(parts)


def _format_newest(selector: Input, max_age_s: float) -> str:
    """Return the newest sample's time of each series, as far back as the query itself looks.

    `timestamp(q)` is empty once a series has ended, while a range over it still has a value; there a subquery finds
    the last sample, to a step's precision.
    """
    text, offset = selector.format_selector(), selector.format_offset()
    newest = f"timestamp({text}{offset})"
    if not selector.range_s:
        return newest
    step_s = max(selector.range_s / _STEPS_AT_MOST, min(selector.range_s / 60, max_age_s / 4 or 60.0), 1.0)
    window = f"[{_format_window(selector.range_s)}:{_format_window(step_s)}]{offset}"
    return f"({newest} or max_over_time(timestamp({text}){window}))"


def _format_selected(selector: Input) -> str:
    """Return the series that the query itself selects now."""
    text, offset = selector.format_selector(), selector.format_offset()
    if not selector.range_s:
        return f"{text}{offset}"
    return f"last_over_time({text}[{_format_window(selector.range_s)}]{offset})"


def _tag(promql: str, tag: str) -> str:
    return f'label_replace({promql}, "{TAG}", {quote_string(tag)}, "{TAG}", "")'


def _narrow_to(down: Sequence[tuple[str, str]]) -> tuple[Matcher, ...]:
    """Return matchers that keep a look back over a day to the targets that matter, where those are few."""
    if len(down) > _TARGETS_NAMED_AT_MOST:
        return ()
    jobs = sorted({job for job, _ in down})
    instances = sorted({instance for _, instance in down})
    return (
        Matcher("job", "=~", "|".join(map(quote_regex, jobs))),
        Matcher("instance", "=~", "|".join(map(quote_regex, instances))),
    )


def _format_labels(labels: frozenset[str]) -> str:
    return ", ".join(label if is_label_name(label) else quote_string(label) for label in sorted(labels))


def _format_window(seconds: float) -> str:
    return format_duration(max(seconds, 0.001))
