"""The use case: a question about a metric becomes an answer that may be scaled on, or an error that says why not."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from adapter.domain.answers import Answer
from adapter.domain.rules import Configuration, Rule
from adapter.domain.samples import QueryResult
from adapter.domain.selection import Selection, map_selection
from adapter.domain.selectors import parse_selector
from adapter.errors import MetricError
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
from adapter.serving.vouching import Rendering, find_feeding

_TICKS_SHARED = 16
_PLANS_KEPT = 10_000
_LONGEST_KEPT = 1_000


_Plan = tuple[Rule, Selection]


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
        self._plans: dict[Question, _Plan | MetricError] = {}

    async def fetch(self, question: Question, trace: Trace | None = None) -> Answer:
        """Return the items that *question* selects.

        Shape:  1..n items.
        Raises: every MetricError but MethodNotAllowed.
        """
        plan = None if trace else self._plans.get(question)
        if plan is None:
            plan = self._remember(question, self._plan(question, trace))
        if isinstance(plan, MetricError):
            raise plan.with_traceback(None)
        rule, selection = plan
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

    async def find_feeding(self, rule: Rule, evaluation: Evaluation) -> list[str] | None:
        """Return the targets that feed *rule* now, for `check --live`; None if that cannot be told."""
        occasion = self._build_occasion(rule, evaluation.rendering.namespace, evaluation.evidence.tick_s, None)
        return await find_feeding(rule, evaluation.evidence.inputs, occasion)

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

    def _plan(self, question: Question, trace: Trace | None) -> _Plan | MetricError:
        """Return which rule answers *question* and what of it, or UnknownMetric, BadSelector, NamespaceNotAllowed."""
        try:
            rule = self.configuration.get_rule(question.metric)
            if trace:
                note_rule(trace, rule)
            selector = parse_selector(question.selector)
            return rule, map_selection(selector, question.selector, rule=rule, namespace=question.namespace)
        except MetricError as error:
            return error

    def _remember(self, question: Question, plan: _Plan | MetricError) -> _Plan | MetricError:
        """Return *plan*, kept for the next who asks the same, within a bound on memory."""
        if len(question.namespace) + len(question.metric) + len(question.selector) <= _LONGEST_KEPT:
            if len(self._plans) >= _PLANS_KEPT:
                self._plans.clear()
            self._plans[question] = plan
        return plan
