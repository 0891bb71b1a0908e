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
    """The checks that a result must pass. *max_series* bounds the result series of the whole rule."""

    max_series: int = 1000
    expect_one: bool = False
    allow_partial: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One metric.

    *labels* maps selector keys to Prometheus labels; *aliases* maps, per selector key, selector values to label
    values; *shape* is what the parser says of the query; *origin* is `FILE:LINE` of the configuration.
    """

    name: str
    query: QueryTemplate
    shape: Shape
    backend: str = "default"
    namespace: NamespacePolicy = field(default_factory=AnyNamespace)
    labels: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    negative: Literal["error", "clamp"] = "error"
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
