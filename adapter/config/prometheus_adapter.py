"""prometheus-adapter's external rules, unchanged: each becomes a rule of ours, or says why it cannot.

There a rule names the metrics that it finds in Prometheus; here a configuration says all of them, so the series' name
must be written in `seriesQuery`.

Source: prometheus-adapter 0.12, pkg/naming (metric_namer.go, metrics_query.go, resource_converter.go).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from adapter.config.fields import find_metric_name_problem
from adapter.config.positions import Document
from adapter.config.problems import KeyPath, Kind, Note, Problem, format_value, quote_value
from adapter.config.schema import ExternalRuleKeys, ResourceKeys, SeriesFilterKeys
from adapter.domain.promql import BadTemplate, parse_shape, parse_template
from adapter.domain.rules import AnyNamespace, NamespaceLabel, NamespacePolicy, Rule

_SERIES_NAME: Final = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{.*\}\s*)?", re.DOTALL)
_NAME_MATCHER: Final = re.compile(r"""__name__\s*(=~|=)\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)""")
_PLAIN_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_ACTION: Final = re.compile(r"<<(-\s)?(.*?)(\s-)?>>", re.DOTALL)
_GROUP_BY: Final = frozenset({".GroupBy", ".GroupBySlice"})
_GO_REFERENCE: Final = re.compile(r"\$(?:\$|\{([A-Za-z0-9_]+)\}|([A-Za-z0-9_]+))")
_NAMESPACE_RESOURCES: Final = frozenset({"namespace", "namespaces", "ns"})


@dataclass(slots=True)
class Converted:
    """What became of one external rule: no rule means that there are problems."""

    rule: Rule | None = None
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


class _Refused(Exception):
    def __init__(self, below: KeyPath, detail: str, value: object = None, kind: Kind = Kind.INVALID) -> None:
        super().__init__(detail)
        self.below = below
        self.detail = detail
        self.value = value
        self.kind = kind


def convert_external_rule(keys: ExternalRuleKeys, path: KeyPath, document: Document) -> Converted:
    """Return the rule that answers as prometheus-adapter's would; *path* is where *keys* stand in *document*."""
    converted = Converted()
    try:
        series = find_series_name(keys.series_query)
        name = _find_metric_name(keys, series)
        text = _translate_query(keys.metrics_query, series)
        try:
            query = parse_template(text)
        except BadTemplate as error:
            raise _Refused(("metricsQuery",), str(error)) from error
        policy = _find_namespace_policy(keys.resources)
    except _Refused as refused:
        place = path + refused.below
        value = "" if refused.value is None else format_value(place, refused.value)
        line = document.get_line(place)
        converted.problems.append(
            Problem(path=place, kind=refused.kind, detail=refused.detail, file=document.file, line=line, value=value)
        )
        return converted
    line = document.get_line(path)
    if isinstance(policy, NamespaceLabel) and not query.has_matchers:
        policy = AnyNamespace()
        detail = (
            "the query has no <<.LabelMatchers>>, so the request's namespace is not a matcher "
            "(as in prometheus-adapter); its selectors are applied to the result"
        )
        converted.notes.append(Note(path=path, detail=detail, file=document.file, line=line))
    converted.rule = Rule(
        name=name, query=query, shape=parse_shape(query), namespace=policy, origin=f"{document.file}:{line}"
    )
    return converted


def list_ignored(path: KeyPath, document: Document) -> list[Note]:
    """Return the note that a key of prometheus-adapter's file is not served here."""
    what = {"rules": "custom metrics", "resourceRules": "resource metrics"}[str(path[0])]
    detail = f"{what} are not served by depthgauge; this key is ignored"
    return [Note(path=path, detail=detail, file=document.file, line=document.get_line(path))]


def find_series_name(series_query: str) -> str | None:
    """Return the one series name that *series_query* selects, None where only Prometheus could tell."""
    if (match := _SERIES_NAME.fullmatch(series_query)) is not None:
        return match[1]
    for operator, quoted in _NAME_MATCHER.findall(series_query):
        text: str = quoted[1:-1]
        if operator == "=~":
            text = text.removeprefix("^").removesuffix("$")
        if _PLAIN_NAME.fullmatch(text):
            return text
    return None


def _find_metric_name(keys: ExternalRuleKeys, series: str | None) -> str:
    expanded = keys.name.expanded
    if series is None:
        if expanded and "$" not in expanded:
            return _check_metric_name(expanded)
        raise _Refused(
            ("seriesQuery",),
            "which series this selects only Prometheus can tell, and a rule here has one name; write a rule for each: "
            "metrics: [{name: SERIES, query: THE QUERY WITH THE SERIES' NAME}]",
            keys.series_query,
        )
    for index, entry in enumerate(keys.series_filters):
        _check_filter(entry, series, ("seriesFilters", index))
    pattern = _compile(keys.name.matches or ".*", ("name", "matches"))
    match = pattern.search(series)
    if match is None:
        detail = f'the series "{series}" does not match, so prometheus-adapter would not serve it'
        raise _Refused(("name", "matches"), detail, keys.name.matches)
    if not expanded:
        if pattern.groups > 1:
            raise _Refused(("name", "as"), "needed, because matches has several groups", kind=Kind.REQUIRED)
        expanded = "$1" if pattern.groups else "$0"
    return _check_metric_name(_expand(expanded, match))


def _check_metric_name(name: str) -> str:
    if detail := find_metric_name_problem(name):
        raise _Refused(("name", "as"), detail, name)
    return name


def _check_filter(entry: SeriesFilterKeys, series: str, below: KeyPath) -> None:
    if (entry.matches is None) == (entry.excludes is None):
        raise _Refused(below, "expected exactly one of is and isNot")
    if entry.matches is not None and not _compile(entry.matches, (*below, "is")).search(series):
        raise _Refused((*below, "is"), f'the series "{series}" does not match this filter', entry.matches)
    if entry.excludes is not None and _compile(entry.excludes, (*below, "isNot")).search(series):
        raise _Refused((*below, "isNot"), f'the series "{series}" is excluded by this filter', entry.excludes)


def _compile(pattern: str, below: KeyPath) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise _Refused(below, f"not a regular expression: {error}", pattern) from error


def _expand(template: str, match: re.Match[str]) -> str:
    """Return *template* with `$1`, `${1}` and `$name` replaced, as Go does it: `$1_x` is the group named `1_x`.

    Source: Go, Regexp.ExpandString. A group that is not there is empty.
    """

    def replace(reference: re.Match[str]) -> str:
        if reference[0] == "$$":
            return "$"
        name = reference[1] or reference[2]
        if name.isdecimal():
            return (match[int(name)] or "") if int(name) <= (match.re.groups) else ""
        return (match[name] or "") if name in match.re.groupindex else ""

    expanded = _GO_REFERENCE.sub(replace, template)
    if not expanded:
        detail = f'becomes an empty name for the series "{match.string}"; "$1_x" means a group "1_x": write "${{1}}_x"'
        raise _Refused(("name", "as"), detail, template)
    return expanded


def _translate_query(query: str, series: str | None) -> str:
    """Return the query with our placeholders in place of Go's template actions."""
    place: KeyPath = ("metricsQuery",)

    def replace(action: re.Match[str]) -> str:
        construct = action[2].strip()
        if construct == ".Series":
            if series is None:
                detail = "<<.Series>> stands for a series that only Prometheus could tell; write its name"
                raise _Refused(place, detail)
            return series
        if construct == ".LabelMatchers":
            return "$matchers"
        if construct in _GROUP_BY:
            return ""
        detail = (
            f"the template construct {quote_value(f'<<{construct}>>')} is not read here; "
            "write the label matchers out, or use <<.LabelMatchers>>"
        )
        raise _Refused(place, detail)

    trimmed = re.sub(r"\s*<<-\s", "<<", re.sub(r"\s-(>>)\s*", r"\1", query))
    translated = _ACTION.sub(replace, trimmed)
    if "<<" in translated or not translated.strip():
        raise _Refused(place, "a template action that does not end, or a query that is empty", query)
    return translated


def _find_namespace_policy(resources: ResourceKeys) -> NamespacePolicy:
    if not resources.namespaced:
        return AnyNamespace()
    for label, override in resources.overrides.items():
        if not override.group and override.resource.lower() in _NAMESPACE_RESOURCES:
            return NamespaceLabel(label)
    if resources.template:
        return NamespaceLabel(_expand_label_template(resources.template))
    raise _Refused(
        ("resources",),
        "no label holds the namespace; write resources: {overrides: {LABEL: {resource: namespace}}}, "
        "or resources: {namespaced: false} to serve the same series to every namespace",
        kind=Kind.REQUIRED,
    )


def _expand_label_template(template: str) -> str:
    values: Mapping[str, str] = {".Resource": "namespace", ".Group": ""}

    def replace(action: re.Match[str]) -> str:
        construct = action[2].strip()
        if construct not in values:
            detail = f"only <<.Resource>> and <<.Group>> are read here, not {quote_value(f'<<{construct}>>')}"
            raise _Refused(("resources", "template"), detail)
        return values[construct]

    label = _ACTION.sub(replace, template)
    if not _PLAIN_NAME.fullmatch(label):
        raise _Refused(("resources", "template"), f"becomes {quote_value(label)}, which is no label", template)
    return label
