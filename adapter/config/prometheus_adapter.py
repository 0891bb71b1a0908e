"""prometheus-adapter's external rules, unchanged: each becomes a rule of ours, or says why it cannot.

There a rule names the metrics that it finds in Prometheus; here a configuration says all of them, so the series' name
must be written in `seriesQuery`.

Source: prometheus-adapter 0.12, pkg/naming (metric_namer.go, metrics_query.go, resource_converter.go).
"""

import re
from dataclasses import dataclass, field
from typing import Final

import promql_parser

from adapter.config.fields import find_metric_name_problem
from adapter.config.go_regexp import BadPattern, BadReference, compile_pattern, expand_template, has_reference
from adapter.config.go_template import BadAction, list_actions, render_fields
from adapter.config.positions import Document
from adapter.config.problems import KeyPath, Kind, Note, Problem, quote_value
from adapter.config.schema import ExternalRuleKeys, SeriesFilterKeys
from adapter.domain.matchers import Matcher
from adapter.domain.promql import BadTemplate, QueryTemplate, parse_expression, parse_shape, parse_template
from adapter.domain.rules import AnyNamespace, NamespaceLabel, NamespacePolicy, Rule

_LITERAL_NAME: Final = re.compile(r"\^?([a-zA-Z_:][a-zA-Z0-9_:]*)\$?")
_NAMESPACE_RESOURCES: Final = frozenset({"namespace", "namespaces"})
_NAMESPACE_FIELDS: Final = {".Resource": "namespace", ".Group": ""}
_SENTINEL: Final = (Matcher("label", "=", "value"),)


@dataclass(slots=True)
class Converted:
    """What became of one external rule: no rule means that there are problems. *name* is its metric, where known."""

    rule: Rule | None = None
    name: str = ""
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


def convert_external_rule(keys: ExternalRuleKeys, path: KeyPath, document: Document) -> Converted:
    """Return the rule that answers as prometheus-adapter's would; *path* is where *keys* stand in *document*."""
    return _Conversion(keys, path, document).convert()


def list_ignored(path: KeyPath, document: Document) -> list[Note]:
    """Return the note that a key of prometheus-adapter's file is not served here."""
    what = {"rules": "custom metrics", "resourceRules": "resource metrics"}[str(path[0])]
    detail = f"{what} are not served by depthgauge; this key is ignored"
    return [Note(path=path, detail=detail, file=document.file, line=document.get_line(path))]


def find_series_name(series_query: str) -> str | None:
    """Return the one series name that *series_query* selects, None where only Prometheus could tell.

    Raises: ValueError if it is not a plain series selector.
    """
    selector = parse_expression(series_query)
    if not isinstance(selector, promql_parser.VectorSelector) or selector.offset or selector.at:
        raise ValueError("not a plain series selector")
    names = [matcher for matcher in selector.matchers.matchers if matcher.name == "__name__"]
    if selector.name:
        return str(selector.name)
    if len(names) != 1 or selector.matchers.or_matchers:
        return None
    if names[0].op == promql_parser.MatchOp.Equal:
        return str(names[0].value) or None
    literal = _LITERAL_NAME.fullmatch(names[0].value) if names[0].op == promql_parser.MatchOp.Re else None
    return literal[1] if literal else None


def _hint(reference: str) -> str:
    """Return what was probably meant by `$1_x`."""
    digits = re.match(r"[0-9]+(?=\D)", reference)
    return f"; did you mean ${{{digits[0]}}}{reference[digits.end() :]}?" if digits else ""


@dataclass(slots=True)
class _Conversion:
    """One external rule on its way; each step reports its own problems, so that all are told at once."""

    keys: ExternalRuleKeys
    path: KeyPath
    document: Document
    converted: Converted = field(default_factory=Converted)

    def convert(self) -> Converted:
        try:
            series = find_series_name(self.keys.series_query)
        except ValueError as error:
            detail = f'expected a series, such as queue_length or queue_length{{queue!=""}}: {error}'
            self._report(("seriesQuery",), detail, self.keys.series_query)
            return self.converted
        if series is None and self._depends_on_series():
            self._report_family()
            return self.converted
        self.converted.name = self._find_name(series)
        query = self._translate_query(series or "")
        policy = self._find_namespace_policy()
        if query is not None and policy is not None and not self.converted.problems:
            self.converted.rule = self._build_rule(query, policy)
        return self.converted

    def _build_rule(self, query: QueryTemplate, policy: NamespacePolicy) -> Rule:
        line = self.document.get_line(self.path)
        if isinstance(policy, NamespaceLabel) and not query.has_matchers:
            policy = AnyNamespace()
            detail = (
                "metricsQuery has no <<.LabelMatchers>>, so every namespace gets the same series (as in "
                "prometheus-adapter); resources: {namespaced: false} says so"
            )
            self.converted.notes.append(Note(path=self.path, detail=detail, file=self.document.file, line=line))
        return Rule(
            name=self.converted.name,
            query=query,
            shape=parse_shape(query),
            namespace=policy,
            origin=f"{self.document.file}:{line}",
        )

    def _depends_on_series(self) -> bool:
        expanded = self.keys.name.expanded
        return not expanded or has_reference(expanded) or ".Series" in list_actions(self.keys.metrics_query)

    def _report_family(self) -> None:
        detail = (
            "which series this selects only Prometheus can tell, and the metrics are fixed here; write a rule for "
            "each series: externalRules: [{seriesQuery: SERIES, metricsQuery: ...}] or "
            "metrics: [{name: NAME, query: 'max(SERIES{$matchers})'}]"
        )
        self._report(("seriesQuery",), detail, self.keys.series_query)

    def _find_name(self, series: str | None) -> str:
        """Return the metric's name; empty after a problem."""
        naming = self.keys.name
        patterns = [self._check_filter(entry, index, series) for index, entry in enumerate(self.keys.series_filters)]
        pattern = self._compile(naming.matches or ".*", ("name", "matches"))
        if series is None:
            return self._check_name(naming.expanded.replace("$$", "$"))
        if pattern is None or not all(patterns):
            return ""
        match = pattern.search(series)
        if match is None:
            detail = f'the series "{series}" does not match, so this rule would never have a metric'
            self._report(("name", "matches"), detail, naming.matches)
            return ""
        template = naming.expanded
        if not template and pattern.groups > 1:
            self._report(("name", "as"), "this key is needed: matches has several groups", kind=Kind.REQUIRED)
            return ""
        template = template or ("$1" if pattern.groups else "$0")
        try:
            return self._check_name(expand_template(template, match))
        except BadReference as error:
            self._report(("name", "as"), f"matches has no group {quote_value(str(error))}{_hint(str(error))}", template)
            return ""

    def _check_name(self, name: str) -> str:
        if detail := find_metric_name_problem(name):
            self._report(("name", "as"), f"becomes {quote_value(name)}: {detail}", self.keys.name.expanded)
            return ""
        return name

    def _check_filter(self, entry: SeriesFilterKeys, index: int, series: str | None) -> bool:
        """Return whether the filter lets *series* through; which of a family it does is not asked."""
        below: KeyPath = ("seriesFilters", index)
        if (entry.matches is None) == (entry.excludes is None):
            self._report(below, "expected exactly one of is and isNot")
            return False
        key, text = ("is", entry.matches) if entry.matches is not None else ("isNot", entry.excludes)
        pattern = self._compile(text or "", (*below, key))
        if pattern is None:
            return False
        if series is not None and bool(pattern.search(series)) != (key == "is"):
            detail = f'this filter excludes the rule\'s own series "{series}", so it would never have a metric'
            self._report((*below, key), detail, text)
            return False
        return True

    def _compile(self, text: str, below: KeyPath) -> re.Pattern[str] | None:
        try:
            return compile_pattern(text)
        except BadPattern as error:
            self._report(below, f"not a regular expression that is read here: {error}", text)
            return None

    def _translate_query(self, series: str) -> QueryTemplate | None:
        """Return the query with our placeholders in place of Go's template actions."""
        below: KeyPath = ("metricsQuery",)
        fields = {".Series": series, ".LabelMatchers": "$matchers", ".GroupBy": "", ".GroupBySlice": "[]"}
        try:
            query = parse_template(render_fields(self.keys.metrics_query, fields))
        except BadAction as error:
            detail = (
                f"the template construct {quote_value('<<' + error.construct)} is not read here: {error}; "
                "write the rule under metrics, with $matchers between the braces of its selectors"
            )
            self._report(below, detail)
            return None
        except BadTemplate:
            detail = "<<.LabelMatchers>> must stand between the braces of a selector, as in q{<<.LabelMatchers>>}"
            self._report(below, detail, self.keys.metrics_query)
            return None
        if "$matchers" in query.render(matchers=_SENTINEL):
            self._report(below, "<<.LabelMatchers>> stands in a string or a comment", self.keys.metrics_query)
        if not query.text.strip():
            self._report(below, "the query is empty", self.keys.metrics_query)
        return query

    def _find_namespace_policy(self) -> NamespacePolicy | None:
        resources = self.keys.resources
        if not resources.namespaced:
            return AnyNamespace()
        labels = [
            label
            for label, override in resources.overrides.items()
            if not override.group and override.resource.lower() in _NAMESPACE_RESOURCES
        ]
        if len(labels) > 1:
            detail = f"several labels hold the namespace ({', '.join(labels)}); keep one"
            self._report(("resources", "overrides"), detail)
            return None
        label = labels[0] if labels else self._expand_label_template(resources.template)
        if label is None:
            return None
        if label:
            return NamespaceLabel(label)
        detail = (
            "no label is known to hold the namespace; write resources: {overrides: {LABEL: {resource: namespace}}}, "
            "or resources: {namespaced: false} to serve the same series to every namespace"
        )
        self._report(("resources",), detail, kind=Kind.REQUIRED)
        return None

    def _expand_label_template(self, template: str) -> str | None:
        """Return the label that *template* makes of the resource `namespace`; None after a problem."""
        try:
            return render_fields(template, _NAMESPACE_FIELDS).strip()
        except BadAction as error:
            detail = f"the template construct {quote_value('<<' + error.construct)} is not read here: {error}"
            self._report(("resources", "template"), detail, template)
            return None

    def _report(self, below: KeyPath, detail: str, value: object = None, kind: Kind = Kind.INVALID) -> None:
        path = self.path + below
        self.converted.problems.append(
            Problem(
                path=path,
                kind=kind,
                detail=detail,
                file=self.document.file,
                line=self.document.get_line(path),
                value="" if value is None else quote_value(value),
            )
        )
