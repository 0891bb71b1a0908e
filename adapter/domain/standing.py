"""How each guard of a rule stands after an evaluation: what it saw, and the limit it saw it against.

For people (`explain`, `check --live`); nothing here decides.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from adapter.domain.evidence import Evidence
from adapter.domain.rules import Rule

State = Literal["active", "off", "not derivable", "blind"]
"""*not derivable*: the query shows that the guard does nothing; *blind*: the backend shows it."""

_TARGETS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """One guard: *detail* in words; *seen* and *limit* in the guard's own unit (seconds, series, targets), if any."""

    guard: str
    state: State
    detail: str
    seen: float | None = None
    limit: float | None = None

    def __str__(self) -> str:
        return f"{self.guard}: {self.detail}"


def list_standings(rule: Rule, evidence: Evidence, *, feeding: Sequence[str] | None = None) -> Iterator[Standing]:
    """Yield the standing of every guard that judges where values come from.

    *feeding* are the targets (`job/instance`) that give the rule's selectors samples now; None if nobody asked.
    """
    yield _judge_age(rule, evidence)
    yield _judge_losses(rule, evidence, feeding)
    least = rule.guards.min_series
    if not least:
        yield Standing("minSeries", "off", "off")
    elif evidence.input_series is None:
        yield _not_derivable("minSeries", evidence)
    else:
        detail = f"{evidence.input_series} input series; at least {least}"
        yield Standing("minSeries", "active", detail, seen=evidence.input_series, limit=least)
    if rule.guards.require is not None:
        yield Standing("require", "active", f"met: {rule.guards.require.text}")


def _judge_age(rule: Rule, evidence: Evidence) -> Standing:
    limit_s = rule.guards.max_age_s
    if limit_s <= 0:
        return Standing("maxAge", "off", "off")
    if not evidence.is_aged:
        return _not_derivable("maxAge", evidence)
    ages_s = evidence.list_ages_s()
    if not ages_s:
        return Standing("maxAge", "active", f"no sample; at most {limit_s:g} s", limit=limit_s)
    by = "" if evidence.told is None else " by guards.freshness"
    detail = f"the oldest of {len(ages_s)} is {max(ages_s):.1f} s old{by}; at most {limit_s:g} s"
    detail += _tell_notes(evidence) if evidence.told is None else ""
    return Standing("maxAge", "active", detail, seen=max(ages_s), limit=limit_s)


def _judge_losses(rule: Rule, evidence: Evidence, feeding: Sequence[str] | None) -> Standing:
    if rule.guards.lost_targets_s <= 0:
        return Standing("lostTargets", "off", "off")
    if not evidence.inputs.selectors:
        return _not_derivable("lostTargets", evidence)
    if not evidence.inputs.are_fed_by_targets:
        return Standing("lostTargets", "active", "nothing to lose: the query selects what Prometheus writes of scrapes")
    lost = sorted({loss.target for loss in evidence.losses})
    if not feeding and feeding is not None and not lost and evidence.list_ages_s():
        return Standing(
            "lostTargets",
            "blind",
            "not derivable: no scrape target with an `up` feeds it (honor_labels, remote write, OTLP, recorded); "
            "write guards.require",
        )
    parts = [] if feeding is None else [f"fed by {len(feeding)} target(s): {_list_some(feeding)}" if feeding else ""]
    if lost:
        parts.append(f"down: {_list_some(lost)}")
    elif evidence.targets_down:
        parts.append(f"{evidence.targets_down} target(s) down, none of which fed this rule")
    else:
        parts.append("no target is down")
    detail = "; ".join(filter(None, parts)) + _tell_notes(evidence)
    return Standing("lostTargets", "active", detail, seen=len(lost), limit=0)


def _not_derivable(guard: str, evidence: Evidence) -> Standing:
    return Standing(guard, "not derivable", "not derivable: " + "; ".join(evidence.inputs.gaps))


def _tell_notes(evidence: Evidence) -> str:
    """Return what of the inputs no guard can judge, as the end of a line; empty where there is nothing."""
    return "".join(f"; not derivable: {note}" for note in evidence.inputs.notes)


def _list_some(targets: Sequence[str]) -> str:
    more = f" and {len(targets) - _TARGETS_SHOWN} more" if len(targets) > _TARGETS_SHOWN else ""
    return ", ".join(sorted(targets)[:_TARGETS_SHOWN]) + more
