"""Which samples a request selects: its namespace and its label selector, in Prometheus' labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from adapter.domain.evidence import Loss
from adapter.domain.matchers import Matcher, build_matchers, format_matchers, is_label_name
from adapter.domain.rules import NamespaceList, Rule
from adapter.domain.samples import Sample
from adapter.domain.selectors import Requirement, Selector, needs_label
from adapter.errors import NamespaceNotAllowed, NoMatch, UnmappedLabel


@dataclass(frozen=True, slots=True)
class Selection:
    """What one request selects of a rule's series.

    *selector* is the request's label selector with its keys and values mapped to Prometheus'; *text* is the selector
    as it was asked; *namespace_matcher* is what the rule adds for the request's namespace.
    """

    selector: Selector
    text: str
    namespace_matcher: Matcher | None = None

    def __hash__(self) -> int:
        # Within one rule the text decides about the selector, whose own hash is dear.
        return hash((self.text, self.namespace_matcher))

    @property
    def is_everything(self) -> bool:
        """Return whether every series is selected."""
        return not self.selector.requirements and self.namespace_matcher is None

    def build_matchers(self) -> tuple[Matcher, ...] | None:
        """Return the PromQL matchers of this selection, or None if no series can match them."""
        matchers = build_matchers(self.selector.requirements)
        if matchers is None or self.namespace_matcher is None:
            return matchers
        return (*matchers, self.namespace_matcher)

    def describe(self) -> str:
        """Return what was asked for, as a person reads it; the matcher that the rule added stands apart."""
        if self.namespace_matcher is None:
            return self.text
        added = f"{format_matchers((self.namespace_matcher,))} (added by the rule)"
        return f"{self.text} with {added}" if self.text else added


def map_selection(selector: Selector, text: str, *, rule: Rule, namespace: str) -> Selection:
    """Return what a request from *namespace* with *selector* selects of *rule*'s series.

    Keys that the rule's `labels` do not map stand for the label of the same name. Raises NamespaceNotAllowed.
    """
    if isinstance(rule.namespace, NamespaceList) and namespace not in rule.namespace.names:
        raise NamespaceNotAllowed(namespace=namespace)
    mapped = Selector(tuple(_map_requirement(requirement, rule) for requirement in selector.requirements))
    return Selection(selector=mapped, text=text, namespace_matcher=rule.namespace_matcher(namespace))


def _map_requirement(requirement: Requirement, rule: Rule) -> Requirement:
    label = rule.labels.get(requirement.key, requirement.key)
    aliases = rule.aliases.get(requirement.key, {})
    values = tuple(aliases.get(value, value) for value in requirement.values)
    return Requirement(label, requirement.operator, values)


def check_labels_are_names(selector: Selector, *, known: Iterable[str] = ()) -> None:
    """Raise UnmappedLabel for the first key that no Prometheus label can have, unless it is one of the *known* labels.

    Prometheus 3 takes any text as a label's name, so a result may hold one such as `my.label`.
    """
    for requirement in selector.requirements:
        if not is_label_name(requirement.key) and requirement.key not in known:
            raise UnmappedLabel(key=requirement.key)


def find_selected_losses(losses: Sequence[Loss], selection: Selection, *, is_whole: bool) -> list[Loss]:
    """Return the *losses* that a request for *selection* misses; all of them where they concern the rule as a whole."""
    if is_whole or selection.is_everything:
        return list(losses)
    return [loss for loss in losses if _is_selected(loss.labels, selection)]


def select_samples(samples: Sequence[Sample], selection: Selection, *, mapped: Iterable[str] = ()) -> Sequence[Sample]:
    """Return the samples that *selection* selects, in the order given; *mapped* are labels that the rule itself names.

    Shape:  1..n samples in, 1..n out.
    Raises: UnmappedLabel, NoMatch (naming a label that is needed and that no series has, with those that exist).
    """
    if selection.is_everything:
        return samples
    existing = sorted({label for sample in samples for label in sample.labels})
    check_labels_are_names(selection.selector, known=(*existing, *mapped))
    missing = _find_missing_label(selection, existing)
    if missing is None:
        chosen = [sample for sample in samples if _is_selected(sample.labels, selection)]
        if chosen:
            return chosen
    raise NoMatch(
        wanted=selection.describe(), series=len(samples), missing_label=missing or "", existing=tuple(existing)
    )


def _is_selected(labels: Mapping[str, str], selection: Selection) -> bool:
    matcher = selection.namespace_matcher
    if matcher is not None and labels.get(matcher.label) != matcher.value:
        return False
    return selection.selector.matches(labels)


def _find_missing_label(selection: Selection, existing: Sequence[str]) -> str | None:
    needed = [requirement.key for requirement in selection.selector.requirements if needs_label(requirement)]
    if selection.namespace_matcher is not None:
        needed.append(selection.namespace_matcher.label)
    return next((label for label in needed if label not in existing), None)
