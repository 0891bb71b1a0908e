"""Rules with their guards on, and a scripted backend that answers what they ask."""

from collections.abc import Mapping, Sequence
from typing import Any

from adapter.domain.guardqueries import DOWN_TARGETS, TAG, build_alive_query, build_freshness_query, build_lost_query
from adapter.domain.inputs import derive_inputs
from adapter.domain.promql import parse_shape, parse_template
from adapter.domain.rules import Guards, Rule
from adapter.domain.samples import QueryResult
from adapter.serving.breaker import PROBE
from tests.support.serving import NOW_S, Outcome, ScriptedBackend, vector

Rows = Sequence[tuple[Mapping[str, str], str]]
DAY_S = 86_400.0
TARGET = {"job": "shard", "instance": "10.0.0.2:80"}
DOWN = vector((TARGET, "0"))


def vouched_rule(query: str, name: str = "depth", *, guards: Guards | None = None, **fields: Any) -> Rule:
    """Return a rule of *query* with its guards on."""
    template = parse_template(query)
    return Rule(name=name, query=template, shape=parse_shape(template), guards=guards or Guards(), **fields)


def freshness_of(promql: str, *, with_age: bool = True, with_count: bool = False) -> str:
    """Return what is asked about the inputs of *promql*."""
    return build_freshness_query(derive_inputs(promql), max_age_s=120.0, with_age=with_age, with_count=with_count)


def lost_of(promql: str) -> str:
    """Return what is asked about the inputs of *promql* while TARGET is down."""
    return build_lost_query(derive_inputs(promql), window_s=DAY_S, down=[(TARGET["job"], TARGET["instance"])])


def alive_of(promql: str) -> str:
    """Return what `tolerateLost: any` asks about the inputs of *promql*."""
    return build_alive_query(derive_inputs(promql))


def tagged(part: str, *labels: Mapping[str, str], value: str = "1") -> QueryResult:
    """Return the rows of a guard's query with these *labels*."""
    return vector(*(({**row, TAG: part}, value) for row in labels))


def lost_rows(*groups: Mapping[str, str]) -> QueryResult:
    """Return that TARGET fed these *groups* of the first selector."""
    return tagged("l0", *({**TARGET, **group} for group in groups))


class VouchedBackend(ScriptedBackend):
    """Refuses what is not scripted; no target is down until one is."""

    def __init__(self, refusal: Exception, outcomes: Mapping[str, Outcome] | None = None) -> None:
        super().__init__(refusal, {DOWN_TARGETS: vector(), PROBE: vector(({}, "1")), **(outcomes or {})})

    def answer(self, promql: str, rows: Rows, *, age_s: float = 1.0) -> None:
        """Answer *promql* with *rows*, which rest on samples that are *age_s* older than the first tick."""
        inputs = derive_inputs(promql)
        grouping = inputs.grouping
        keys = [
            labels if grouping is None else {name: labels[name] for name in grouping if name in labels}
            for labels, _ in rows
        ]
        self.outcomes[promql] = vector(*rows)
        self.outcomes[freshness_of(promql)] = tagged("a0", *keys, value=str(NOW_S - age_s))

    def lose(self, promql: str, *groups: Mapping[str, str]) -> None:
        """Say that TARGET is down, which fed these *groups* of *promql*."""
        self.outcomes[DOWN_TARGETS] = DOWN
        self.outcomes[lost_of(promql)] = lost_rows(*groups)
