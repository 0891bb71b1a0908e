"""Zero: an empty result is 0 only with evidence, never for what was never there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from adapter.domain.guardqueries import DOWN_TARGETS, build_existed_query
from adapter.domain.inputs import derive_inputs
from adapter.domain.matchers import Matcher
from adapter.domain.promql import parse_template
from adapter.domain.rules import Guards, NamespaceLabel, Rule
from adapter.errors import (
    BackendUnavailable,
    BadQuery,
    Incomplete,
    MetricError,
    NoMatch,
    NoSamples,
    Partial,
    RequirementFailed,
)
from adapter.serving.provider import Question
from tests.support.serving import NOW_S, Desk, Outcome, asynchronous, desk, vector
from tests.support.vouched import TARGET, VouchedBackend, freshness_of, vouched_rule

QUERY = "sum by (queue) (q)"
EVIDENCE = 'up{job="exporter"} == 1'
DOWN_ONLY = 'up{job="exporter"} == 0'
DOWN_OF_EVIDENCE = f'{DOWN_ONLY} or timestamp(up{{job="exporter"}}) < {NOW_S - 120:.3f}'
DOWN_ONE_TICK_LATER = f'{DOWN_ONLY} or timestamp(up{{job="exporter"}}) < {NOW_S - 115:.3f}'
A, B = {"queue": "a"}, {"queue": "b"}
REFUSAL = BadQuery("bad_data", "not in the script")
UP = vector(({"job": "exporter", "instance": "1"}, "1"))
DOWN = vector(({"job": "exporter", "instance": "2"}, "0"))


def zero_rule(query: str = QUERY, evidence: str = EVIDENCE, **fields: Any) -> Rule:
    """Return a rule whose empty result is 0 with evidence."""
    return vouched_rule(query, zero_while=parse_template(evidence), **fields)


def existed(value: str, *, promql: str = QUERY) -> str:
    """Return what is asked about `queue=value`."""
    return build_existed_query(derive_inputs(promql), (Matcher("queue", "=", value),), window_s=86_400.0)


def build_backend(*rows: tuple[Mapping[str, str], str], **outcomes: Outcome) -> VouchedBackend:
    """Return a backend with these queues, whose exporter is up."""
    backend = VouchedBackend(
        REFUSAL, {EVIDENCE: UP, DOWN_ONLY: vector(), DOWN_OF_EVIDENCE: vector(), DOWN_ONE_TICK_LATER: vector()}
    )
    backend.answer(QUERY, list(rows))
    names = {"evidence": EVIDENCE, "down": DOWN_OF_EVIDENCE, "existed": existed("a")}
    backend.outcomes.update({names[name]: outcome for name, outcome in outcomes.items()})
    return backend


async def fail(stage: Desk, selector: str = "") -> MetricError:
    """Return the error that a question gets."""
    with pytest.raises(MetricError) as caught:
        await stage.ask(selector)
    return caught.value


@asynchronous
async def test_z6_drained_queue_is_zero_while_its_exporter_is_up() -> None:
    """Z6: an empty result is one item 0 without labels, at the tick's time."""
    async with desk(build_backend(), zero_rule()) as stage:
        answer = await stage.provider.fetch(Question("app", "depth"))
        assert [(dict(item.labels), item.timestamp_s, str(item.quantity)) for item in answer.items] == [
            ({}, NOW_S, "0")
        ]


@asynchronous
async def test_z6_empty_result_is_an_error_by_default() -> None:
    """Z6: without the key nothing becomes 0."""
    async with desk(build_backend(), vouched_rule(QUERY)) as stage:
        assert isinstance(await fail(stage), NoSamples)


@pytest.mark.parametrize(
    ("evidence", "down"),
    [
        pytest.param(vector(), vector(), id="absent"),
        pytest.param(vector(({}, "0")), vector(), id="zero"),
        pytest.param(vector(({}, "NaN")), vector(), id="nan"),
        pytest.param(UP, DOWN, id="one_of_two_targets_down"),
        pytest.param(vector(), DOWN, id="target_down"),
    ],
)
@asynchronous
async def test_z6_zero_is_refused_without_evidence(evidence: Outcome, down: Outcome) -> None:
    """Z6: missing, 0, NaN, or one of its targets down though another is up."""
    async with desk(build_backend(evidence=evidence, down=down), zero_rule()) as stage:
        error = await fail(stage)
        assert isinstance(error, RequirementFailed)
        assert error.setting == "empty.zeroWhile"


@asynchronous
async def test_z6_down_target_of_the_evidence_is_named() -> None:
    """Z6: what a person has to look at."""
    async with desk(build_backend(down=DOWN), zero_rule()) as stage:
        assert "exporter/2" in (await fail(stage)).describe()


@asynchronous
async def test_zero_is_never_given_while_a_target_is_lost() -> None:
    """The rule's own lost target comes first, whatever the evidence says."""
    backend = build_backend()
    backend.lose(QUERY, A)
    async with desk(backend, zero_rule()) as stage:
        assert isinstance(await fail(stage), Incomplete)
        assert isinstance(await fail(stage, "queue=a"), Incomplete)


@pytest.mark.parametrize("rows", [[], [(B, "7")]], ids=["all_drained", "others_there"])
@asynchronous
async def test_selected_series_is_zero_only_if_it_existed(rows: list[tuple[Mapping[str, str], str]]) -> None:
    """A queue that was there within a day has drained; a typo is NoMatch or NoSamples, never 0."""
    backend = build_backend(*rows, existed=vector(({}, "1")))
    backend.outcomes[existed("typo")] = vector()
    async with desk(backend, zero_rule()) as stage:
        assert await stage.ask("queue=a") == ["0"]
        assert isinstance(await fail(stage, "queue=typo"), NoMatch if rows else NoSamples)
        if rows:
            assert await stage.ask("queue=b") == ["7"]


@asynchronous
async def test_z6_zero_is_never_given_for_a_label_that_the_query_drops() -> None:
    """`sum(q)` cannot tell queue a apart: it existed, and may hold anything; the answer is NoMatch (as in L9)."""
    query = "sum(q)"
    backend = build_backend()
    backend.answer(query, [({}, "100")])
    backend.outcomes[existed("a", promql=query)] = vector(({}, "1"))
    async with desk(backend, zero_rule(query)) as stage:
        error = await fail(stage, "queue=a")
        assert isinstance(error, NoMatch)
        assert error.missing_label == "queue"


@asynchronous
async def test_zero_needs_inputs_to_tell_a_typo_apart() -> None:
    """Where the selectors cannot be derived, only the whole may be 0."""
    query = '{__name__=~"q.*"}'
    backend = build_backend()
    backend.outcomes[query] = vector()
    async with desk(backend, zero_rule(query)) as stage:
        assert await stage.ask() == ["0"]
        assert isinstance(await fail(stage, "queue=a"), NoSamples)


@asynchronous
async def test_zero_of_a_namespace_needs_a_series_of_it() -> None:
    """The rule's own namespace matcher is part of what must have existed."""
    query = "sum by (namespace) (q)"
    matcher = (Matcher("namespace", "=", "app"),)
    asked = build_existed_query(derive_inputs(query), matcher, window_s=86_400.0)
    backend = build_backend()
    backend.answer(query, [])
    for value, expected in (("1", ["0"]), ("0", None)):
        backend.outcomes[asked] = vector(({}, value))
        async with desk(backend, zero_rule(query, namespace=NamespaceLabel("namespace"))) as stage:
            if expected:
                assert await stage.ask() == expected
            else:
                assert isinstance(await fail(stage), NoSamples)


@asynchronous
async def test_pushed_down_rule_is_zero_by_the_same_evidence() -> None:
    """Pushdown: the selectors stand in the query; its emptiness and its existence are asked with them."""
    query = "sum(q{$matchers})"
    sent = 'sum(q{queue="a"})'
    backend = build_backend()
    backend.answer(sent, [])
    backend.outcomes["count(\nsum(q{})\n)"] = vector(({}, "1"))
    asked = build_existed_query(derive_inputs(sent), (Matcher("queue", "=", "a"),), window_s=86_400.0)
    backend.outcomes[asked] = vector(({}, "1"))
    async with desk(backend, zero_rule(query)) as stage:
        assert await stage.ask("queue=a") == ["0"]
        stage.next_tick()
        backend.outcomes[asked] = vector()
        assert isinstance(await fail(stage, "queue=a"), NoMatch)


@pytest.mark.parametrize("which", ["evidence", "down", "existed"])
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(replace(UP, warnings=("store away",)), Partial, id="partial"),
        pytest.param(replace(vector(), is_partial=True), Partial, id="is_partial"),
        pytest.param(REFUSAL, BadQuery, id="refused"),
        pytest.param(BackendUnavailable(detail="refused"), BackendUnavailable, id="unavailable"),
    ],
)
@asynchronous
async def test_zero_is_refused_for_evidence_that_did_not_come_whole(
    which: str, outcome: Outcome, expected: type[MetricError]
) -> None:
    """Half of the evidence is none; a refusal names the key."""
    backend = build_backend(**{"existed": vector(({}, "1")), which: outcome})
    async with desk(backend, zero_rule()) as stage:
        error = await fail(stage, "queue=a")
        assert isinstance(error, expected)
        if isinstance(error, BadQuery):
            assert "(asked by guard empty.zeroWhile)" in error.text


@asynchronous
async def test_zero_is_asked_for_once_a_tick() -> None:
    """Two who ask the same in one tick cost one set of queries."""
    backend = build_backend()
    async with desk(backend, zero_rule()) as stage:
        assert await stage.ask() == await stage.ask() == ["0"]
        assert sorted(stage.queries) == sorted([QUERY, freshness_of(QUERY), DOWN_TARGETS, EVIDENCE, DOWN_OF_EVIDENCE])


@asynchronous
async def test_evidence_is_not_asked_for_while_there_are_samples() -> None:
    """It costs nothing until it is needed."""
    backend = build_backend((A, "5"))
    async with desk(backend, zero_rule()) as stage:
        assert await stage.ask() == ["5"]
        assert backend.count(EVIDENCE) == 0


@asynchronous
async def test_zero_by_evidence_works_with_guards_off() -> None:
    """It is the rule's own PromQL, and needs no derived guard; TARGET being down elsewhere does not matter."""
    backend = build_backend()
    backend.outcomes[DOWN_TARGETS] = vector((TARGET, "0"))
    async with desk(backend, zero_rule(guards=Guards(max_age_s=0, lost_targets_s=0))) as stage:
        assert await stage.ask() == ["0"]
