"""Ask the backends for every rule once, as `check --live` does, and hold what came back against the rule."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Final

from adapter.cli.logs import silence_logs
from adapter.clock import Clock, SystemClock
from adapter.domain.derivability import find_underived
from adapter.domain.evidence import Evidence, check_complete
from adapter.domain.guards import build_answer
from adapter.domain.lint import Finding, Level
from adapter.domain.rules import Configuration, Rule
from adapter.domain.samples import QueryResult, Sample
from adapter.domain.standing import Standing, list_standings
from adapter.errors import MetricError, NoSamples, Reason, clip_text
from adapter.serving.provider import Provider
from adapter.wiring import Factory

_OF_BACKEND: Final = frozenset({Reason.BACKEND_UNAVAILABLE, Reason.BACKEND_REFUSED, Reason.DEADLINE_EXCEEDED})
_OF_THE_MOMENT: Final = frozenset({Reason.NO_SAMPLES, Reason.NOT_FINITE, Reason.NEGATIVE, Reason.NOT_REPRESENTABLE})
_LABELS_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the backend answered for one rule: a result or an *error*, after *duration_s* seconds.

    *skipped* says why it was not asked. *series*, *lowest*, *highest* (Prometheus' own texts) and *labels* describe the
    result as a whole, before any request's selector; *standings* are its guards.
    """

    rule: Rule
    error: MetricError | None = None
    duration_s: float = 0.0
    series: int = 0
    lowest: str = ""
    highest: str = ""
    labels: Sequence[str] = ()
    skipped: str = ""
    standings: Sequence[Standing] = ()

    @property
    def is_answered(self) -> bool:
        """Return whether the backend gave a result, if only an empty one."""
        return not self.skipped and (self.error is None or self.error.reason in _OF_THE_MOMENT)

    def describe(self) -> str:
        """Return the sighting in one line."""
        if self.skipped:
            return f"not asked: {self.skipped}"
        took = f"{self.duration_s * 1000:.0f} ms"
        if self.error is not None and not self.is_answered:
            return f"no result ({self.error.reason}); {took}"
        parts = [f"{self.series} of at most {self.rule.guards.max_series} series"]
        if self.lowest:
            parts.append(f"value {self.lowest}" if self.lowest == self.highest else f"{self.lowest} to {self.highest}")
        if self.series:
            more = ", ..." if len(self.labels) > _LABELS_SHOWN else ""
            parts.append("labels " + (", ".join(self.labels[:_LABELS_SHOWN]) or "none") + more)
        return "; ".join([*parts, took])

    def describe_guards(self) -> str:
        """Return how close the guards are to tripping, in one line; those that are off are left out."""
        return " | ".join(str(standing) for standing in self.standings if standing.state != "off")


def survey_rules(
    configuration: Configuration,
    *,
    namespace: str | None,
    on_seen: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
) -> tuple[Sighting, ...]:
    """Return a sighting of every rule, in their order; *on_seen* is called after each.

    Rules whose query names the request's namespace are asked for *namespace*, or skipped without one. No backend is
    asked more at once than its maxConcurrency.
    """
    silence_logs()
    return asyncio.run(_survey(configuration, namespace, on_seen, clock or SystemClock()))


async def _survey(
    configuration: Configuration, namespace: str | None, on_seen: Callable[[], None], clock: Clock
) -> tuple[Sighting, ...]:
    generation = Factory(clock).build_generation(configuration)
    places = {name: asyncio.Semaphore(it.max_concurrency) for name, it in configuration.backends.items()}

    async def visit(rule: Rule) -> Sighting:
        async with places[rule.backend]:
            sighting = await _look(generation.provider, rule, namespace, clock)
        on_seen()
        return sighting

    try:
        async with asyncio.TaskGroup() as group:
            visits = [group.create_task(visit(rule)) for rule in configuration.rules.values()]
    finally:
        await generation.aclose()
    return tuple(visit.result() for visit in visits)


async def _look(provider: Provider, rule: Rule, namespace: str | None, clock: Clock) -> Sighting:
    if rule.query.has_namespace and namespace is None:
        return Sighting(rule, skipped="the query names the request's namespace; give one with --namespace")
    started_s = clock.monotonic_s()
    try:
        evaluation = await provider.fetch_whole(rule, namespace=namespace or "")
    except MetricError as error:
        return Sighting(rule, error=error, duration_s=clock.monotonic_s() - started_s)
    duration_s = clock.monotonic_s() - started_s
    feeding = await provider.find_feeding(rule, evaluation)
    return describe_result(rule, evaluation.result, evaluation.evidence, duration_s=duration_s, feeding=feeding)


def describe_result(
    rule: Rule,
    result: QueryResult,
    evidence: Evidence,
    *,
    duration_s: float,
    feeding: Sequence[str] | None = None,
) -> Sighting:
    """Return the sighting of a *result*, fed by the targets *feeding* as far as that is known.

    Its error is Incomplete, NoSamples, or that of the first sample which cannot be served.
    """
    standings = tuple(list_standings(rule, evidence, feeding=feeding))
    try:
        check_complete(evidence.losses)
    except MetricError as error:
        return Sighting(rule, error=error, duration_s=duration_s, standings=standings)
    errors = (found for sample in result.samples if (found := _find_error(sample, rule, evidence)) is not None)
    finite = sorted((sample.value for sample in result.samples if _is_finite(sample.value)), key=Decimal)
    return Sighting(
        rule,
        error=next(errors, None) if result.samples else NoSamples(),
        duration_s=duration_s,
        series=len(result.samples),
        lowest=finite[0] if finite else "",
        highest=finite[-1] if finite else "",
        labels=tuple(sorted({label for sample in result.samples for label in sample.labels})),
        standings=standings,
    )


def _find_error(sample: Sample, rule: Rule, evidence: Evidence) -> MetricError | None:
    try:
        build_answer((sample,), rule, evidence)
    except MetricError as error:
        return error
    return None


def _is_finite(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


def judge_sightings(sightings: Iterable[Sighting]) -> tuple[tuple[Finding, ...], Mapping[str, Sequence[Finding]]]:
    """Return the findings on backends, and those on single rules by the rule's name.

    What several rules of a backend failed with alike is told once, of the backend. An empty result or a value that
    cannot be served is a warning, because it may be another a minute later; every other failure is an error.
    """
    sightings = tuple(sightings)
    failed = [sighting for sighting in sightings if sighting.error is not None]
    failed.sort(key=_find_cause)
    of_backends: list[Finding] = []
    of_rules: dict[str, list[Finding]] = {}
    for (backend, reason, alike), group in groupby(failed, key=_find_cause):
        members = list(group)
        message = alike or str(members[0].error)
        level: Level = "warning" if reason in _OF_THE_MOMENT else "error"
        if len(members) > 1 and reason in _OF_BACKEND:
            told = f"{message} (told once, of {len(members)} metrics)"
            of_backends.append(Finding(level, reason, told, f"backend {backend}"))
            continue
        for member in members:
            found = Finding(level, reason, message, member.rule.name, member.rule.origin)
            of_rules.setdefault(member.rule.name, []).append(found)
    for sighting in sightings:
        for blind in _find_blind(sighting):
            found = Finding("warning", "guard-blind", str(blind), sighting.rule.name, sighting.rule.origin)
            of_rules.setdefault(sighting.rule.name, []).append(found)
    return tuple(of_backends), of_rules


def _find_blind(sighting: Sighting) -> Iterator[Standing]:
    """Yield the guards that only the backend shows to be without effect; what the query shows is for lint to say."""
    if sighting.rule.guards.require is None and "lostTargets" not in find_underived(sighting.rule):
        yield from (standing for standing in sighting.standings if standing.state == "blind")


def _find_cause(sighting: Sighting) -> tuple[str, str, str]:
    """Return what makes failures alike: the backend, the Reason and the message (but not how long each one waited)."""
    assert sighting.error is not None  # noqa: S101 - only failed ones are asked
    reason = sighting.error.reason
    message = "" if reason is Reason.DEADLINE_EXCEEDED else clip_text(sighting.error.describe(), 400)
    return sighting.rule.backend, str(reason), message
