"""Rules: one metric name each, the PromQL behind it, and who may ask what of it."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from adapter.domain.backends import BackendSettings
from adapter.domain.matchers import Matcher
from adapter.domain.promql import QueryTemplate, Shape
from adapter.errors import UnknownMetric


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
            near = difflib.get_close_matches(metric.lower(), self.rules, n=3)
            raise UnknownMetric(near=tuple(self.rules[name].name for name in near))
        return rule
