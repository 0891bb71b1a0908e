"""Standing: what `explain` and `check --live` say of each guard."""

from dataclasses import replace

import pytest

from adapter.domain.derivability import find_underived
from adapter.domain.evidence import Age, Evidence, Loss
from adapter.domain.inputs import derive_inputs
from adapter.domain.lint import lint_rule
from adapter.domain.promql import parse_template
from adapter.domain.rules import Guards
from adapter.domain.standing import Standing, list_standings
from tests.support.serving import NOW_S
from tests.support.vouched import vouched_rule

SEEN = Evidence(
    tick_s=NOW_S,
    inputs=derive_inputs("sum by (queue) (q)"),
    is_aged=True,
    ages={(("queue", "a"),): Age(NOW_S - 3, 3.0), (("queue", "b"),): Age(NOW_S - 90, 90.0)},
    input_series=4,
)
RULE = vouched_rule("sum by (queue) (q)", guards=Guards(min_series=3, require=parse_template("ok")))


def judge(evidence: Evidence = SEEN, guards: Guards = RULE.guards, feeding: list[str] | None = None) -> list[Standing]:
    """Return how the guards stand."""
    return list(list_standings(replace(RULE, guards=guards), evidence, feeding=feeding))


def test_standing_tells_value_and_limit_of_every_guard() -> None:
    """How close each is to tripping, in its own unit."""
    assert [(each.guard, each.state, each.seen, each.limit) for each in judge(feeding=["j/1", "j/2"])] == [
        ("maxAge", "active", 90.0, 120.0),
        ("lostTargets", "active", 0, 0),
        ("minSeries", "active", 4, 3),
        ("require", "active", None, None),
    ]
    assert [str(each) for each in judge(feeding=["j/1", "j/2"])] == [
        "maxAge: the oldest of 2 is 90.0 s old; at most 120 s",
        "lostTargets: fed by 2 target(s): j/1, j/2; no target is down",
        "minSeries: 4 input series; at least 3",
        "require: met: ok",
    ]


def test_standing_of_guards_that_are_off() -> None:
    """What is off is said to be off."""
    off = Guards(max_age_s=0, lost_targets_s=0)
    assert [str(each) for each in judge(guards=off)] == ["maxAge: off", "lostTargets: off", "minSeries: off"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        pytest.param('{__name__=~"q.*"}', "by an expression", id="name"),
        pytest.param("q @ 5", "pinned", id="at"),
        pytest.param("sum(", "cannot be parsed", id="not_parsed"),
    ],
)
def test_standing_of_guards_that_cannot_be_derived(query: str, words: str) -> None:
    """The reason is told, and the same guards are named by the self-metric's source."""
    inputs = derive_inputs(query)
    standings = judge(Evidence(tick_s=NOW_S, inputs=inputs), Guards(min_series=1))
    assert {each.guard for each in standings if each.state == "not derivable"} == {"maxAge", "lostTargets", "minSeries"}
    assert all(words in each.detail for each in standings)
    assert set(find_underived(vouched_rule(query, guards=Guards(min_series=1)))) == {
        "maxAge",
        "lostTargets",
        "minSeries",
    }


@pytest.mark.parametrize(
    ("evidence", "feeding", "state", "words"),
    [
        pytest.param(SEEN, [], "blind", "no scrape target with an `up` feeds it", id="blind"),
        pytest.param(replace(SEEN, ages={}), [], "active", "no target is down", id="nothing_there"),
        pytest.param(SEEN, None, "active", "no target is down", id="not_asked"),
        pytest.param(
            replace(SEEN, targets_down=2), None, "active", "2 target(s) down, none of which", id="others_down"
        ),
        pytest.param(
            replace(SEEN, targets_down=2, losses=[Loss("j/1", {})]), [], "active", "down: j/1", id="lost_and_no_other"
        ),
        pytest.param(
            replace(SEEN, inputs=derive_inputs("count(up)")), None, "active", "nothing to lose", id="about_up"
        ),
    ],
)
def test_standing_of_lost_targets(evidence: Evidence, feeding: list[str] | None, state: str, words: str) -> None:
    """Fed by nobody is told apart from lost, from empty and from not asked."""
    standing = judge(evidence, feeding=feeding)[1]
    assert standing.state == state
    assert words in standing.detail


def test_standing_of_own_freshness() -> None:
    """Where the rule says what is fresh, so does the line."""
    told = replace(SEEN, ages={}, told=[({}, Age(NOW_S - 7, 7.0))])
    assert str(judge(told)[0]) == "maxAge: the oldest of 1 is 7.0 s old by guards.freshness; at most 120 s"


def test_recorded_series_are_told_with_what_was_seen() -> None:
    """They have an age, but it is not the one that matters."""
    recorded = replace(SEEN, inputs=derive_inputs("job:q:sum"))
    assert all("looks recorded" in str(each) for each in judge(recorded)[:2])


@pytest.mark.parametrize(
    ("guards", "codes"),
    [
        pytest.param(Guards(), ["recorded-series"], id="default"),
        pytest.param(
            Guards(freshness=parse_template("f"), require=parse_template("r")), [], id="with_the_ways_out_taken"
        ),
        pytest.param(Guards(max_age_s=0, lost_targets_s=0), [], id="off"),
        pytest.param(Guards(freshness=parse_template("f")), ["recorded-series"], id="half_of_them"),
    ],
)
def test_lint_names_guards_without_effect_until_the_way_out_is_taken(guards: Guards, codes: list[str]) -> None:
    """A warning that nothing can silence is soon read by nobody."""
    found = lint_rule(vouched_rule("job:q:sum", guards=guards))
    assert [each.code for each in found] == codes
    assert all("guards.freshness" in each.message and "guards.require" in each.message for each in found)
