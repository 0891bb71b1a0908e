"""What the guards' queries said of one evaluation: age and number of its inputs, and which targets are down.

Pure: the rows come in as samples, the verdicts go out as errors.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from adapter.domain.guardqueries import TAG
from adapter.domain.inputs import Inputs
from adapter.domain.rules import Rule
from adapter.domain.samples import Sample
from adapter.errors import BackendRefused, Incomplete, Stale

_Key = tuple[tuple[str, str], ...]
_ToldIndex = tuple[tuple[tuple[str, ...], dict[tuple[str, ...], "Age"]], ...]
"""Names of common labels, and for their values the oldest age."""


@dataclass(frozen=True, slots=True)
class Age:
    """The oldest contributing sample of something: its time in Unix seconds, and its age in seconds (offset aside)."""

    timestamp_s: float
    age_s: float


@dataclass(frozen=True, slots=True)
class Loss:
    """A scrape target that fed the rule and is down; *labels* are the group or the series that it fed, if known."""

    target: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one evaluation's inputs.

    *is_aged* says whether ages were asked for: without, values are as old as the tick. *told* are the rows of the
    rule's own `freshness`; *targets_down* counts all targets of the backend that are down, whomever they feed;
    *input_series* is the number of series that the selectors select, None where it was not asked for.
    """

    tick_s: float
    inputs: Inputs = field(default_factory=Inputs)
    is_aged: bool = False
    ages: Mapping[_Key, Age] = field(default_factory=dict)
    told: Sequence[tuple[Mapping[str, str], Age]] | None = None
    losses: Sequence[Loss] = ()
    targets_down: int = 0
    input_series: int | None = None
    _told_by_names: dict[frozenset[str], _ToldIndex] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def list_ages_s(self) -> list[float]:
        """Return every age that is known, in seconds."""
        ages = self.ages.values() if self.told is None else (age for _, age in self.told)
        return [age.age_s for age in ages]

    def find_age(self, labels: Mapping[str, str]) -> Age | None:
        """Return the age of the series with *labels*, None if there is no sample behind it."""
        if self.told is not None:
            # A thousand items against a thousand rows: compared one by one, they would hold up every other request.
            names = frozenset(labels)
            index = self._told_by_names.get(names)
            if index is None:
                index = self._told_by_names[names] = _build_told_index(self.told, names)
            found = (ages.get(tuple(labels[name] for name in common)) for common, ages in index)
            return max((age for age in found if age is not None), key=lambda age: age.age_s, default=None)
        return self.ages.get(_find_key(labels, self.inputs.grouping))


def read_ages(rows: Iterable[Sample], inputs: Inputs, tick_s: float) -> dict[_Key, Age]:
    """Return the oldest age of each group from the rows tagged `aN`; raises BackendRefused for what is no time."""
    tagged = {f"a{index}": selector for index, selector in enumerate(inputs.selectors)}
    ages: dict[_Key, Age] = {}
    for row in rows:
        selector = tagged.get(row.labels.get(TAG, ""))
        if selector is None:
            continue
        timestamp_s = _read_number(row)
        age = Age(timestamp_s, tick_s - timestamp_s - selector.offset_s)
        key = _find_key(_without_tag(row.labels), inputs.grouping)
        known = ages.get(key)
        if known is None or known.age_s < age.age_s:
            ages[key] = age
    return ages


def read_told_ages(rows: Iterable[Sample], tick_s: float) -> list[tuple[Mapping[str, str], Age]]:
    """Return the rows of the rule's own freshness query, which are Unix seconds."""
    return [(row.labels, Age(seconds := _read_number(row), tick_s - seconds)) for row in rows]


def count_inputs(rows: Iterable[Sample]) -> int:
    """Return the number of input series from the rows tagged `cN`."""
    return sum(int(_read_number(row)) for row in rows if row.labels.get(TAG, "").startswith("c"))


def read_losses(lost: Iterable[Sample], alive: Iterable[Sample] | None, inputs: Inputs) -> list[Loss]:
    """Return the losses from the rows of the lost query; groups of a selector that *alive* has, if asked, are not lost.

    One selector's living target says nothing about another selector.
    """
    living = {(_find_part(row), _find_key(_without_tag(row.labels), inputs.grouping)) for row in alive or ()}
    losses: dict[tuple[str, _Key], Loss] = {}
    for row in lost:
        labels = _without_tag(row.labels)
        target = f"{labels.get('job', '')}/{labels.get('instance', '')}"
        group = _pick(labels, inputs.grouping)
        key = _find_key(labels, inputs.grouping)
        if (_find_part(row), key) not in living:
            losses[target, key] = Loss(target, group)
    return list(losses.values())


def check_number_of_inputs(series: int, rule: Rule) -> None:
    """Raise Incomplete if the rule's selectors select fewer series than it must have."""
    if series < rule.guards.min_series:
        raise Incomplete(series=series, least=rule.guards.min_series)


def check_complete(losses: Iterable[Loss]) -> None:
    """Raise Incomplete if there are any *losses*, naming the targets."""
    targets = tuple(sorted({loss.target for loss in losses}))
    if targets:
        raise Incomplete(targets=targets)


def check_fresh(sample: Sample, rule: Rule, evidence: Evidence) -> float:
    """Return when *sample* was true, in Unix seconds: the oldest contributing sample's time.

    Raises: Stale, also for a value that no sample stands behind, unless the query can give one from no sample, and
            for a time that lies ahead by more than the limit.
    """
    if not evidence.is_aged:
        return sample.timestamp_s
    age = evidence.find_age(sample.labels)
    limit_s = rule.guards.max_age_s
    if age is None:
        if evidence.inputs.is_sourceless and evidence.told is None:
            return sample.timestamp_s
        raise Stale(age_s=None, limit_s=limit_s, labels=sample.labels)
    if not -limit_s <= age.age_s <= limit_s:  # a time far ahead is none: milliseconds, as a rule
        raise Stale(age_s=age.age_s, limit_s=limit_s, labels=sample.labels)
    return min(age.timestamp_s, evidence.tick_s)


def _find_key(labels: Mapping[str, str], grouping: frozenset[str] | None) -> _Key:
    return tuple(sorted(_pick(labels, grouping).items()))


def _pick(labels: Mapping[str, str], grouping: frozenset[str] | None) -> Mapping[str, str]:
    return labels if grouping is None else {name: labels[name] for name in grouping if name in labels}


def _find_part(row: Sample) -> str:
    """Return the number of the selector that a row is about."""
    return row.labels.get(TAG, "")[1:]


def _without_tag(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != TAG}


def _read_number(row: Sample) -> float:
    try:
        number = float(row.value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BackendRefused(detail=f"a guard's query gives {row.value}, which is no number of seconds or series")
    return number


def _build_told_index(told: Sequence[tuple[Mapping[str, str], Age]], names: frozenset[str]) -> _ToldIndex:
    """Return the oldest ages by the labels that rows have in common with an item of these label *names*."""
    index: dict[tuple[str, ...], dict[tuple[str, ...], Age]] = {}
    for row, age in told:
        common = tuple(sorted(names & row.keys()))
        ages = index.setdefault(common, {})
        values = tuple(row[name] for name in common)
        known = ages.get(values)
        if known is None or known.age_s < age.age_s:
            ages[values] = age
    return tuple(index.items())
