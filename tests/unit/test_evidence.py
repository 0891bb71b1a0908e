"""Evidence: how old what stands behind a value is, and what of it is lost."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.evidence import (
    Age,
    Evidence,
    Loss,
    check_complete,
    check_fresh,
    check_number_of_inputs,
    count_inputs,
    read_ages,
    read_losses,
    read_told_ages,
)
from adapter.domain.guardqueries import TAG
from adapter.domain.inputs import derive_inputs
from adapter.domain.rules import Guards, Rule
from adapter.domain.samples import Sample
from adapter.errors import BackendRefused, Incomplete, Stale
from tests.support.serving import NOW_S, rule

A, B = {"queue": "a"}, {"queue": "b"}
DEPTH = replace(rule("q"), guards=Guards())


def row(part: str, labels: Mapping[str, str], value: float | str) -> Sample:
    """Return a row of a guard's query."""
    return Sample({**labels, TAG: part}, str(value), NOW_S)


def aged(promql: str, *rows: Sample) -> Evidence:
    """Return the evidence that *rows* are about *promql*."""
    inputs = derive_inputs(promql)
    return Evidence(tick_s=NOW_S, inputs=inputs, is_aged=True, ages=read_ages(rows, inputs, NOW_S))


def told(*rows: tuple[Mapping[str, str], float]) -> Evidence:
    """Return the evidence of a rule's own freshness query."""
    samples = [Sample(labels, str(value), NOW_S) for labels, value in rows]
    return Evidence(tick_s=NOW_S, is_aged=True, told=read_told_ages(samples, NOW_S))


def check(evidence: Evidence, labels: Mapping[str, str] = A, of: Rule = DEPTH) -> float:
    """Return the timestamp of the series with *labels*, evaluated now."""
    return check_fresh(Sample(labels, "5", NOW_S), of, evidence)


def test_oldest_of_two_selectors_wins_whichever_comes_first() -> None:
    """Of two selectors with equal labels one is stale: the value is, in every order of the rows."""
    rows = [row("a0", A, NOW_S - 1), row("a1", A, NOW_S - 300), row("a1", B, NOW_S - 2)]
    for order in permutations(rows):
        evidence = aged("sum by (queue) (a or b)", *order)
        with pytest.raises(Stale) as caught:
            check(evidence)
        assert (caught.value.age_s, caught.value.limit_s, caught.value.labels) == (300.0, 120.0, A)
        assert check(evidence, B) == NOW_S - 2


def test_age_at_the_limit_is_good_and_beyond_it_is_not() -> None:
    """The limit itself passes, and the timestamp is the sample's, not the tick's."""
    assert check(aged("q", row("a0", A, NOW_S - 120))) == NOW_S - 120
    with pytest.raises(Stale) as caught:
        check(aged("q", row("a0", A, NOW_S - 120.5)))
    assert caught.value.age_s == 120.5
    assert "guards.maxAge" in caught.value.describe()


def test_value_without_a_row_is_stale() -> None:
    """No sample behind a value is never fresh; one group's row says nothing of another's."""
    for evidence in (aged("q"), aged("sum by (queue) (q)", row("a0", B, NOW_S))):
        with pytest.raises(Stale) as caught:
            check(evidence)
        assert caught.value.age_s is None
        assert "no sample behind it" in caught.value.describe()


def test_value_without_a_row_passes_only_where_the_query_can_make_it() -> None:
    """`or vector(0)` is lost targets' case; but an old row of it is still old."""
    assert check(aged("sum(q) or vector(0)"), {}) == NOW_S
    with pytest.raises(Stale):
        check(aged("sum(q) or vector(0)", row("a0", {}, NOW_S - 500)), {})


def test_s5_group_is_judged_by_its_own_labels_only() -> None:
    """S5: of two groups the stale one is refused, the other served; labels beyond the grouping do not matter."""
    evidence = aged("sum by (queue) (q)", row("a0", A, NOW_S - 240), row("a0", B, NOW_S - 3))
    with pytest.raises(Stale):
        check(evidence)
    assert check(evidence, B) == NOW_S - 3
    assert check(evidence, A, replace(DEPTH, guards=Guards(max_age_s=600.0))) == NOW_S - 240


def test_whole_rule_has_one_age_whatever_the_labels() -> None:
    """Where nothing carries through, every series has the oldest age."""
    evidence = aged("topk(2, q)", row("a0", {}, NOW_S - 240))
    for labels in (A, B, {}):
        with pytest.raises(Stale):
            check(evidence, labels)


@pytest.mark.parametrize(("offset", "seconds"), [("1h", 3600), ("-1m", -60)])
def test_z8_offset_is_not_age(offset: str, seconds: float) -> None:
    """Z8: what lies an hour back on purpose is as fresh as what was newest then; no item is later than its tick."""
    query = f"q offset {offset}"
    taken_s = NOW_S - seconds - 5
    assert check(aged(query, row("a0", A, taken_s))) == min(taken_s, NOW_S)
    with pytest.raises(Stale) as caught:
        check(aged(query, row("a0", A, taken_s - 200)))
    assert caught.value.age_s == 205.0


def test_switched_off_age_is_the_tick() -> None:
    """Without the guard a value is as old as its evaluation."""
    assert check(Evidence(tick_s=NOW_S)) == NOW_S


def test_s1_told_age_is_of_the_rows_whose_labels_agree() -> None:
    """S1: the rule's own freshness: the oldest row that agrees in every common label; none is Stale."""
    evidence = told(({"queue": "a", "pod": "1"}, NOW_S - 10), ({"queue": "a", "pod": "2"}, NOW_S - 20), (B, NOW_S))
    assert check(evidence) == NOW_S - 20
    assert check(evidence, {"queue": "a", "pod": "1"}) == NOW_S - 10
    assert check(evidence, {}) == NOW_S - 20
    with pytest.raises(Stale) as caught:
        check(evidence, {"queue": "c"})
    assert caught.value.age_s is None
    with pytest.raises(Stale) as caught:
        check(told(({}, NOW_S - 3600)))
    assert "3600 s old" in caught.value.describe()


_LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


@given(st.lists(st.tuples(_LABELS, st.integers(0, 100)), max_size=8), st.lists(_LABELS, min_size=1, max_size=4))
def test_told_age_is_what_comparing_row_by_row_gives(
    rows: list[tuple[dict[str, str], int]], items: list[dict[str, str]]
) -> None:
    """The index answers as the definition does: the oldest row none of whose common labels differs."""
    evidence = told(*((labels, NOW_S - age_s) for labels, age_s in rows))
    for item in items:
        agreeing = [age_s for row, age_s in rows if all(item.get(name, value) == value for name, value in row.items())]
        found = evidence.find_age(item)
        assert (None if found is None else found.age_s) == (max(agreeing) if agreeing else None)


def test_told_age_does_not_excuse_a_query_that_can_make_values() -> None:
    """Who writes `freshness` wants it to be there, behind `or vector(0)` too."""
    with pytest.raises(Stale):
        check(replace(told(), inputs=derive_inputs("sum(q) or vector(0)")))


def test_told_time_far_ahead_is_refused_and_a_little_ahead_is_now() -> None:
    """Milliseconds would never grow old; a clock that is a little ahead gives no timestamp after the tick."""
    assert check(told((A, NOW_S + 30))) == NOW_S
    with pytest.raises(Stale) as caught:
        check(told((A, NOW_S * 1000)))
    assert "ahead" in caught.value.describe()
    assert "Unix seconds" in caught.value.describe()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "soon"])
def test_time_that_is_no_number_is_refused(value: str) -> None:
    """A guard that cannot read its answer does not pass."""
    with pytest.raises(BackendRefused):
        aged("q", row("a0", A, value))
    with pytest.raises(BackendRefused):
        read_told_ages([Sample(A, value, NOW_S)], NOW_S)


def test_rows_of_other_tags_are_no_ages() -> None:
    """A number, a row without a tag or with another's is not a time; the series' own labels may look like ours."""
    inputs = derive_inputs("q")
    rows = [row("c0", A, 1), row("a7", A, 1), row("abc", A, 1), Sample(A, "1", NOW_S), row("a0", B, NOW_S)]
    assert list(read_ages(rows, inputs, NOW_S).values()) == [Age(NOW_S, 0.0)]
    assert count_inputs([row("c0", {}, "2"), row("c1", {}, "3"), row("a0", A, NOW_S)]) == 5


def test_p4_fewer_inputs_than_asked_for_are_incomplete() -> None:
    """P4: two series where three must be; none at all is fewer too."""
    counted = replace(DEPTH, guards=Guards(min_series=3))
    check_number_of_inputs(3, counted)
    for series in (2, 0):
        with pytest.raises(Incomplete) as caught:
            check_number_of_inputs(series, counted)
        assert (caught.value.series, caught.value.least) == (series, 3)


def lost(part: str, target: str, labels: Mapping[str, str]) -> Sample:
    """Return a row of the lost query."""
    return row(part, {"job": "s", "instance": target, **labels}, 1)


def test_losses_are_one_for_each_target_and_group() -> None:
    """A target that feeds two selectors of a group is lost once."""
    inputs = derive_inputs("sum by (queue) (a or b)")
    rows = [lost("l0", "1", A), lost("l1", "1", A), lost("l0", "1", B), lost("l0", "2", A)]
    for order in permutations(rows):
        found = {(loss.target, loss.labels["queue"]) for loss in read_losses(order, None, inputs)}
        assert found == {("s/1", "a"), ("s/1", "b"), ("s/2", "a")}
        assert len(read_losses(order, None, inputs)) == 3


def test_loss_of_a_plain_selector_is_its_series() -> None:
    """Its labels are the series' own, so that a request's selector finds it."""
    assert read_losses([lost("l0", "1", A)], None, derive_inputs("q")) == [
        Loss("s/1", {"job": "s", "instance": "1", "queue": "a"})
    ]


def test_tolerated_loss_is_one_of_a_group_that_another_target_feeds() -> None:
    """`tolerateLost: any`: a group is lost when nobody is left who feeds it."""
    inputs = derive_inputs("max by (queue) (q)")
    rows = [lost("l0", "1", A), lost("l0", "1", B)]
    assert [loss.labels for loss in read_losses(rows, [row("u0", A, 1)], inputs)] == [B]
    assert read_losses(rows, [row("u0", A, 1), row("u0", B, 1)], inputs) == []
    assert len(read_losses(rows, [], inputs)) == 2


def test_living_target_of_one_selector_excuses_no_other_selector() -> None:
    """In `sum(a) + (sum(b) or vector(0))` the exporter of a being up does not make b's 0 true."""
    inputs = derive_inputs("sum(a) + (sum(b) or vector(0))")
    assert len(read_losses([lost("l1", "1", {})], [row("u0", {}, 1)], inputs)) == 1
    assert read_losses([lost("l1", "1", {})], [row("u1", {}, 1)], inputs) == []


def test_incomplete_names_every_target_once_in_order() -> None:
    """What a person reads is the targets, not the groups."""
    with pytest.raises(Incomplete) as caught:
        check_complete([Loss("s/2", A), Loss("s/1", B), Loss("s/2", B)])
    assert caught.value.targets == ("s/1", "s/2")
    check_complete([])
