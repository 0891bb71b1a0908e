"""A configuration's files become one `Configuration`, or all of their problems at once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from adapter.config.durations import parse_duration_s
from adapter.config.fields import BackendName, Resolution
from adapter.config.positions import Document, parse_document
from adapter.config.problems import ConfigurationError, KeyPath, Kind, Note, Problem, quote_value
from adapter.config.prometheus_adapter import convert_external_rule, list_ignored
from adapter.config.schema import BackendKeys, ExternalRuleKeys, FileKeys, MetricKeys, NamespaceLabelKeys, TlsKeys
from adapter.config.sources import Sources, read_sources
from adapter.config.unserved import find_unserved
from adapter.config.validation import build_unknown_key, list_known_keys, validate_piece
from adapter.domain.backends import BackendSettings, BasicAuth, TlsSettings
from adapter.domain.promql import parse_shape, parse_template
from adapter.domain.rules import (
    AnyNamespace,
    Configuration,
    Guards,
    NamespaceLabel,
    NamespaceList,
    NamespacePolicy,
    Rule,
)

DEFAULT_BACKEND: Final = "default"

_FILE: Final = TypeAdapter(FileKeys)
_BACKEND: Final = TypeAdapter(BackendKeys)
_BACKEND_NAME: Final = TypeAdapter(BackendName)
_METRIC: Final = TypeAdapter(MetricKeys)
_EXTERNAL_RULE: Final = TypeAdapter(ExternalRuleKeys)
_RESOLUTION: Final = TypeAdapter(Resolution)
_NO_TLS: Final = TlsKeys.build_default()

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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something stands."""

    path: KeyPath
    document: Document

    @property
    def origin(self) -> str:
        return f"{self.document.file}:{self.document.get_line(self.path)}"

    def problem(self, kind: Kind, detail: str, value: object = None, *, below: KeyPath = ()) -> Problem:
        path = self.path + below
        return Problem(
            path=path,
            kind=kind,
            detail=detail,
            value="" if value is None else quote_value(value),
            file=self.document.file,
            line=self.document.get_line(path),
        )


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
    return merging.finish()


@dataclass(slots=True)
class _Merging:
    """Collects the files' pieces, and everything that is wrong with them."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    backends: dict[str, tuple[BackendSettings | None, _Place]] = field(default_factory=dict)
    rules: list[tuple[Rule, _Place]] = field(default_factory=list)
    names: dict[str, _Place] = field(default_factory=dict)
    resolution: tuple[float, _Place] | None = None

    def add(self, document: Document) -> None:
        """Take one file."""
        self.problems += document.problems
        data = document.data
        if data is None and document.problems:
            return
        if not isinstance(data, dict):
            detail = "expected a mapping, such as `prometheus: {url: ...}` and `metrics: [...]`"
            self.problems.append(_Place((), document).problem(Kind.INVALID, detail, data if data is not None else ""))
            return
        handlers = {
            "prometheus": self._add_default_backend,
            "backends": self._add_backends,
            "resolution": self._add_resolution,
            "metrics": self._add_metrics,
            "externalRules": self._add_external_rules,
            "rules": self._ignore,
            "resourceRules": self._ignore,
        }
        for key, value in data.items():
            place = _Place((key,), document)
            if key not in handlers:
                hint = next((text for name, text in _HINTS.items() if key.startswith(name)), "")
                self.problems.append(build_unknown_key((key,), list_known_keys(_FILE), document, hint))
            elif value is None:
                self.problems.append(place.problem(Kind.REQUIRED, "the key has no value; write one, or remove the key"))
            else:
                handlers[key](value, place)

    def finish(self) -> Loaded:
        """Return the whole; raises ConfigurationError."""
        for rule, place in self.rules:
            self._check_backend_exists(rule, place)
        if self.problems:
            raise ConfigurationError(self.problems)
        backends = {name: settings for name, (settings, _) in self.backends.items() if settings is not None}
        rules = {rule.name.lower(): rule for rule, _ in self.rules}
        resolution_s = self.resolution[0] if self.resolution else Configuration({}, {}).resolution_s
        return Loaded(Configuration(backends, rules, resolution_s), tuple(self.notes))

    def _add_default_backend(self, value: object, place: _Place) -> None:
        self._add_backend(DEFAULT_BACKEND, value, place)

    def _add_backends(self, value: object, place: _Place) -> None:
        if not isinstance(value, dict):
            self.problems.append(place.problem(Kind.INVALID, "expected a mapping of names to backends", value))
            return
        for name, keys in value.items():
            below = _Place((*place.path, name), place.document)
            checked = validate_piece(_BACKEND_NAME, name, below.path, place.document)
            if isinstance(checked, list):
                self.problems += checked
            self._add_backend(name, keys, below)

    def _add_backend(self, name: str, value: object, place: _Place) -> None:
        keys = validate_piece(_BACKEND, value, place.path, place.document)
        known = self.backends.get(name)
        if known is not None:
            detail = f'the backend "{name}" is configured at {known[1].origin} already'
            self.problems.append(place.problem(Kind.DUPLICATE, detail, name))
            return
        if isinstance(keys, list):
            self.problems += keys
            self.backends[name] = (None, place)
            return
        self.problems += _find_backend_problems(keys, place)
        self.backends[name] = (_build_backend(name, keys), place)

    def _add_resolution(self, value: object, place: _Place) -> None:
        checked = validate_piece(_RESOLUTION, value, place.path, place.document)
        if isinstance(checked, list):
            self.problems += checked
        elif self.resolution is not None:
            detail = f"the resolution is set at {self.resolution[1].origin} already"
            self.problems.append(place.problem(Kind.DUPLICATE, detail, value))
        else:
            self.resolution = (parse_duration_s(checked), place)

    def _add_metrics(self, value: object, place: _Place) -> None:
        for entry, below in self._list(value, place):
            keys = validate_piece(_METRIC, entry, below.path, below.document)
            if isinstance(keys, list):
                self.problems += keys
                continue
            self.problems += find_unserved(keys, below.path, below.document)
            self._add_rule(_build_rule(keys, below.origin), below, ("name",))

    def _add_external_rules(self, value: object, place: _Place) -> None:
        for entry, below in self._list(value, place):
            keys = validate_piece(_EXTERNAL_RULE, entry, below.path, below.document)
            if isinstance(keys, list):
                self.problems += keys
                continue
            converted = convert_external_rule(keys, below.path, below.document)
            self.problems += converted.problems
            self.notes += converted.notes
            if converted.rule is not None:
                self._add_rule(converted.rule, below, ())

    def _ignore(self, value: object, place: _Place) -> None:
        if place.path == ("rules",) and isinstance(value, dict):
            detail = (
                "this is the shape of prometheus-adapter's Helm value; "
                "put the list under rules.external into externalRules"
            )
            self.problems.append(place.problem(Kind.INVALID, detail))
            return
        self.notes += list_ignored(place.path, place.document)

    def _add_rule(self, rule: Rule, place: _Place, name_path: KeyPath) -> None:
        known = self.names.setdefault(rule.name.lower(), place)
        if known is not place:
            detail = f"a metric of this name stands at {known.origin} already; case makes no difference"
            self.problems.append(place.problem(Kind.DUPLICATE, detail, rule.name, below=name_path))
            return
        self.rules.append((rule, place))

    def _check_backend_exists(self, rule: Rule, place: _Place) -> None:
        if rule.backend in self.backends:
            return
        if rule.backend == DEFAULT_BACKEND:
            detail = "no backend is configured; write prometheus: {url: ...}, here or in another file of the directory"
            if any(problem.detail == detail for problem in self.problems):
                return
            self.problems.append(place.problem(Kind.REQUIRED, detail))
            return
        names = ", ".join(self.backends) or "none"
        detail = f"no such backend; configured are: {names}"
        self.problems.append(place.problem(Kind.INVALID, detail, rule.backend, below=("backend",)))

    def _list(self, value: object, place: _Place) -> Iterator[tuple[object, _Place]]:
        if not isinstance(value, list):
            self.problems.append(place.problem(Kind.INVALID, "expected a list", value))
            return
        for index, entry in enumerate(value):
            yield entry, _Place((*place.path, index), place.document)


def _find_backend_problems(keys: BackendKeys, place: _Place) -> Iterator[Problem]:
    if keys.bearer_token_file and keys.basic_auth:
        yield place.problem(Kind.INVALID, "bearerTokenFile and basicAuth exclude each other", below=("basicAuth",))
    has_credentials = bool(keys.bearer_token_file or keys.basic_auth)
    if has_credentials and any(name.lower() == "authorization" for name in keys.headers):
        detail = "an Authorization header, beside bearerTokenFile or basicAuth"
        yield place.problem(Kind.INVALID, detail, below=("headers",))
    tls = keys.tls or _NO_TLS
    if tls.insecure_skip_verify and tls.ca_file:
        yield place.problem(Kind.INVALID, "insecureSkipVerify and caFile exclude each other", below=("tls",))
    if tls.key_file and not tls.cert_file:
        yield place.problem(Kind.REQUIRED, "keyFile needs certFile", below=("tls", "certFile"))


def _build_backend(name: str, keys: BackendKeys) -> BackendSettings:
    tls, basic = keys.tls or _NO_TLS, keys.basic_auth
    return BackendSettings(
        name=name,
        url=keys.url.rstrip("/"),
        timeout_s=parse_duration_s(keys.timeout),
        max_concurrency=keys.max_concurrency,
        bearer_token_file=_path(keys.bearer_token_file),
        basic_auth=BasicAuth(basic.username, Path(basic.password_file)) if basic is not None else None,
        tls=TlsSettings(
            ca_file=_path(tls.ca_file),
            cert_file=_path(tls.cert_file),
            key_file=_path(tls.key_file),
            server_name=tls.server_name,
            insecure_skip_verify=tls.insecure_skip_verify,
        ),
        headers=keys.headers,
        params=keys.params,
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text is not None else None


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
        guards=Guards(
            max_series=keys.guards.max_series,
            expect_one=keys.guards.expect_one,
            allow_partial=keys.guards.allow_partial,
        ),
        origin=origin,
    )


def _build_namespace_policy(keys: Any) -> NamespacePolicy:  # noqa: ANN401 - a union that pydantic has picked from
    if isinstance(keys, NamespaceLabelKeys):
        return NamespaceLabel(keys.label)
    if isinstance(keys, list):
        return NamespaceList(frozenset(keys))
    return AnyNamespace()
