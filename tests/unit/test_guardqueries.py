"""The PromQL of guards: valid, tagged, narrow, and none where there is nothing to ask."""

import re
from collections.abc import Callable

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.guardqueries import (
    build_alive_query,
    build_existed_query,
    build_feeding_query,
    build_freshness_query,
    build_lost_query,
)
from adapter.domain.inputs import Inputs, derive_inputs
from adapter.domain.matchers import Matcher
from adapter.domain.promql import walk_expression
from tests.unit.test_inputs import PROMQL

DOWN = [("queue", "10.0.0.1:80")]
QUERIES = [
    "q",
    'q{job="a"}',
    "q offset 5m",
    "sum by (queue) (q)",
    'sum by ("my.label") ({"my.metric"})',
    "rate(q[5m] offset -1m)",
    "sum(rate(a[5m])) / sum(b)",
    "sum by (job) (q)",
    "sum by (instance, queue) (q or p)",
    "max_over_time(sum(q)[1d:1h])",
]


def ask_age(inputs: Inputs) -> str:
    """Return the freshness query with everything in it."""
    return build_freshness_query(inputs, max_age_s=120.0, with_age=True, with_count=True)


def ask_lost(inputs: Inputs) -> str:
    """Return the lost query for one target."""
    return build_lost_query(inputs, window_s=86_400.0, down=DOWN)


def ask_existed(inputs: Inputs) -> str:
    """Return the existed query for one selector."""
    return build_existed_query(inputs, (Matcher("queue", "=", 'a"b'),), window_s=86_400.0)


BUILDERS: list[Callable[[Inputs], str]] = [ask_age, ask_lost, ask_existed, build_alive_query, build_feeding_query]


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("promql", QUERIES)
def test_guard_query_is_valid_and_its_tags_distinct(promql: str, build: Callable[[Inputs], str]) -> None:
    """Every query parses, every selector has its own tag, and no `or` can hide one row behind another."""
    text = build(derive_inputs(promql))
    promql_parser.parse(text)
    tags = re.findall(r'"depthgauge_part", "(\w+)", "depthgauge_part", ""\)', text)
    assert len(tags) == len(set(tags)) == text.count("label_replace(") == text.count("\nor\n") + 1


@given(PROMQL, st.sampled_from(BUILDERS))
def test_guard_query_is_valid_for_whatever_was_derived(promql: str, build: Callable[[Inputs], str]) -> None:
    """For generated queries too; where nothing was derived, nothing is asked."""
    inputs = derive_inputs(promql)
    text = build(inputs)
    if text:
        promql_parser.parse(text)
    assert bool(text) or not inputs.are_fed_by_targets


@pytest.mark.parametrize(
    ("with_age", "with_count", "expected"),
    [
        pytest.param(False, False, [], id="nothing"),
        pytest.param(True, False, ["a0", "a1"], id="age"),
        pytest.param(False, True, ["c0", "c1"], id="number"),
        pytest.param(True, True, ["a0", "c0", "a1", "c1"], id="both"),
    ],
)
def test_freshness_query_asks_what_is_wanted(with_age: bool, with_count: bool, expected: list[str]) -> None:  # noqa: FBT001
    """One query holds age and number of every selector; without either there is none."""
    text = build_freshness_query(
        derive_inputs("sum(a) / sum(b)"), max_age_s=120.0, with_age=with_age, with_count=with_count
    )
    assert re.findall(r'"([ac]\d)"', text) == expected


@pytest.mark.parametrize("promql", ["vector(0)", "sum(", '{job="a"}'])
def test_nothing_is_asked_about_no_inputs(promql: str) -> None:
    """What cannot be derived costs no query."""
    assert [build(derive_inputs(promql)) for build in BUILDERS] == [""] * len(BUILDERS)


def test_lost_query_leaves_out_what_prometheus_writes_itself() -> None:
    """A rule about `up` is not fed by the target that is down; the other selector keeps its own number."""
    assert ask_lost(derive_inputs("count(up == 1)")) == ""
    text = ask_lost(derive_inputs("count(up == 1) * sum(q)"))
    assert re.findall(r'"(l\d)"', text) == ["l1"]
    assert build_alive_query(derive_inputs("count(up)")) == build_feeding_query(derive_inputs("count(up)")) == ""


def test_freshness_query_groups_as_the_rule_does() -> None:
    """By the labels that carry through, by none for the whole, series by series for a plain selector."""
    assert "min by (job, queue) (timestamp(q{}))" in ask_age(derive_inputs("sum by (queue, job) (q)"))
    assert "min by () (timestamp(q{}))" in ask_age(derive_inputs("topk(1, q)"))
    assert "label_replace(timestamp(q{})," in ask_age(derive_inputs("q"))


def test_freshness_query_looks_back_as_far_as_the_range() -> None:
    """A range has a value long after its series ended; the step is fine enough for the limit, and bounded."""
    text = ask_age(derive_inputs("rate(q[5m] offset 1m)"))
    assert "timestamp(q{} offset 60s) or max_over_time(timestamp(q{})[300s:5s] offset 60s)" in text
    steps = [int(step) for step in re.findall(r":(\d+)s\]", ask_age(derive_inputs("max_over_time(q[30d])")))]
    assert steps == [30 * 86_400 // 500]


def test_lost_query_is_narrowed_to_the_targets_that_are_down() -> None:
    """A look back over a day reads only the series of those targets, each name as literal text."""
    text = build_lost_query(derive_inputs("q"), window_s=60.0, down=[("a|b", "1.2.3.4:80"), ("c", "h")])
    assert r'q{job=~"a\\|b|c",instance=~"1\\.2\\.3\\.4:80|h"}[60s]' in text


def test_lost_query_is_not_narrowed_to_very_many() -> None:
    """A regular expression of hundreds of names would cost more than it saves."""
    down = [("job", f"h{index}") for index in range(51)]
    assert "=~" in build_lost_query(derive_inputs("q"), window_s=60.0, down=down[:50])
    assert "=~" not in build_lost_query(derive_inputs("q"), window_s=60.0, down=down)


def test_lost_query_keeps_group_and_target_apart_from_each_other() -> None:
    """A loss says which target and which group; both labels are kept once, also where the rule groups by them."""
    assert "group by (instance, job, queue)" in ask_lost(derive_inputs("sum by (queue) (q)"))
    assert "group by (instance, job) " in ask_lost(derive_inputs("sum by (job) (q)"))
    assert "group by" not in ask_lost(derive_inputs("q"))


def test_no_guard_query_looks_past_the_selectors_of_the_rule() -> None:
    """Besides `up`, a guard asks about the rule's own metric only."""
    for build in BUILDERS:
        tree = promql_parser.parse(build(derive_inputs("sum by (queue) (rate(q[5m]))")))
        names = {node.name for node in walk_expression(tree) if isinstance(node, promql_parser.VectorSelector)}
        assert names <= {"q", "up"}
