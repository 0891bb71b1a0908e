"""Rules: one metric name each, the PromQL behind it, and who may ask what of it."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from adapter.domain.backends import BackendSettings
from adapter.domain.matchers import Matcher
from adapter.domain.promql import QueryTemplate, Shape
from adapter.errors import UnknownMetric

_NEAR_LONGEST = 100
_NEAR_CANDIDATES = 50


@dataclass(frozen=True, slots=True)
class AnyNamespace:
    """Served to every namespace, the same series to all."""


@dataclass(frozen=True, slots=True)
class NamespaceLabel:
    """Each namespace sees the series whose *label* is its name."""

    label: str


@dataclass(frozen=True, slots=True)
class NamespaceList:
    """Served to these namespaces only, the same series to all of them."""

    names: frozenset[str]


NamespacePolicy = AnyNamespace | NamespaceLabel | NamespaceList


@dataclass(frozen=True, slots=True)
class Guards:
    """The checks that a result must pass.

    *max_age_s* bounds the age of the oldest contributing sample, *lost_targets_s* is how long a target that fed the
    rule is remembered (seconds; 0 switches either off); *freshness* is PromQL for Unix seconds where a sample's own
    time is not the truth; *min_series* counts the input series, *max_series* the result's.
    """

    max_age_s: float = 120.0
    freshness: QueryTemplate | None = None
    lost_targets_s: float = 86_400.0
    tolerate_lost: Literal["none", "any"] = "none"
    min_series: int = 0
    max_series: int = 1000
    expect_one: bool = False
    allow_partial: bool = False
    require: QueryTemplate | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One metric.

    *labels* maps selector keys to Prometheus labels; *aliases* maps, per selector key, selector values to label
    values; *shape* is what the parser says of the query; *zero_while* is the evidence with which an empty result is 0;
    *hold_s* is how long the last good answer bridges an absent backend; *origin* is `FILE:LINE` of the configuration.
    """

    name: str
    query: QueryTemplate
    shape: Shape
    backend: str = "default"
    namespace: NamespacePolicy = field(default_factory=AnyNamespace)
    labels: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    negative: Literal["error", "clamp"] = "error"
    zero_while: QueryTemplate | None = None
    hold_s: float = 0.0
    guards: Guards = field(default_factory=Guards)
    origin: str = ""

    def namespace_matcher(self, namespace: str) -> Matcher | None:
        """Return the matcher that this rule adds for a request from *namespace*, if it adds one."""
        if isinstance(self.namespace, NamespaceLabel):
            return Matcher(self.namespace.label, "=", namespace)
        return None


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that a loaded configuration says.

    *resolution_s* is the distance of ticks in seconds; *rules* are keyed by their lower-cased name, because client-go
    lower-cases the metric's name in the URL (client-go 0.36.3, rest/request.go).
    """

    backends: Mapping[str, BackendSettings]
    rules: Mapping[str, Rule]
    resolution_s: float = 5.0

    def get_rule(self, metric: str) -> Rule:
        """Return the rule for *metric*, spelled in any case; raises UnknownMetric with the names that look like it."""
        rule = self.rules.get(metric.lower())
        if rule is None:
            raise UnknownMetric(near=self._find_near(metric.lower()))
        return rule

    def _find_near(self, name: str) -> tuple[str, ...]:
        """Return names like *name*, best first: a nicety that must stay cheap however many rules or letters."""
        if len(name) > _NEAR_LONGEST:
            return ()
        begin, end = name[:3], name[-3:]
        alike = (other for other in self.rules if other.startswith(begin) or other.endswith(end))
        near = difflib.get_close_matches(name, islice(alike, _NEAR_CANDIDATES), n=3)
        return tuple(self.rules[other].name for other in near)
