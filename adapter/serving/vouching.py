"""Asks what the guards need to know of an evaluation: at most one query a rule and tick, and one a backend and tick.

More is asked only while a target is down, or where the rule has PromQL of its own (`require`).
"""

import asyncio
import math
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from adapter.domain.evidence import (
    Age,
    Evidence,
    Loss,
    check_number_of_inputs,
    count_inputs,
    read_ages,
    read_losses,
    read_told_ages,
)
from adapter.domain.guardqueries import (
    DOWN_TARGETS,
    build_alive_query,
    build_feeding_query,
    build_freshness_query,
    build_lost_query,
)
from adapter.domain.guards import check_result, check_whole
from adapter.domain.inputs import Inputs, derive_inputs
from adapter.domain.matchers import Matcher
from adapter.domain.promql import QueryTemplate
from adapter.domain.rules import Rule
from adapter.domain.samples import QueryResult
from adapter.errors import BadQuery, MetricError, RequirementFailed
from adapter.serving.occasion import Occasion

ZERO_WHILE: Final = "empty.zeroWhile"

find_inputs = lru_cache(maxsize=4096)(derive_inputs)
"""The inputs of a rendered query: parsed once, however many ticks it is asked in."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rule's query as it is sent, with what was filled in."""

    promql: str
    matchers: Sequence[Matcher] = ()
    namespace: str = ""

    def render(self, template: QueryTemplate) -> str:
        """Return another query of the same rule, filled in alike."""
        return template.render(matchers=self.matchers, namespace=self.namespace)


async def ask_vouched(rule: Rule, rendering: Rendering, occasion: Occasion) -> tuple[QueryResult, Evidence]:
    """Return the answer to *rendering* and what stands behind it; everything is asked at once.

    Raises: Partial, TooManySeries, Incomplete (too few series), RequirementFailed, and what a backend raises.
    """
    inputs = find_inputs(rendering.promql)
    result, aged, down, _ = await await_all(
        _ask_main(rule, rendering.promql, occasion),
        _ask_freshness(rule, rendering, inputs, occasion),
        _ask_down(rule, inputs, occasion),
        _check_required(rule, rendering, occasion),
    )
    losses = await _find_losses(rule, inputs, down, occasion) if down else []
    evidence = Evidence(
        tick_s=occasion.tick_s,
        inputs=inputs,
        is_aged=aged.is_aged,
        ages=aged.ages,
        told=aged.told,
        losses=losses,
        targets_down=len(down),
        input_series=aged.input_series,
    )
    return result, evidence


async def find_feeding(rule: Rule, inputs: Inputs, occasion: Occasion) -> list[str] | None:
    """Return the targets (`job/instance`) that feed *inputs* now, for people to read; None if that cannot be told."""
    promql = build_feeding_query(inputs)
    if rule.guards.lost_targets_s <= 0 or not promql:
        return None
    try:
        rows = (await occasion.ask(promql, rule.name, part="feeding")).samples
    except MetricError:
        return None  # nothing is decided by it
    return sorted({f"{row.labels.get('job', '')}/{row.labels.get('instance', '')}" for row in rows})


def holds(result: QueryResult) -> bool:
    """Return whether *result* says yes: it has values, and none of them is 0 or NaN."""
    values = [float(sample.value) for sample in result.samples]
    return bool(values) and not any(math.isnan(value) or value == 0 for value in values)


async def _ask_main(rule: Rule, promql: str, occasion: Occasion) -> QueryResult:
    return check_result(await occasion.ask(promql, rule.name), rule)


async def _ask_freshness(rule: Rule, rendering: Rendering, inputs: Inputs, occasion: Occasion) -> Evidence:
    """Return the ages of the inputs, as far as they can be asked for; raises Incomplete for too few inputs."""
    guards = rule.guards
    is_aged = guards.max_age_s > 0 and (guards.freshness is not None or bool(inputs.selectors))
    told: list[tuple[Any, Age]] | None = None
    if is_aged and guards.freshness is not None:
        rows = (await ask_guard("freshness", rule, rendering.render(guards.freshness), occasion)).samples
        told = read_told_ages(rows, occasion.tick_s)
    promql = build_freshness_query(
        inputs,
        max_age_s=guards.max_age_s,
        with_age=is_aged and told is None,
        with_count=guards.min_series > 0,
    )
    if not promql:
        return Evidence(tick_s=occasion.tick_s, inputs=inputs, is_aged=is_aged, told=told)
    rows = (await ask_guard("freshness", rule, promql, occasion)).samples
    series = count_inputs(rows) if guards.min_series > 0 else None
    if series is not None:
        check_number_of_inputs(series, rule)
    return Evidence(
        tick_s=occasion.tick_s,
        inputs=inputs,
        is_aged=is_aged,
        ages=read_ages(rows, inputs, occasion.tick_s),
        told=told,
        input_series=series,
    )


async def _ask_down(rule: Rule, inputs: Inputs, occasion: Occasion) -> list[tuple[str, str]]:
    """Return the (job, instance) of every target that is down, where this rule wants to know."""
    if rule.guards.lost_targets_s <= 0 or not inputs.are_fed_by_targets:
        return []
    result = check_whole(await _naming("lostTargets", occasion.ask_once(DOWN_TARGETS)), rule)
    return [
        (sample.labels["job"], sample.labels["instance"])
        for sample in result.samples
        if "job" in sample.labels and "instance" in sample.labels
    ]


async def _find_losses(rule: Rule, inputs: Inputs, down: Sequence[tuple[str, str]], occasion: Occasion) -> list[Loss]:
    promql = build_lost_query(inputs, window_s=rule.guards.lost_targets_s, down=down)
    if rule.guards.tolerate_lost == "none":
        return read_losses((await ask_guard("lostTargets", rule, promql, occasion)).samples, None, inputs)
    lost, alive = await await_all(  # at once: one after the other would cost a third deadline
        ask_guard("lostTargets", rule, promql, occasion),
        ask_guard("tolerateLost", rule, build_alive_query(inputs), occasion),
    )
    return read_losses(lost.samples, alive.samples, inputs)


async def _check_required(rule: Rule, rendering: Rendering, occasion: Occasion) -> None:
    if rule.guards.require is None:
        return
    result = await ask_guard("require", rule, rendering.render(rule.guards.require), occasion)
    if not holds(result):
        values = ", ".join(sample.value for sample in result.samples[:5]) or "no result"
        raise RequirementFailed(setting="guards.require", detail=f"{rule.guards.require.text} gives {values}")


async def ask_guard(guard: str, rule: Rule, promql: str, occasion: Occasion) -> QueryResult:
    """Return the answer to a guard's query; a refusal says which guard's it is, and a partial answer is none."""
    occasion.note("guard", f"{guard}: {promql}")
    return check_whole(await _naming(guard, occasion.ask(promql, rule.name, part=guard)), rule)


async def _naming(guard: str, asking: Awaitable[QueryResult]) -> QueryResult:
    try:
        return await asking
    except BadQuery as error:
        raise BadQuery(error.error_type, f"(asked by guard {guard}) {error.text}") from error


async def await_all(*asking: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
    """Await all at once; raise the first error in their order, after all of them have ended."""
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return tuple(outcomes)
