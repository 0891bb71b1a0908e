"""Rules with `$matchers`: the request's selectors go into the query, one query a tick for each distinct set of them."""

from typing import NoReturn

from adapter.domain.answers import Answer
from adapter.domain.evidence import check_complete
from adapter.domain.guards import build_answer
from adapter.domain.matchers import format_matchers
from adapter.domain.rules import Rule
from adapter.domain.selection import Selection, check_labels_are_names
from adapter.errors import MetricError, NoMatch, NoSamples
from adapter.serving.evaluation import evaluate_rule
from adapter.serving.notes import note_item_checks
from adapter.serving.occasion import Occasion
from adapter.serving.ticks import TickCache
from adapter.serving.vouching import Rendering
from adapter.serving.zero import Emptiness, answer_zero

_TICKS_OF_COUNTS = 16


class PushdownEvaluator:
    """Keeps the answers of the current tick by rule and PromQL, and the counts that explain the empty ones."""

    def __init__(self) -> None:
        self._answers: TickCache[tuple[str, str], Answer] = TickCache()
        # An evaluation asks for its count when it has ended, which may be ticks later.
        self._counts: TickCache[tuple[str, str], int] = TickCache(max_ticks=_TICKS_OF_COUNTS)

    async def fetch(self, rule: Rule, selection: Selection, occasion: Occasion) -> Answer:
        """Return the items of *selection*.

        Raises: UnmappedLabel, NoSamples, NoMatch, what `build_answer` raises, and what a backend raises.
        """
        check_labels_are_names(selection.selector, known=rule.labels.values())
        matchers = selection.build_matchers()
        if matchers is None:  # no series can have what is asked for; only whether there are any is open
            wanted = selection.describe()
            series = await self._count(rule, occasion)
            raise NoMatch(wanted=wanted, series=series) if series else NoSamples
        promql = rule.query.render(matchers=matchers, namespace=occasion.namespace)
        rendering = Rendering(promql, matchers, occasion.namespace)

        async def evaluate() -> Answer:
            evaluation = await evaluate_rule(rule, rendering, occasion)
            check_complete(evaluation.evidence.losses)
            if evaluation.result.samples:
                if occasion.trace is not None:
                    note_item_checks(occasion.trace, evaluation.result.samples, rule)
                return build_answer(evaluation.result.samples, rule, evaluation.evidence)
            try:
                if not matchers:
                    raise NoSamples  # noqa: TRY301 - the two reasons meet here
                return await self._explain_empty(rule, "{" + format_matchers(matchers) + "}", occasion)
            except (NoSamples, NoMatch) as error:
                return await answer_zero(rule, Emptiness(rendering, selection, error), occasion)

        return await self._answers.get((rule.name, promql), occasion.tick_s, evaluate)

    async def aclose(self) -> None:
        """Cancel what is still being evaluated."""
        await self._answers.aclose()
        await self._counts.aclose()

    async def _explain_empty(self, rule: Rule, wanted: str, occasion: Occasion) -> NoReturn:
        """Raise NoMatch if the rule has series without *wanted*, else NoSamples: a typo, or nothing there at all?"""
        try:
            series = await self._count(rule, occasion)
        except MetricError:
            series = 0  # that the query came back empty is certain; only the better message is lost
        if series:
            raise NoMatch(wanted=wanted, series=series)
        raise NoSamples(added=wanted)

    async def _count(self, rule: Rule, occasion: Occasion) -> int:
        """Return how many series the rule has without anybody's selectors; raises what a backend raises."""
        if rule.shape.result_type == "scalar":
            return 0  # it has no series to count
        occasion.note("probe", "nothing came back: are there any series without the request's selectors?")
        # The line break ends a comment that the query may end with.
        promql = f"count(\n{rule.query.render(namespace=occasion.namespace)}\n)"

        async def count() -> int:
            occasion.note("promql", promql)
            samples = (await occasion.ask(promql, rule.name, part="probe")).samples
            return int(float(samples[0].value)) if samples else 0

        return await self._counts.get((rule.name, promql), occasion.tick_s, count)
