"""One rule's query, sent once and checked, for snapshot and pushdown alike."""

from dataclasses import dataclass

from adapter.domain.guards import check_result
from adapter.domain.rules import Rule
from adapter.domain.samples import QueryResult
from adapter.errors import format_labels
from adapter.serving.breaker import Breaker
from adapter.serving.notes import note_result_checks
from adapter.serving.ports import EvaluationObserver
from adapter.serving.trace import Trace


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a query gave at one tick (Unix seconds); the result has passed the guards that judge it as a whole."""

    promql: str
    tick_s: float
    result: QueryResult


@dataclass(frozen=True, slots=True)
class Occasion:
    """For whom, when and by whom a rule is evaluated: the asking namespace, the tick in Unix seconds, the backend."""

    namespace: str
    tick_s: float
    breaker: Breaker
    trace: Trace | None = None
    observer: EvaluationObserver | None = None

    def note(self, name: str, detail: str) -> None:
        """Write down one step, where somebody wants to read it."""
        if self.trace is not None:
            self.trace.note(name, detail)


async def evaluate_rule(rule: Rule, promql: str, occasion: Occasion) -> Evaluation:
    """Send *promql*, a rendering of *rule*'s query.

    Raises: every MetricError of a backend, Partial, TooManySeries.
    """
    occasion.note("promql", promql)
    result = await occasion.breaker.query(promql, time_s=occasion.tick_s, rule=rule.name)
    if occasion.trace is not None:
        occasion.note("raw", describe_result(result))
        note_result_checks(occasion.trace, result, rule)
    checked = check_result(result, rule)
    if occasion.observer is not None:
        occasion.observer.note_evaluation(rule.name, tick_s=occasion.tick_s, series=len(checked.samples))
    return Evaluation(promql=promql, tick_s=occasion.tick_s, result=checked)


def describe_result(result: QueryResult) -> str:
    """Return the raw answer as a person reads it, in at most a few lines."""
    shown = [f"{format_labels(sample.labels)} {sample.value}".strip() for sample in result.samples[:10]]
    more = [f"... and {len(result.samples) - 10} more"] if len(result.samples) > 10 else []
    notes = [f"warning: {warning}" for warning in result.warnings] + ["isPartial"] * result.is_partial
    return "\n".join([f"{result.kind}, {len(result.samples)} sample(s)", *shown, *more, *notes])
