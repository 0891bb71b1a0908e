"""The use case: a question about a metric becomes an answer that may be scaled on, or an error that says why not."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from adapter.domain.answers import Answer
from adapter.domain.rules import Configuration, Rule
from adapter.domain.samples import QueryResult
from adapter.domain.selection import map_selection
from adapter.domain.selectors import Selector, parse_selector
from adapter.serving.breaker import Breaker
from adapter.serving.evaluation import Evaluation, evaluate_rule
from adapter.serving.held import HeldAnswers
from adapter.serving.notes import note_rule, note_tick
from adapter.serving.occasion import Occasion
from adapter.serving.ports import EvaluationObserver
from adapter.serving.pushdown import PushdownEvaluator
from adapter.serving.snapshot import SnapshotEvaluator
from adapter.serving.ticks import TickCache, TickGrid
from adapter.serving.trace import Trace
from adapter.serving.vouching import Rendering

_SELECTORS_KEPT = 10_000
_LONGEST_SELECTOR_KEPT = 1_000
_TICKS_SHARED = 16


@dataclass(frozen=True, slots=True)
class Question:
    """What one request asks; *selector* is the labelSelector's text, empty for none."""

    namespace: str
    metric: str
    selector: str = ""


class Provider:
    """Answers questions by one loaded configuration; a reload makes a new one, and the old one finishes its requests.

    *breakers* has one for each backend of the configuration.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        breakers: Mapping[str, Breaker],
        grid: TickGrid,
        observer: EvaluationObserver | None = None,
    ) -> None:
        self._observer = observer
        self.configuration = configuration
        self._breakers = breakers
        self._grid = grid
        self._snapshots = SnapshotEvaluator()
        self._pushdowns = PushdownEvaluator()
        self._shared: TickCache[tuple[str, str], QueryResult] = TickCache(max_ticks=_TICKS_SHARED)
        self._held = HeldAnswers(observer)
        self._selectors: dict[str, Selector] = {}

    async def fetch(self, question: Question, trace: Trace | None = None) -> Answer:
        """Return the items that *question* selects.

        Shape:  1..n items.
        Raises: every MetricError but MethodNotAllowed.
        """
        rule = self.configuration.get_rule(question.metric)
        if trace:
            note_rule(trace, rule)
        selector = self._parse(question.selector)
        selection = map_selection(selector, question.selector, rule=rule, namespace=question.namespace)
        tick_s = self._grid.current_s()
        if trace:
            note_tick(trace, tick_s, self.configuration.resolution_s)
        evaluator = self._pushdowns if rule.query.has_matchers else self._snapshots
        occasion = self._build_occasion(rule, question.namespace, tick_s, trace)
        if not rule.hold_s:
            return await evaluator.fetch(rule, selection, occasion)
        return await self._held.bridge(
            rule, (question.namespace, question.selector), tick_s, evaluator.fetch(rule, selection, occasion)
        )

    async def fetch_whole(self, rule: Rule, *, namespace: str) -> Evaluation:
        """Return the whole evaluation of *rule* at this tick, for *namespace* and no selector; for `check --live`.

        Raises: every MetricError of a backend, Partial, TooManySeries.
        """
        occasion = self._build_occasion(rule, namespace, self._grid.current_s(), None)
        rendering = Rendering(rule.query.render(namespace=namespace), namespace=namespace)
        return await evaluate_rule(rule, rendering, occasion)

    async def aclose(self) -> None:
        """Cancel what is still being evaluated."""
        await asyncio.gather(self._snapshots.aclose(), self._pushdowns.aclose(), self._shared.aclose())

    def _build_occasion(self, rule: Rule, namespace: str, tick_s: float, trace: Trace | None) -> Occasion:
        return Occasion(
            namespace=namespace,
            tick_s=tick_s,
            breaker=self._breakers[rule.backend],
            trace=trace,
            observer=self._observer,
            shared=self._shared,
        )

    def _parse(self, text: str) -> Selector:
        selector = self._selectors.get(text)
        if selector is None:
            selector = parse_selector(text)
            if len(text) > _LONGEST_SELECTOR_KEPT:
                return selector
            if len(self._selectors) >= _SELECTORS_KEPT:
                self._selectors.clear()
            self._selectors[text] = selector
        return selector
