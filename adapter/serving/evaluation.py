"""One rule's query, sent once and checked, for snapshot and pushdown alike."""

from dataclasses import dataclass

from adapter.domain.evidence import Evidence
from adapter.domain.rules import Rule
from adapter.domain.samples import QueryResult
from adapter.domain.standing import list_standings
from adapter.errors import format_labels
from adapter.serving.notes import note_result_checks, note_standings
from adapter.serving.occasion import Occasion
from adapter.serving.vouching import Rendering, ask_vouched, find_feeding


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a query gave at one tick, and what stands behind it; it has passed the guards that judge it as a whole."""

    rendering: Rendering
    result: QueryResult
    evidence: Evidence


async def evaluate_rule(rule: Rule, rendering: Rendering, occasion: Occasion) -> Evaluation:
    """Send *rendering* of *rule*'s query, and what its guards ask.

    Raises: every MetricError of a backend, Partial, TooManySeries, Incomplete, RequirementFailed.
    """
    occasion.note("promql", rendering.promql)
    result, evidence = await ask_vouched(rule, rendering, occasion)
    if occasion.trace is not None:
        occasion.note("raw", describe_result(result))
        note_result_checks(occasion.trace, result, rule)
        feeding = await find_feeding(rule, evidence.inputs, occasion)
        note_standings(occasion.trace, list_standings(rule, evidence, feeding=feeding))
    if occasion.observer is not None:
        occasion.observer.note_evaluation(rule.name, tick_s=occasion.tick_s, series=len(result.samples))
    return Evaluation(rendering, result, evidence)


def describe_result(result: QueryResult) -> str:
    """Return the raw answer as a person reads it, in at most a few lines."""
    shown = [f"{format_labels(sample.labels)} {sample.value}".strip() for sample in result.samples[:10]]
    more = [f"... and {len(result.samples) - 10} more"] if len(result.samples) > 10 else []
    notes = [f"warning: {warning}" for warning in result.warnings] + ["isPartial"] * result.is_partial
    return "\n".join([f"{result.kind}, {len(result.samples)} sample(s)", *shown, *more, *notes])
