"""Rules with `$matchers`: the request's selectors go into the query, one query a tick for each distinct set of them."""

from typing import NoReturn

from adapter.domain.answers import Answer
from adapter.domain.guards import build_answer
from adapter.domain.matchers import format_matchers
from adapter.domain.rules import Rule
from adapter.domain.selection import Selection, check_labels_are_names
from adapter.errors import MetricError, NoMatch, NoSamples
from adapter.serving.evaluation import Occasion, evaluate_rule
from adapter.serving.ticks import TickCache


class PushdownEvaluator:
    """Keeps the answers of the current tick by rule and PromQL, and the counts that explain the empty ones."""

    def __init__(self) -> None:
        self._answers: TickCache[tuple[str, str], Answer] = TickCache()
        self._counts: TickCache[tuple[str, str], int] = TickCache()

    async def fetch(self, rule: Rule, selection: Selection, occasion: Occasion) -> Answer:
        """Return the items of *selection*.

        Raises: UnmappedLabel, NoSamples, NoMatch, what `build_answer` raises, and what a backend raises.
        """
        check_labels_are_names(selection.selector, known=rule.labels.values())
        matchers = selection.build_matchers()
        if matchers is None:  # no series can have what is asked for; only whether there are any is open
            key = selection.describe()
            return await self._answers.get(
                (rule.name, key), occasion.tick_s, lambda: self._explain_empty(rule, key, occasion)
            )
        promql = rule.query.render(matchers=matchers, namespace=occasion.namespace)

        async def evaluate() -> Answer:
            evaluation = await evaluate_rule(rule, promql, occasion)
            if evaluation.result.samples:
                return build_answer(evaluation.result.samples, rule)
            if not matchers:
                raise NoSamples
            return await self._explain_empty(rule, "{" + format_matchers(matchers) + "}", occasion)

        return await self._answers.get((rule.name, promql), occasion.tick_s, evaluate)

    async def aclose(self) -> None:
        """Cancel what is still being evaluated."""
        await self._answers.aclose()
        await self._counts.aclose()

    async def _explain_empty(self, rule: Rule, wanted: str, occasion: Occasion) -> NoReturn:
        """Raise NoMatch if the rule has series without *wanted*, else NoSamples: a typo, or nothing there at all?"""
        # The line break ends a comment that the query may end with.
        promql = f"count(\n{rule.query.render(namespace=occasion.namespace)}\n)"

        async def count() -> int:
            samples = (await evaluate_rule(rule, promql, occasion)).result.samples
            return int(float(samples[0].value)) if samples else 0

        try:
            series = await self._counts.get((rule.name, promql), occasion.tick_s, count)
        except MetricError:
            series = 0
        if series:
            raise NoMatch(wanted=wanted, series=series)
        raise NoSamples(added=wanted)
