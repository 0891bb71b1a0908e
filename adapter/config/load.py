"""A configuration's files become one `Configuration`, or all of their problems at once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from adapter.config.backends import DEFAULT_BACKEND, read_backend
from adapter.config.durations import parse_duration_s
from adapter.config.fields import BackendName, Resolution
from adapter.config.places import Place
from adapter.config.positions import Document, parse_document
from adapter.config.problems import ConfigurationError, KeyPath, Kind, Note, Problem, find_nearest
from adapter.config.prometheus_adapter import convert_external_rule, list_ignored
from adapter.config.schema import ExternalRuleKeys, FileKeys, GuardKeys, MetricKeys, NamespaceLabelKeys, ZeroWhileKeys
from adapter.config.sources import Sources, read_sources
from adapter.config.validation import build_unknown_key, list_known_keys, validate_piece
from adapter.domain.backends import BackendSettings
from adapter.domain.promql import QueryTemplate, parse_shape, parse_template
from adapter.domain.rules import (
    AnyNamespace,
    Configuration,
    Guards,
    NamespaceLabel,
    NamespaceList,
    NamespacePolicy,
    Rule,
)

PROMETHEUS_KEY: Final = "prometheus"

_FILE: Final = TypeAdapter(FileKeys)
_BACKEND_NAME: Final = TypeAdapter(BackendName)
_METRIC: Final = TypeAdapter(MetricKeys)
_EXTERNAL_RULE: Final = TypeAdapter(ExternalRuleKeys)
_RESOLUTION: Final = TypeAdapter(Resolution)

_HINTS: Final[Mapping[str, str]] = {
    "triggers": "KEDA's triggers are not read; write each as a metric: "
    "metrics: [{name: NAME, query: THE TRIGGER'S QUERY}]",
    "external": "prometheus-adapter's external rules go under externalRules",
    "metric-config": "annotations of kube-metrics-adapter are not read; write each query as a metric under metrics",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that can be used, and what is worth knowing about it."""

    configuration: Configuration
    warnings: tuple[Note, ...] = ()
    fingerprint: str = ""
    """Of the files that it was read from; see `Sources.build_fingerprint`."""


def load_configuration(path: Path) -> Loaded:
    """Return what the file *path*, or the `*.yaml` and `*.yml` of the directory *path*, say together.

    Raises: ConfigurationError with every problem of every file.
    """
    return load_sources(read_sources(path))


def load_sources(sources: Sources) -> Loaded:
    """Return what *sources* say together; see `load_configuration`."""
    merging = _Merging(problems=sources.find_problems())
    for source in sources.files:
        if not source.problem:
            merging.add(parse_document(source.content, str(source.path)))
    return merging.finish(sources.build_fingerprint())


@dataclass(slots=True)
class _Merging:
    """Collects the files' pieces, and everything that is wrong with them."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    backends: dict[str, tuple[BackendSettings | None, Place]] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    names: dict[str, Place] = field(default_factory=dict)
    uses: list[tuple[object, Place]] = field(default_factory=list)
    resolution: tuple[float, Place] | None = None
    is_whole: bool = True
    """Whether every file could be read: else a backend that seems to be missing may stand in the one that could not."""

    def add(self, document: Document) -> None:
        """Take one file."""
        self.problems += document.problems
        data = document.data
        if not isinstance(data, dict):
            self.is_whole = False
            if not document.problems:
                detail = "expected a mapping, such as `prometheus: {url: ...}` and `metrics: [...]`"
                self.problems.append(Place((), document).problem(Kind.INVALID, detail, data))
            return
        handlers = {
            PROMETHEUS_KEY: self._add_default_backend,
            "backends": self._add_backends,
            "resolution": self._add_resolution,
            "metrics": self._add_metrics,
            "externalRules": self._add_external_rules,
            "rules": self._ignore,
            "resourceRules": self._ignore,
        }
        for key, value in data.items():
            place = Place((key,), document)
            if key not in handlers:
                hint = next((text for start, text in _HINTS.items() if key.startswith(start)), "")
                self.problems.append(build_unknown_key((key,), list_known_keys(_FILE), document, hint))
            elif value is None:
                self.problems.append(place.problem(Kind.REQUIRED, "the key has no value; write one, or remove the key"))
            else:
                handlers[key](value, place)

    def finish(self, fingerprint: str) -> Loaded:
        """Return the whole; raises ConfigurationError."""
        if self.is_whole:
            self.problems += self._find_missing_backends()
        if self.problems:
            raise ConfigurationError(self.problems)
        backends = {name: settings for name, (settings, _) in self.backends.items() if settings is not None}
        rules = {rule.name.lower(): rule for rule in self.rules}
        resolution_s = self.resolution[0] if self.resolution else Configuration({}, {}).resolution_s
        return Loaded(Configuration(backends, rules, resolution_s), tuple(self.notes), fingerprint)

    def _add_default_backend(self, value: object, place: Place) -> None:
        self._add_backend(DEFAULT_BACKEND, value, place)

    def _add_backends(self, value: object, place: Place) -> None:
        if not isinstance(value, dict):
            self.problems.append(place.problem(Kind.INVALID, "expected a mapping of names to backends", value))
            return
        for name, keys in value.items():
            below = Place((*place.path, name), place.document)
            checked = validate_piece(_BACKEND_NAME, name, below.path, place.document)
            if isinstance(checked, list):
                self.problems += checked
            self._add_backend(name, keys, below)

    def _add_backend(self, name: str, value: object, place: Place) -> None:
        settings, problems, notes = read_backend(name, value, place)
        self.problems += problems
        self.notes += notes
        known = self.backends.setdefault(name, (settings, place))
        if known[1] is not place:
            detail = f'the backend "{name}" stands at {known[1].origin} already'
            self.problems.append(place.problem(Kind.DUPLICATE, detail, name))

    def _add_resolution(self, value: object, place: Place) -> None:
        checked = validate_piece(_RESOLUTION, value, place.path, place.document)
        if isinstance(checked, list):
            self.problems += checked
        elif self.resolution is not None:
            detail = f"the resolution is set at {self.resolution[1].origin} already"
            self.problems.append(place.problem(Kind.DUPLICATE, detail, value))
        else:
            self.resolution = (parse_duration_s(checked), place)

    def _add_metrics(self, value: object, place: Place) -> None:
        for entry, below in self._list(value, place):
            if isinstance(entry, dict):
                self._claim_name(entry.get("name"), below, ("name",))
                self.uses.append((entry.get("backend", DEFAULT_BACKEND), below))
            keys = validate_piece(_METRIC, entry, below.path, below.document)
            if isinstance(keys, list):
                self.problems += keys
            else:
                self.rules.append(_build_rule(keys, below.origin))

    def _add_external_rules(self, value: object, place: Place) -> None:
        for entry, below in self._list(value, place):
            self.uses.append((DEFAULT_BACKEND, below))
            keys = validate_piece(_EXTERNAL_RULE, entry, below.path, below.document)
            if isinstance(keys, list):
                self.problems += keys
                continue
            converted = convert_external_rule(keys, below.path, below.document)
            self.problems += converted.problems
            self.notes += converted.notes
            self._claim_name(converted.name, below, ())
            if converted.rule is not None:
                self.rules.append(converted.rule)

    def _ignore(self, value: object, place: Place) -> None:
        if place.path == ("rules",) and isinstance(value, dict):
            detail = "this is a value of prometheus-adapter's Helm chart: write what stands in rules.external as "
            self.problems.append(place.problem(Kind.INVALID, detail + "externalRules, and leave the rest away"))
            return
        self.notes += list_ignored(place.path, place.document)

    def _claim_name(self, name: object, place: Place, below: KeyPath) -> None:
        if not isinstance(name, str) or name == "":
            return
        known = self.names.setdefault(name.lower(), place)
        if known is not place:
            detail = f"a metric of this name stands at {known.origin} already (the HPA asks in lower case)"
            self.problems.append(place.problem(Kind.DUPLICATE, detail, name, below=below))

    def _find_missing_backends(self) -> Iterator[Problem]:
        uses = [(name, place) for name, place in self.uses if isinstance(name, str)]
        missing = [(name, place) for name, place in uses if name not in self.backends]
        without_default = [place for name, place in missing if name == DEFAULT_BACKEND]
        if without_default:
            first = without_default[0]
            detail = (
                "the metrics need a backend; write prometheus: {url: http://prometheus.monitoring.svc:9090}. A file of "
                "prometheus-adapter has none: put it into a directory beside a file that does, and load the directory"
            )
            yield Problem(
                path=(PROMETHEUS_KEY,),
                kind=Kind.REQUIRED,
                detail=detail,
                file=first.document.file,
                line=first.document.get_line(first.path),
            )
        for name, place in missing:
            if name != DEFAULT_BACKEND:
                nearest = find_nearest(name, self.backends)
                guess = f'did you mean "{nearest}"?' if nearest else f"there are: {', '.join(self.backends) or 'none'}"
                yield place.problem(Kind.INVALID, f"no such backend; {guess}", name, below=("backend",))

    def _list(self, value: object, place: Place) -> Iterator[tuple[object, Place]]:
        if not isinstance(value, list):
            self.problems.append(place.problem(Kind.INVALID, "expected a list", value))
            return
        for index, entry in enumerate(value):
            yield entry, Place((*place.path, index), place.document)


def _build_rule(keys: MetricKeys, origin: str) -> Rule:
    query = parse_template(keys.query)
    return Rule(
        name=keys.name,
        query=query,
        shape=parse_shape(query),
        backend=keys.backend,
        namespace=_build_namespace_policy(keys.namespace),
        labels=keys.labels,
        aliases=keys.aliases,
        negative=keys.negative,
        zero_while=_build_template(keys.empty.zero_while if isinstance(keys.empty, ZeroWhileKeys) else None),
        hold_s=parse_duration_s(keys.hold),
        guards=_build_guards(keys.guards),
        origin=origin,
    )


def _build_guards(keys: GuardKeys) -> Guards:
    default = Guards()
    return Guards(
        max_age_s=default.max_age_s if keys.max_age is None else parse_duration_s(keys.max_age),
        freshness=_build_template(keys.freshness),
        lost_targets_s=default.lost_targets_s if keys.lost_targets is None else parse_duration_s(keys.lost_targets),
        tolerate_lost=keys.tolerate_lost,
        min_series=keys.min_series,
        max_series=keys.max_series,
        expect_one=keys.expect_one,
        allow_partial=keys.allow_partial,
        require=_build_template(keys.require),
    )


def _build_template(query: str | None) -> QueryTemplate | None:
    return parse_template(query) if query is not None else None


def _build_namespace_policy(keys: Any) -> NamespacePolicy:  # noqa: ANN401 - a union that pydantic has picked from
    if isinstance(keys, NamespaceLabelKeys):
        return NamespaceLabel(keys.label)
    if isinstance(keys, list):
        return NamespaceList(frozenset(keys))
    return AnyNamespace()
