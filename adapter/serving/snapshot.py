"""Rules without `$matchers`: evaluated once a tick, whoever asks; what a request selects is picked in memory."""

from collections.abc import Sequence

from adapter.domain.answers import Answer
from adapter.domain.evidence import check_complete
from adapter.domain.guards import build_answer
from adapter.domain.rules import Rule
from adapter.domain.samples import Sample
from adapter.domain.selection import Selection, find_selected_losses, select_samples
from adapter.errors import MetricError, NoMatch, NoSamples
from adapter.serving.evaluation import Evaluation, evaluate_rule
from adapter.serving.notes import note_item_checks, note_label_values
from adapter.serving.occasion import Occasion
from adapter.serving.ticks import TickCache
from adapter.serving.trace import Trace
from adapter.serving.vouching import Rendering
from adapter.serving.zero import Emptiness, answer_zero

_MEMO_LIMIT_ITEMS = 20_000


class Snapshot:
    """A rule's whole result at one tick, and the answers already picked from it."""

    def __init__(self, evaluation: Evaluation, rule: Rule) -> None:
        self._evaluation = evaluation
        self._rule = rule
        self._answers: dict[Selection, Answer | MetricError] = {}
        self._memo_items = 0

    @property
    def rendering(self) -> Rendering:
        """Return the query as it was sent."""
        return self._evaluation.rendering

    def pick(self, selection: Selection, trace: Trace | None = None) -> Answer:
        """Return the items of *selection*.

        Raises: Incomplete, NoSamples, NoMatch, UnmappedLabel, and what `build_answer` raises.
        """
        outcome = None if trace else self._answers.get(selection)
        if outcome is None:
            try:
                outcome = build_answer(self._select(selection, trace), self._rule, self._evaluation.evidence)
            except MetricError as error:
                outcome = error
            self._remember(selection, outcome)
        if isinstance(outcome, MetricError):
            raise outcome.with_traceback(None)
        return outcome

    def _remember(self, selection: Selection, outcome: Answer | MetricError) -> None:
        """Keep *outcome* for the next who asks the same, within a bound on memory: any client may invent selectors."""
        size = 1 + len(selection.selector.requirements)
        size += len(outcome.items) if isinstance(outcome, Answer) else 0
        if self._memo_items + size <= _MEMO_LIMIT_ITEMS:
            self._memo_items += size
            self._answers[selection] = outcome

    def _select(self, selection: Selection, trace: Trace | None) -> Sequence[Sample]:
        samples = self._evaluation.result.samples
        evidence = self._evaluation.evidence
        is_whole = evidence.inputs.grouping is not None and not evidence.inputs.grouping
        check_complete(find_selected_losses(evidence.losses, selection, is_whole=is_whole))
        if not samples:
            raise NoSamples
        try:
            chosen = select_samples(samples, selection, mapped=self._rule.labels.values())
        except NoMatch:
            if trace:
                note_label_values(trace, samples, selection)
            raise
        if trace:
            trace.note("selection", f"{selection.describe() or 'everything'}: {len(chosen)} of {len(samples)} series")
            note_item_checks(trace, chosen, self._rule)
        return chosen


class SnapshotEvaluator:
    """Keeps the snapshots of the current tick: one a rule, or one a rule and namespace where the query names it."""

    def __init__(self) -> None:
        self._cache: TickCache[tuple[str, str], Snapshot] = TickCache()
        self._zeros: TickCache[tuple[str, str, Selection], Answer] = TickCache()

    async def fetch(self, rule: Rule, selection: Selection, occasion: Occasion) -> Answer:
        """Return the items of *selection*.

        Raises: what `Snapshot.pick` raises, and what a backend raises.
        """
        scope = occasion.namespace if rule.query.has_namespace else ""

        async def evaluate() -> Snapshot:
            rendering = Rendering(rule.query.render(namespace=scope), namespace=scope)
            return Snapshot(await evaluate_rule(rule, rendering, occasion), rule)

        snapshot = await self._cache.get((rule.name, scope), occasion.tick_s, evaluate)
        try:
            return snapshot.pick(selection, occasion.trace)
        except (NoSamples, NoMatch) as error:
            if rule.zero_while is None:
                raise
            emptiness = Emptiness(snapshot.rendering, selection, error)
        key = (rule.name, scope, selection)
        return await self._zeros.get(key, occasion.tick_s, lambda: answer_zero(rule, emptiness, occasion))

    async def aclose(self) -> None:
        """Cancel what is still being evaluated."""
        await self._cache.aclose()
        await self._zeros.aclose()
