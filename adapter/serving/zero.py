"""`empty: {zeroWhile: ...}`: an empty result is 0 only with evidence that it is the truth."""

from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from adapter.domain.answers import Answer, Item
from adapter.domain.guardqueries import build_existed_query
from adapter.domain.inputs import Inputs
from adapter.domain.quantity import ZERO
from adapter.domain.rules import Rule
from adapter.domain.selection import Selection
from adapter.errors import NoMatch, NoSamples, RequirementFailed
from adapter.serving.occasion import Occasion
from adapter.serving.vouching import ZERO_WHILE, Rendering, ask_guard, await_all, find_inputs, holds

EXISTED_WITHIN_S = 86_400.0
"""A series that was there within this time is a queue that drained; one that was not is a typo."""


@dataclass(frozen=True, slots=True)
class Emptiness:
    """What came back empty: the query as sent, what was selected, and the error that stands without evidence."""

    rendering: Rendering
    selection: Selection
    error: NoSamples | NoMatch


async def answer_zero(rule: Rule, emptiness: Emptiness, occasion: Occasion) -> Answer:
    """Return the answer 0, if the evidence is there.

    Raises: RequirementFailed if it is missing, or one of its targets is down; the original NoSamples or NoMatch for
            a selection that no series of the last 24 h matches, or that the result cannot tell apart.
    """
    if rule.zero_while is None:
        raise emptiness.error
    await await_all(
        _check_selection_existed(rule, emptiness, occasion),
        _check_evidence(rule, emptiness.rendering, occasion),
        *_list_checks_of_targets(rule, emptiness.rendering, occasion),
    )
    return Answer(items=(Item(labels={}, timestamp_s=occasion.tick_s, quantity=ZERO),))


async def _check_selection_existed(rule: Rule, emptiness: Emptiness, occasion: Occasion) -> None:
    """Raise the original error where something was selected that was not there within a day."""
    if emptiness.selection.is_everything:
        return
    if isinstance(emptiness.error, NoMatch) and emptiness.error.missing_label:
        raise emptiness.error  # the query drops the label: what is selected may be anything but empty
    matchers = emptiness.selection.build_matchers()
    inputs: Inputs = find_inputs(emptiness.rendering.promql)
    if matchers is None or not inputs.selectors:
        raise emptiness.error
    promql = build_existed_query(inputs, matchers, window_s=EXISTED_WITHIN_S)
    result = await ask_guard(ZERO_WHILE, rule, promql, occasion)
    if not any(float(sample.value) > 0 for sample in result.samples):
        raise emptiness.error


async def _check_evidence(rule: Rule, rendering: Rendering, occasion: Occasion) -> None:
    """Raise RequirementFailed if the evidence is missing."""
    assert rule.zero_while is not None  # noqa: S101 - the caller's condition, for the type checker
    result = await ask_guard(ZERO_WHILE, rule, rendering.render(rule.zero_while), occasion)
    if not holds(result):
        detail = f"{rule.zero_while.text} has no result, or one that is 0 or NaN"
        raise RequirementFailed(setting=ZERO_WHILE, detail=detail)


def _list_checks_of_targets(
    rule: Rule, rendering: Rendering, occasion: Occasion
) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield a check for each `up` that the evidence selects: that no target of it is down, even if another is up.

    Nor may it be old: measured, `up` stays 1 for the look-back's five minutes after its whole job is gone.
    """
    assert rule.zero_while is not None  # noqa: S101 - as above
    for selector in find_inputs(rendering.render(rule.zero_while)).selectors:
        if selector.name == "up":
            up, max_age_s = selector.format_selector(), rule.guards.max_age_s
            old = f" or timestamp({up}) < {occasion.tick_s - max_age_s:.3f}" if max_age_s > 0 else ""
            yield _check_no_target_down(f"{up} == 0{old}", rule, occasion)


async def _check_no_target_down(promql: str, rule: Rule, occasion: Occasion) -> None:
    down = (await ask_guard(ZERO_WHILE, rule, promql, occasion)).samples
    if down:
        names = ", ".join(f"{s.labels.get('job', '')}/{s.labels.get('instance', '')}" for s in down[:5])
        raise RequirementFailed(setting=ZERO_WHILE, detail=f"targets are down, or not scraped within maxAge: {names}")
