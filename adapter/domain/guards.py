"""The checks that a result must pass before anyone scales on it."""

from collections.abc import Sequence

from adapter.domain.answers import Answer, Item
from adapter.domain.evidence import Evidence, check_fresh
from adapter.domain.quantity import check_representable, parse_sample_value
from adapter.domain.rules import Rule
from adapter.domain.samples import QueryResult, Sample
from adapter.errors import ExpectedOne, Negative, Partial, TooManySeries


def check_result(result: QueryResult, rule: Rule) -> QueryResult:
    """Return *result* unchanged if it may be used at all, whoever asks.

    Shape:  0..n samples.
    Raises: Partial, TooManySeries.
    """
    check_whole(result, rule)
    if len(result.samples) > rule.guards.max_series:
        raise TooManySeries(got=f"{len(result.samples)} series", limit=str(rule.guards.max_series))
    return result


def check_whole(result: QueryResult, rule: Rule) -> QueryResult:
    """Return *result* unchanged unless it is partial and *rule* does not accept that; raises Partial."""
    if (result.warnings or result.is_partial) and not rule.guards.allow_partial:
        raise Partial(warnings=result.warnings)
    return result


def build_answer(selected: Sequence[Sample], rule: Rule, evidence: Evidence) -> Answer:
    """Return the items for the samples that a request selects, in a stable order; one bad sample fails them all.

    Shape:  1..n samples in, as many items out.
    Raises: ExpectedOne, Stale, NotFinite, Negative, NotRepresentable.
    """
    if rule.guards.expect_one and len(selected) > 1:
        raise ExpectedOne(count=len(selected))
    ordered = sorted(selected, key=_sort_key) if len(selected) > 1 else selected
    items = tuple(_build_item(sample, rule, evidence) for sample in ordered)
    check_representable([item.quantity for item in items], [item.labels for item in items])
    return Answer(items=items)


def _build_item(sample: Sample, rule: Rule, evidence: Evidence) -> Item:
    quantity = parse_sample_value(sample.value, labels=sample.labels)
    timestamp_s = check_fresh(sample, rule, evidence)
    if quantity.is_negative:
        if rule.negative == "error":
            raise Negative(value=sample.value, labels=sample.labels)
        quantity = quantity.clamped_at_zero()
    return Item(labels=sample.labels, timestamp_s=timestamp_s, quantity=quantity)


def _sort_key(sample: Sample) -> tuple[list[tuple[str, str]], str]:
    # Without `__name__` two series may have the same labels; the value keeps their order the same for every replica.
    return sorted(sample.labels.items()), sample.value
