"""The closed set of reasons for not answering with a number, and the errors that carry them.

    MetricError
    ├── UnknownMetric, NoSamples, NoMatch                                  404 NotFound
    ├── BadSelector, UnmappedLabel                                         400 BadRequest
    ├── Unauthenticated                                                    401 Unauthorized
    ├── Forbidden, NamespaceNotAllowed                                     403 Forbidden
    ├── MethodNotAllowed                                                   405 MethodNotAllowed
    ├── NotFinite, Negative, NotRepresentable, WrongResultType,
    │   TooManySeries, ExpectedOne, BadQuery, BackendRefused               500 InternalError
    ├── Stale, Incomplete, RequirementFailed                               503 ServiceUnavailable
    ├── BackendUnavailable, Partial, Overloaded, ServerBusy                503 ServiceUnavailable
    └── DeadlineExceeded                                                   504 Timeout

The HTTP answer, the log line and the self-metric all use the same `Reason`. An error says what was wrong in its
fields; `describe()` turns them into the sentence that a person reads, without the metric's name, which the answer
puts before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

UPSTREAM_TEXT_LIMIT = 256
"""Characters of a backend's own text that may appear in a message."""


class Reason(StrEnum):
    """Why a question was not answered with a number."""

    UNKNOWN_METRIC = "UnknownMetric"
    NO_SAMPLES = "NoSamples"
    NO_MATCH = "NoMatch"
    BAD_SELECTOR = "BadSelector"
    UNMAPPED_LABEL = "UnmappedLabel"
    UNAUTHENTICATED = "Unauthenticated"
    FORBIDDEN = "Forbidden"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    NOT_FINITE = "NotFinite"
    NEGATIVE = "Negative"
    NOT_REPRESENTABLE = "NotRepresentable"
    WRONG_RESULT_TYPE = "WrongResultType"
    TOO_MANY_SERIES = "TooManySeries"
    EXPECTED_ONE = "ExpectedOne"
    BAD_QUERY = "BadQuery"
    BACKEND_REFUSED = "BackendRefused"
    BACKEND_UNAVAILABLE = "BackendUnavailable"
    STALE = "Stale"
    INCOMPLETE = "Incomplete"
    PARTIAL = "Partial"
    REQUIREMENT_FAILED = "RequirementFailed"
    OVERLOADED = "Overloaded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"

    @property
    def code(self) -> int:
        """Return the HTTP status code of an answer with this reason."""
        return _ANSWERS[self][0]

    @property
    def status_reason(self) -> str:
        """Return the `reason` of the Kubernetes Status (metav1.StatusReason)."""
        return _ANSWERS[self][1]


_NOT_FOUND = (404, "NotFound")
_BAD_REQUEST = (400, "BadRequest")
_FORBIDDEN = (403, "Forbidden")
_INTERNAL = (500, "InternalError")
_UNAVAILABLE = (503, "ServiceUnavailable")

_ANSWERS: Mapping[Reason, tuple[int, str]] = {
    Reason.UNKNOWN_METRIC: _NOT_FOUND,
    Reason.NO_SAMPLES: _NOT_FOUND,
    Reason.NO_MATCH: _NOT_FOUND,
    Reason.BAD_SELECTOR: _BAD_REQUEST,
    Reason.UNMAPPED_LABEL: _BAD_REQUEST,
    Reason.UNAUTHENTICATED: (401, "Unauthorized"),
    Reason.FORBIDDEN: _FORBIDDEN,
    Reason.NAMESPACE_NOT_ALLOWED: _FORBIDDEN,
    Reason.METHOD_NOT_ALLOWED: (405, "MethodNotAllowed"),
    Reason.NOT_FINITE: _INTERNAL,
    Reason.NEGATIVE: _INTERNAL,
    Reason.NOT_REPRESENTABLE: _INTERNAL,
    Reason.WRONG_RESULT_TYPE: _INTERNAL,
    Reason.TOO_MANY_SERIES: _INTERNAL,
    Reason.EXPECTED_ONE: _INTERNAL,
    Reason.BAD_QUERY: _INTERNAL,
    Reason.BACKEND_REFUSED: _INTERNAL,
    Reason.BACKEND_UNAVAILABLE: _UNAVAILABLE,
    Reason.STALE: _UNAVAILABLE,
    Reason.INCOMPLETE: _UNAVAILABLE,
    Reason.PARTIAL: _UNAVAILABLE,
    Reason.REQUIREMENT_FAILED: _UNAVAILABLE,
    Reason.OVERLOADED: _UNAVAILABLE,
    Reason.DEADLINE_EXCEEDED: (504, "Timeout"),
}


def clip_text(text: str, limit: int = UPSTREAM_TEXT_LIMIT) -> str:
    """Return *text* on one line and in at most *limit* characters, the cut shown by an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def format_labels(labels: Mapping[str, str]) -> str:
    """Return *labels* as a person reads them: `{queue="a"}`; empty for no labels."""
    if not labels:
        return ""
    return "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"


class MetricError(Exception):
    """A question that is answered with a Status and not with a number."""

    reason: ClassVar[Reason]

    def describe(self) -> str:
        """Return what was wrong, the value and the limit, as one sentence without the metric's name."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.describe()


@dataclass(eq=False)
class UnknownMetric(MetricError):
    """No rule has this name. *near* are rule names that look like it, best first."""

    near: Sequence[str] = ()
    reason: ClassVar[Reason] = Reason.UNKNOWN_METRIC

    def describe(self) -> str:
        """Say that depthgauge answered, so that two adapters behind one APIService can be told apart."""
        hint = f'; did you mean "{self.near[0]}"?' if self.near else ""
        return f"depthgauge has no rule for this metric{hint}"


@dataclass(eq=False)
class NoSamples(MetricError):
    """The backend answered with an empty result. *added* are the matchers that the request added, as PromQL."""

    added: str = ""
    reason: ClassVar[Reason] = Reason.NO_SAMPLES

    def describe(self) -> str:
        """Say that the query itself came back empty."""
        where = f" (with {self.added} added for this request)" if self.added else ""
        return f"query returned no samples{where}"


@dataclass(eq=False)
class NoMatch(MetricError):
    """The result has series, and none matches the request.

    *wanted* is what the request asked for, as PromQL matchers or as a selector; *missing_label* the label that it
    needs and that no series has; *existing* the labels that do exist.
    """

    wanted: str
    series: int
    missing_label: str = ""
    existing: Sequence[str] = ()
    reason: ClassVar[Reason] = Reason.NO_MATCH

    def describe(self) -> str:
        """Name the label that is missing and those that exist."""
        labels = ", ".join(self.existing[:20]) if self.existing else "none"
        if self.missing_label:
            return (
                f'none of the {self.series} series has the label "{self.missing_label}" '
                f"that {clip_text(self.wanted)} needs; labels that exist: {labels}"
            )
        exist = f"; labels that exist: {labels}" if self.existing else ""
        return f"none of the {self.series} series matches {clip_text(self.wanted)}{exist}"


@dataclass(eq=False)
class BadSelector(MetricError):
    """The labelSelector of the request is not one, or asks what Prometheus labels can't answer."""

    selector: str
    detail: str
    reason: ClassVar[Reason] = Reason.BAD_SELECTOR

    def describe(self) -> str:
        """Quote the selector and say what is wrong with it."""
        return f'invalid labelSelector "{clip_text(self.selector)}": {clip_text(self.detail)}'


@dataclass(eq=False)
class UnmappedLabel(MetricError):
    """A selector key that cannot be a Prometheus label and that the rule's `labels` do not map to one."""

    key: str
    reason: ClassVar[Reason] = Reason.UNMAPPED_LABEL

    def describe(self) -> str:
        """Name the key, and the configuration that would map it."""
        return (
            f'selector key "{clip_text(self.key)}" is not a Prometheus label name; '
            f'map it in the rule: labels: {{"{clip_text(self.key, 80)}": LABEL}}'
        )


@dataclass(eq=False)
class Unauthenticated(MetricError):
    """Nobody vouches for who asks."""

    detail: str
    reason: ClassVar[Reason] = Reason.UNAUTHENTICATED

    def describe(self) -> str:
        """Say what is missing."""
        return f"Unauthorized: {clip_text(self.detail)}"


@dataclass(eq=False)
class Forbidden(MetricError):
    """The cluster's authorizer does not allow it. *action* says who may not do what."""

    action: str
    detail: str = ""
    reason: ClassVar[Reason] = Reason.FORBIDDEN

    def describe(self) -> str:
        """Name user, verb and resource, and the authorizer's own words."""
        detail = f": {clip_text(self.detail)}" if self.detail else ""
        return f"{clip_text(self.action, 600)}{detail}"


@dataclass(eq=False)
class NamespaceNotAllowed(MetricError):
    """The rule is not served to this namespace."""

    namespace: str
    reason: ClassVar[Reason] = Reason.NAMESPACE_NOT_ALLOWED

    def describe(self) -> str:
        """Name the namespace."""
        return (
            f'namespace "{clip_text(self.namespace)}" may not read this metric (the rule lists the namespaces that may)'
        )


@dataclass(eq=False)
class MethodNotAllowed(MetricError):
    """Anything but a plain GET."""

    method: str
    reason: ClassVar[Reason] = Reason.METHOD_NOT_ALLOWED

    def describe(self) -> str:
        """Name the method."""
        return f"{clip_text(self.method, 40)} is not supported, external metrics can only be read with GET"


@dataclass(eq=False)
class NotFinite(MetricError):
    """A selected sample is NaN or infinite. *value* is Prometheus' text."""

    value: str
    labels: Mapping[str, str]
    reason: ClassVar[Reason] = Reason.NOT_FINITE

    def describe(self) -> str:
        """Name the value and the series."""
        return f"value is {self.value}{_of_series(self.labels)}, not a finite number"


@dataclass(eq=False)
class Negative(MetricError):
    """A selected sample is below zero, which the HPA may take for an overflow and scale to maxReplicas."""

    value: str
    labels: Mapping[str, str]
    reason: ClassVar[Reason] = Reason.NEGATIVE

    def describe(self) -> str:
        """Name the value, the series and the configuration that accepts it."""
        return f"negative value {self.value}{_of_series(self.labels)} (negative: clamp in the rule would serve it as 0)"


@dataclass(eq=False)
class NotRepresentable(MetricError):
    """An item, or the sum of the items, is above what the HPA can hold in milli-units.

    *value* and *limit* are plain decimals; *labels* is None where it is the sum.
    """

    value: str
    limit: str
    labels: Mapping[str, str] | None = None
    reason: ClassVar[Reason] = Reason.NOT_REPRESENTABLE

    def describe(self) -> str:
        """Name the value and the limit."""
        what = "the sum of the items is" if self.labels is None else "value"
        series = "" if self.labels is None else _of_series(self.labels)
        return f"{what} {clip_text(self.value, 80)}{series}, above {self.limit}, the largest that the HPA can represent"


@dataclass(eq=False)
class WrongResultType(MetricError):
    """The result is no vector or scalar of plain numbers. *got* is its resultType, or "native histogram"."""

    got: str
    reason: ClassVar[Reason] = Reason.WRONG_RESULT_TYPE

    def describe(self) -> str:
        """Name the type."""
        return f"query must return an instant vector or scalar, got {clip_text(self.got, 80)}"


@dataclass(eq=False)
class TooManySeries(MetricError):
    """The result is larger than is allowed. *got* says how much came, *limit* what is allowed, both with unit.

    *setting* is the key that raises the limit, empty where none does.
    """

    got: str
    limit: str
    setting: str = "guards.maxSeries"
    reason: ClassVar[Reason] = Reason.TOO_MANY_SERIES

    def describe(self) -> str:
        """Name the size and the bound."""
        remedy = f"put $matchers into it, or raise {self.setting}" if self.setting else "or put $matchers into it"
        return f"the result has {self.got}, more than the {self.limit} allowed; aggregate in the query, {remedy}"


@dataclass(eq=False)
class ExpectedOne(MetricError):
    """The rule says expectOne, and several items were selected."""

    count: int
    reason: ClassVar[Reason] = Reason.EXPECTED_ONE

    def describe(self) -> str:
        """Name the number of series."""
        return f"{self.count} series are selected where the rule expects one (guards.expectOne)"


@dataclass(eq=False)
class BadQuery(MetricError):
    """The backend refuses the PromQL (400, 422), or it cannot be PromQL at all. *text* is the backend's own."""

    error_type: str
    text: str
    reason: ClassVar[Reason] = Reason.BAD_QUERY

    def describe(self) -> str:
        """Quote the error's type and text."""
        return f"the backend refuses the query: {clip_text(self.error_type, 40)}: {clip_text(self.text)}"


@dataclass(eq=False)
class BackendRefused(MetricError):
    """The backend answers, but not as a Prometheus that lets us ask. *detail* names the HTTP status or the type."""

    detail: str
    reason: ClassVar[Reason] = Reason.BACKEND_REFUSED

    def describe(self) -> str:
        """Quote what came back."""
        return f"backend returned {clip_text(self.detail)}"


@dataclass(eq=False)
class BackendUnavailable(MetricError):
    """No connection to the backend (*is_connection*), or it says 429 or 5xx."""

    detail: str
    is_connection: bool = False
    reason: ClassVar[Reason] = Reason.BACKEND_UNAVAILABLE

    def describe(self) -> str:
        """Quote what failed."""
        return f"backend unavailable: {clip_text(self.detail)}"


@dataclass(eq=False)
class Partial(MetricError):
    """The backend says that its answer is not the whole one."""

    warnings: Sequence[str]
    reason: ClassVar[Reason] = Reason.PARTIAL

    def describe(self) -> str:
        """Quote the first warnings."""
        quoted = clip_text("; ".join(self.warnings)) or "isPartial"
        return f"the backend's answer is partial: {quoted} (guards.allowPartial accepts it)"


@dataclass(eq=False)
class Stale(MetricError):
    """A selected value rests on a sample that is too old, or on none at all (*age_s* is None then).

    *setting* is the key whose limit it is.
    """

    age_s: float | None
    limit_s: float
    labels: Mapping[str, str]
    setting: str = "guards.maxAge"
    reason: ClassVar[Reason] = Reason.STALE

    def describe(self) -> str:
        """Name the age, the limit and the key that raises it."""
        return (
            f"the value{_of_series(self.labels)} has {self._describe_age()}, "
            f"the limit is {self.limit_s:g} s ({self.setting})"
        )

    def _describe_age(self) -> str:
        if self.age_s is None:
            return "no sample behind it"
        if self.age_s < 0:
            return f"a time that lies {-self.age_s:.0f} s ahead (is it in Unix seconds?)"
        return f"a sample that is {self.age_s:.0f} s old"


@dataclass(eq=False)
class Incomplete(MetricError):
    """Inputs are missing: *targets* that fed the rule are down, or fewer series than *least* are there (*series*)."""

    targets: Sequence[str] = ()
    series: int = 0
    least: int = 0
    reason: ClassVar[Reason] = Reason.INCOMPLETE

    def describe(self) -> str:
        """Name the targets, or both numbers."""
        if not self.targets:
            return f"only {self.series} input series where at least {self.least} must be (guards.minSeries)"
        shown = ", ".join(self.targets[:5]) + (f" and {len(self.targets) - 5} more" if len(self.targets) > 5 else "")
        return f"scrape targets that fed this metric are down: {clip_text(shown)} (guards.lostTargets)"


@dataclass(eq=False)
class RequirementFailed(MetricError):
    """The rule's own PromQL says not to scale on this. *setting* is its key, *detail* what it saw."""

    setting: str
    detail: str
    reason: ClassVar[Reason] = Reason.REQUIREMENT_FAILED

    def describe(self) -> str:
        """Name the key and what came back."""
        return f"{self.setting} is not met: {clip_text(self.detail)}"


@dataclass(eq=False)
class Overloaded(MetricError):
    """Too many questions wait for a place at the backend already."""

    waiting: int
    places: int
    reason: ClassVar[Reason] = Reason.OVERLOADED

    def describe(self) -> str:
        """Name both numbers."""
        return f"{self.waiting} queries already wait for the {self.places} places at this backend (maxConcurrency)"


@dataclass(eq=False)
class ServerBusy(MetricError):
    """The server itself has as many requests in flight as it takes."""

    limit: int
    reason: ClassVar[Reason] = Reason.OVERLOADED

    def describe(self) -> str:
        """Name the limit."""
        return f"depthgauge has {self.limit} requests in flight already (--max-requests-in-flight)"


@dataclass(eq=False)
class DeadlineExceeded(MetricError):
    """The backend did not answer in time. *detail* says where the time went, if it is known."""

    deadline_s: float
    detail: str = ""
    reason: ClassVar[Reason] = Reason.DEADLINE_EXCEEDED

    def describe(self) -> str:
        """Name the deadline."""
        detail = f": {clip_text(self.detail)}" if self.detail else ""
        return f"no answer from the backend within {round(self.deadline_s, 2):g}s{detail}"


def _of_series(labels: Mapping[str, str]) -> str:
    return f" of series {clip_text(format_labels(labels))}" if labels else ""
