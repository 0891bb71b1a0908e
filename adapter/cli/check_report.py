"""What `check` found, as text or JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adapter.cli.survey import Sighting, judge_sightings
from adapter.config.problems import Note, Problem, format_path
from adapter.domain.lint import Finding
from adapter.domain.rules import Rule


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that was found; *sightings* is None where no backend was asked."""

    problems: Sequence[Problem] = ()
    notes: Sequence[Note] = ()
    rules: Sequence[Rule] = ()
    lint: Sequence[Finding] = ()
    sightings: Sequence[Sighting] | None = None

    def list_findings(self) -> tuple[Finding, ...]:
        """Return all findings: on backends, then rule by rule, what the query says before what its backend says."""
        of_backends, of_rules = judge_sightings(self.sightings or ())
        grouped = [found for rule in self.rules for found in (*self._list_lint(rule), *of_rules.get(rule.name, ()))]
        return (*of_backends, *grouped)

    def is_good(self, *, is_strict: bool) -> bool:
        """Return whether nothing is wrong; warnings are wrong too if *is_strict*."""
        findings = self.list_findings()
        has_errors = bool(self.problems) or any(finding.level == "error" for finding in findings)
        return not has_errors and not (is_strict and (findings or self.notes))

    def format_text(self) -> str:
        """Return the report for people, a line each, what an editor can jump to in front; a summary at the end."""
        return "\n".join(self._list_lines())

    def build_document(self, *, is_strict: bool) -> dict[str, Any]:
        """Return the report for programs."""
        document: dict[str, Any] = {
            "ok": self.is_good(is_strict=is_strict),
            "problems": [_describe_problem(problem) for problem in self.problems],
            "notes": [{**_describe_place(note), "message": note.detail} for note in self.notes],
            "findings": [_describe_finding(finding) for finding in self.list_findings()],
        }
        if self.sightings is not None:
            document["live"] = [_describe_sighting(sighting) for sighting in self.sightings]
        return document

    def _list_lint(self, rule: Rule) -> Iterator[Finding]:
        return (finding for finding in self.lint if finding.rule == rule.name)

    def _list_lines(self) -> Iterator[str]:
        if self.problems:
            yield from map(str, self.problems)
            yield f"{_count(len(self.problems), 'problem')}: the configuration cannot be used"
            return
        yield from (f"{note} [note]" for note in self.notes)
        of_backends, of_rules = judge_sightings(self.sightings or ())
        yield from (f"{found.rule}: {found.level}: {found.message} [{found.code}]" for found in of_backends)
        seen = {sighting.rule.name: sighting for sighting in self.sightings or ()}
        for rule in self.rules:
            yield from map(str, (*self._list_lint(rule), *of_rules.get(rule.name, ())))
            if rule.name in seen:
                yield f"{rule.origin}: metrics {rule.name}: live: {seen[rule.name].describe()}"
                guards = seen[rule.name].describe_guards()
                if guards:
                    yield f"{rule.origin}: metrics {rule.name}: guards: {guards}"
        yield self._summarise()

    def _summarise(self) -> str:
        findings = self.list_findings()
        errors = sum(finding.level == "error" for finding in findings)
        warnings = len(findings) - errors + len(self.notes)
        parts = [_count(len(self.rules), "metric"), _count(errors, "error"), _count(warnings, "warning")]
        if self.sightings is not None:
            parts.append(f"{sum(sighting.is_answered for sighting in self.sightings)} answered live")
        return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _describe_place(found: Problem | Note) -> dict[str, Any]:
    return {"file": found.file, "line": found.line, "path": format_path(found.path)}


def _describe_problem(problem: Problem) -> dict[str, Any]:
    return {
        **_describe_place(problem),
        "kind": str(problem.kind),
        "value": problem.value,
        "message": problem.detail,
    }


def _describe_finding(finding: Finding) -> dict[str, Any]:
    subject = "backend" if finding.rule.startswith("backend ") else "metric"
    return {
        "level": finding.level,
        "code": finding.code,
        "message": finding.message,
        subject: finding.rule.removeprefix("backend "),
        "origin": finding.origin,
    }


def _describe_sighting(sighting: Sighting) -> Mapping[str, Any]:
    described: dict[str, Any] = {"metric": sighting.rule.name, "backend": sighting.rule.backend}
    if sighting.skipped:
        return {**described, "skipped": sighting.skipped}
    described["durationMs"] = round(sighting.duration_s * 1000, 3)
    if sighting.error is not None:
        described |= {"reason": str(sighting.error.reason), "message": sighting.error.describe()}
    if sighting.is_answered:
        described |= {
            "series": sighting.series,
            "maxSeries": sighting.rule.guards.max_series,
            "lowest": sighting.lowest or None,
            "highest": sighting.highest or None,
            "labels": list(sighting.labels),
        }
    if sighting.standings:
        described["guards"] = [
            {"guard": it.guard, "state": it.state, "detail": it.detail, "seen": it.seen, "limit": it.limit}
            for it in sighting.standings
        ]
    return described
