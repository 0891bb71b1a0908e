"""`empty: {zeroWhile: ...}`: an empty result is 0 only with evidence that it is the truth."""

from dataclasses import dataclass

from adapter.domain.answers import Answer, Item
from adapter.domain.guardqueries import build_existed_query
from adapter.domain.inputs import Inputs
from adapter.domain.quantity import ZERO
from adapter.domain.rules import Rule
from adapter.domain.selection import Selection
from adapter.errors import MetricError, NoMatch, NoSamples, RequirementFailed
from adapter.serving.occasion import Occasion
from adapter.serving.vouching import Rendering, ask_evidence, find_inputs, holds

EXISTED_WITHIN_S = 86_400.0
"""A series that was there within this time is a queue that drained; one that was not is a typo."""

SETTING = "empty.zeroWhile"


@dataclass(frozen=True, slots=True)
class Emptiness:
    """What came back empty: the query as sent, what was selected, and the error that stands without evidence."""

    rendering: Rendering
    selection: Selection
    error: NoSamples | NoMatch


async def answer_zero(rule: Rule, emptiness: Emptiness, occasion: Occasion) -> Answer:
    """Return the answer 0, if the evidence is there.

    Raises: RequirementFailed if it is missing, or one of its targets is down; the original NoSamples or NoMatch for
    a selection that no series of the last 24 h matches.
    """
    if rule.zero_while is None:
        raise emptiness.error
    await _check_selection_existed(rule, emptiness, occasion)
    result = await ask_evidence(rule, rule.zero_while, emptiness.rendering, occasion)
    if not holds(result):
        raise RequirementFailed(
            setting=SETTING, detail=f"{rule.zero_while.text} has no result, or one that is 0 or NaN"
        )
    await _check_no_target_down(rule, emptiness.rendering, occasion)
    return Answer(items=(Item(labels={}, timestamp_s=occasion.tick_s, quantity=ZERO),))


async def _check_selection_existed(rule: Rule, emptiness: Emptiness, occasion: Occasion) -> None:
    """Raise the original error where something was selected that was not there within a day."""
    if emptiness.selection.is_everything:
        return
    matchers = emptiness.selection.build_matchers()
    inputs: Inputs = find_inputs(emptiness.rendering.promql)
    if matchers is None or not inputs.selectors:
        raise emptiness.error
    promql = build_existed_query(inputs, matchers, window_s=EXISTED_WITHIN_S)
    occasion.note("guard", f"{SETTING}: {promql}")
    try:
        result = await occasion.ask(promql, rule.name)
    except MetricError as error:
        raise error from emptiness.error
    if not any(float(sample.value) > 0 for sample in result.samples):
        raise emptiness.error


async def _check_no_target_down(rule: Rule, rendering: Rendering, occasion: Occasion) -> None:
    """Raise RequirementFailed if any target that the evidence is about is down, even if another one is up."""
    assert rule.zero_while is not None  # noqa: S101 - the caller's condition, for the type checker
    for selector in find_inputs(rendering.render(rule.zero_while)).selectors:
        if selector.name != "up":
            continue
        promql = f"{selector.format_selector()} == 0"
        occasion.note("guard", f"{SETTING}: {promql}")
        down = (await occasion.ask(promql, rule.name)).samples
        if down:
            names = ", ".join(f"{s.labels.get('job', '')}/{s.labels.get('instance', '')}" for s in down[:5])
            raise RequirementFailed(setting=SETTING, detail=f"targets are down: {names}")
