"""Vouching: what is asked beside a rule's query, how often, and what becomes of answers that are no evidence."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest

from adapter.domain.guardqueries import DOWN_TARGETS
from adapter.domain.promql import parse_template
from adapter.domain.rules import Configuration, Guards, Rule
from adapter.errors import (
    BackendUnavailable,
    BadQuery,
    DeadlineExceeded,
    Incomplete,
    MetricError,
    NoMatch,
    NoSamples,
    Partial,
    RequirementFailed,
    Stale,
    TooManySeries,
)
from adapter.serving.breaker import PROBE, Breaker
from adapter.serving.provider import Provider, Question
from adapter.serving.ticks import TickGrid
from tests.support.serving import (
    HANG,
    NOW_S,
    Desk,
    Outcome,
    ScriptedBackend,
    ShiftedClock,
    asynchronous,
    desk,
    until,
    vector,
)
from tests.support.vouched import (
    DOWN,
    TARGET,
    VouchedBackend,
    alive_of,
    freshness_of,
    lost_of,
    lost_rows,
    tagged,
    vouched_rule,
)

QUERY = "sum by (queue) (q)"
FRESHNESS = freshness_of(QUERY)
LOST = lost_of(QUERY)
ALIVE = alive_of(QUERY)
A, B, C = {"queue": "a"}, {"queue": "b"}, {"queue": "c"}
REFUSAL = BadQuery("bad_data", "not in the script")
SLOW = DeadlineExceeded(deadline_s=5.0)
GONE = BackendUnavailable(detail="connection refused")
WARNED = replace(vector(), warnings=("store 10.0.0.7 unavailable",))
TOLERANT = Guards(tolerate_lost="any")
REQUIRING = Guards(require=parse_template("ok"))


def build_backend(**outcomes: Outcome) -> VouchedBackend:
    """Return a backend with two fresh queues; *outcomes* are of the queries named here."""
    backend = VouchedBackend(REFUSAL)
    backend.answer(QUERY, [(A, "5"), (B, "7")])
    named = {"main": QUERY, "freshness": FRESHNESS, "down": DOWN_TARGETS, "lost": LOST, "alive": ALIVE, "require": "ok"}
    backend.outcomes.update({named[name]: outcome for name, outcome in outcomes.items()})
    return backend


async def fail(stage: Desk, selector: str = "", metric: str = "depth") -> MetricError:
    """Return the error that a question gets."""
    with pytest.raises(MetricError) as caught:
        await stage.ask(selector, metric=metric)
    return caught.value


@asynchronous
async def test_rule_costs_one_more_query_a_tick_and_one_for_its_backend() -> None:
    """Whoever asks and however many: the query, one for age and number, and `up == 0`; an idle rule costs nothing."""
    backend = build_backend()
    async with desk(backend, vouched_rule(QUERY)) as stage:
        answers = await asyncio.gather(*(stage.ask(f"queue={queue}") for queue in "ab" * 50))
        assert answers[:2] == [["5"], ["7"]]
        assert sorted(stage.queries) == sorted([QUERY, FRESHNESS, DOWN_TARGETS])
        stage.next_tick()
        assert len(stage.queries) == 3
        await stage.ask()
        assert len(stage.queries) == 6
        assert {asked.time_s for asked in backend.asked[3:]} == {NOW_S + 5}


@asynchronous
async def test_targets_are_asked_for_once_a_backend_and_tick() -> None:
    """Fifty rules asked at once: `up == 0` is one query, every other is its own."""
    backend = build_backend()
    rules = [vouched_rule(QUERY, f"r{index}") for index in range(50)]
    async with desk(backend, *rules) as stage:
        for tick in (1, 2):
            await asyncio.gather(*(stage.ask(metric=each.name) for each in rules[:20]))
            await asyncio.gather(*(stage.ask(metric=each.name) for each in rules[20:]))
            assert backend.count(DOWN_TARGETS) == tick
            assert backend.count() == tick * (2 * len(rules) + 1)
            stage.next_tick()


@pytest.mark.parametrize(
    ("guards", "query", "expected"),
    [
        pytest.param(Guards(), QUERY, [QUERY, FRESHNESS, DOWN_TARGETS], id="default"),
        pytest.param(Guards(max_age_s=0), QUERY, [QUERY, DOWN_TARGETS], id="no_age"),
        pytest.param(Guards(lost_targets_s=0), QUERY, [QUERY, FRESHNESS], id="no_lost_targets"),
        pytest.param(Guards(max_age_s=0, lost_targets_s=0), QUERY, [QUERY], id="none"),
        pytest.param(
            Guards(max_age_s=0, lost_targets_s=0, min_series=1),
            QUERY,
            [QUERY, freshness_of(QUERY, with_age=False, with_count=True)],
            id="number_only",
        ),
        pytest.param(
            Guards(min_series=1),
            QUERY,
            [QUERY, freshness_of(QUERY, with_count=True), DOWN_TARGETS],
            id="number_rides_along",
        ),
        pytest.param(
            Guards(freshness=parse_template("pushed"), require=parse_template("ok")),
            QUERY,
            [QUERY, "pushed", DOWN_TARGETS, "ok"],
            id="own_promql",
        ),
        pytest.param(Guards(), "count(up == 1)", ["count(up == 1)", freshness_of("count(up == 1)")], id="about_up"),
        pytest.param(Guards(), "vector(3)", ["vector(3)"], id="no_inputs"),
    ],
)
@asynchronous
async def test_guards_ask_what_they_need_and_no_more(guards: Guards, query: str, expected: list[str]) -> None:
    """A guard that is off, cannot be derived or has nothing to lose costs no query."""
    backend = ScriptedBackend(vector(({}, str(NOW_S))))
    async with desk(backend, vouched_rule(query, guards=guards)) as stage:
        with suppress(MetricError):  # what becomes of the answers is not the matter here
            await stage.ask()
        assert sorted(stage.queries) == sorted(expected)


@pytest.mark.parametrize(
    ("guards", "more"),
    [pytest.param(Guards(), [LOST], id="none"), pytest.param(TOLERANT, [LOST, ALIVE], id="tolerant")],
)
@asynchronous
async def test_more_is_asked_only_while_a_target_is_down(guards: Guards, more: list[str]) -> None:
    """Nothing is down: no look back over a day. Something is: one query a rule, two with `tolerateLost: any`."""
    backend = build_backend(lost=vector(), alive=vector())
    async with desk(backend, vouched_rule(QUERY, guards=guards)) as stage:
        await stage.ask()
        assert len(stage.queries) == 3
        backend.outcomes[DOWN_TARGETS] = DOWN
        stage.next_tick()
        assert await stage.ask() == ["5", "7"]
        assert sorted(stage.queries[3:]) == sorted([QUERY, FRESHNESS, DOWN_TARGETS, *more])


@asynchronous
async def test_down_target_without_a_name_cannot_be_joined_and_asks_nothing() -> None:
    """An `up` without job or instance says nothing about any series."""
    backend = build_backend(down=vector(({"instance": "x"}, "0"), ({"job": "x"}, "0")))
    async with desk(backend, vouched_rule(QUERY)) as stage:
        assert await stage.ask() == ["5", "7"]
        assert backend.count() == 3


@asynchronous
async def test_p4_lost_target_fails_the_groups_it_fed_and_no_other() -> None:
    """P4: one shard is down: its groups are Incomplete, naming it, also one that is gone; the others are served."""
    backend = build_backend()
    backend.lose(QUERY, A, C)
    async with desk(backend, vouched_rule(QUERY)) as stage:
        for selector in ("queue=a", "queue=c", "", "queue in (b,c)"):
            error = await fail(stage, selector)
            assert isinstance(error, Incomplete)
            assert error.targets == (f"{TARGET['job']}/{TARGET['instance']}",)
        assert await stage.ask("queue=b") == ["7"]
        assert isinstance(await fail(stage, "queue=d"), NoMatch)
        backend.outcomes[DOWN_TARGETS] = vector()
        stage.next_tick()
        assert await stage.ask() == ["5", "7"]


@asynchronous
async def test_all_targets_lost_is_incomplete_and_not_empty() -> None:
    """Nothing is left of the result: the cause is named, not its consequence."""
    backend = build_backend(main=vector(), freshness=vector())
    backend.lose(QUERY, A, B)
    async with desk(backend, vouched_rule(QUERY)) as stage:
        assert isinstance(await fail(stage), Incomplete)
        assert isinstance(await fail(stage, "queue=a"), Incomplete)
        assert isinstance(await fail(stage, "queue=typo"), NoSamples)


@pytest.mark.parametrize("query", ["sum(q) or vector(0)", "topk(1, sum by (queue) (q))", "sum(a) / sum(b)"])
@asynchronous
async def test_z3_loss_fails_a_rule_as_a_whole_where_groups_cannot_be_told(query: str) -> None:
    """Z3: behind `or vector(0)` the 0 is not the truth, whatever is selected."""
    backend = VouchedBackend(REFUSAL)
    backend.answer(query, [({}, "0")])
    backend.lose(query, {})
    async with desk(backend, vouched_rule(query)) as stage:
        assert isinstance(await fail(stage), Incomplete)
        assert isinstance(await fail(stage, "queue=a"), Incomplete)
        backend.outcomes[DOWN_TARGETS] = vector()
        stage.next_tick()
        assert await stage.ask() == ["0"]


@asynchronous
async def test_loss_of_a_plain_selector_is_selected_like_its_series() -> None:
    """Series by series: the target's own series are missing, the other target's are served."""
    mine, other = {**TARGET, "queue": "a"}, {"job": "shard", "instance": "10.0.0.3:80", "queue": "b"}
    backend = VouchedBackend(REFUSAL)
    backend.answer("q", [(other, "7")])
    backend.lose("q", mine)
    async with desk(backend, vouched_rule("q")) as stage:
        assert isinstance(await fail(stage, "queue=a"), Incomplete)
        assert isinstance(await fail(stage), Incomplete)
        assert await stage.ask("queue=b") == ["7"]


@asynchronous
async def test_pushed_down_rule_misses_only_what_its_selector_names() -> None:
    """The selectors stand in the guards' queries too, so each question has its own losses."""
    rule = vouched_rule("sum(q{$matchers})")
    lost, kept = 'sum(q{queue="a"})', 'sum(q{queue="b"})'
    backend = VouchedBackend(REFUSAL)
    backend.answer(lost, [({}, "5")])
    backend.answer(kept, [({}, "7")])
    backend.lose(lost, {})
    backend.outcomes[lost_of(kept)] = vector()
    async with desk(backend, rule) as stage:
        assert isinstance(await fail(stage, "queue=a"), Incomplete)
        assert await stage.ask("queue=b") == ["7"]
        assert backend.count(DOWN_TARGETS) == 1


@asynchronous
async def test_tolerated_loss_is_served_while_another_target_feeds_the_group() -> None:
    """Redundant exporters: a is fed by another one still, c by none."""
    backend = build_backend(down=DOWN, lost=lost_rows(A, C), alive=tagged("u0", A, B))
    async with desk(backend, vouched_rule(QUERY, guards=TOLERANT)) as stage:
        assert await stage.ask("queue=a") == ["5"]
        assert isinstance(await fail(stage, "queue=c"), Incomplete)


@asynchronous
async def test_s5_stale_group_fails_only_those_who_select_it() -> None:
    """S5: one stale queue among a thousand; the key that allows its age is named."""
    queues = [({"queue": f"q{index}"}, str(index)) for index in range(1000)]
    backend = VouchedBackend(REFUSAL)
    backend.answer(QUERY, queues)
    fresh = tagged("a0", *(labels for labels, _ in queues[1:]), value=str(NOW_S - 1))
    old = tagged("a0", queues[0][0], value=str(NOW_S - 240))
    backend.outcomes[FRESHNESS] = replace(fresh, samples=(*fresh.samples, *old.samples))
    async with desk(backend, vouched_rule(QUERY)) as stage:
        answers = await asyncio.gather(*(stage.ask(f"queue=q{index}") for index in range(1, 1000)))
        assert answers == [[each] for each in map(str, range(1, 1000))]
        error = await fail(stage, "queue=q0")
        assert isinstance(error, Stale)
        assert (error.age_s, error.labels) == (240.0, {"queue": "q0"})
        assert "guards.maxAge" in error.describe()
        assert isinstance(await fail(stage), Stale)
        assert backend.count() == 3


@asynchronous
async def test_item_has_the_time_of_its_oldest_sample() -> None:
    """Never the time of evaluation."""
    backend = build_backend()
    async with desk(backend, vouched_rule(QUERY)) as stage:
        answer = await stage.provider.fetch(Question("app", "depth", "queue=a"))
        assert [item.timestamp_s for item in answer.items] == [NOW_S - 1]


@pytest.mark.parametrize("outcome", [GONE, REFUSAL, WARNED], ids=["unavailable", "refused", "partial"])
@asynchronous
async def test_errors_of_the_query_itself_come_first(outcome: Outcome) -> None:
    """All is asked at once; whichever fails besides, the cause nearest to the value is told."""
    backend = build_backend(main=vector((A, "1"), (B, "2")), freshness=outcome, down=outcome, require=outcome)
    guards = replace(REQUIRING, max_series=1)
    async with desk(backend, vouched_rule(QUERY, guards=guards)) as stage:
        assert isinstance(await fail(stage), TooManySeries)
        assert backend.count() - backend.count(PROBE) == 4


@pytest.mark.parametrize(
    ("outcomes", "guards", "guard"),
    [
        pytest.param({"freshness": REFUSAL}, Guards(), "freshness", id="freshness"),
        pytest.param({"down": REFUSAL}, Guards(), "lostTargets", id="down"),
        pytest.param({"down": DOWN, "lost": REFUSAL}, Guards(), "lostTargets", id="lost"),
        pytest.param({"down": DOWN, "lost": vector(), "alive": REFUSAL}, TOLERANT, "tolerateLost", id="alive"),
        pytest.param({"require": REFUSAL}, REQUIRING, "require", id="require"),
        pytest.param({}, Guards(freshness=parse_template("no such")), "freshness", id="own_freshness"),
    ],
)
@asynchronous
async def test_refused_guard_query_names_its_guard(outcomes: dict[str, Outcome], guards: Guards, guard: str) -> None:
    """The rule's own query is good: the message must not send people to it."""
    async with desk(build_backend(**outcomes), vouched_rule(QUERY, guards=guards)) as stage:
        error = await fail(stage)
        assert isinstance(error, BadQuery)
        assert f"(asked by guard {guard})" in error.text


_PARTIAL = [
    pytest.param({"freshness": WARNED}, Guards(), id="freshness"),
    pytest.param({"freshness": replace(vector(), is_partial=True)}, Guards(), id="is_partial"),
    pytest.param({"down": WARNED}, Guards(), id="down"),
    pytest.param({"down": DOWN, "lost": WARNED}, Guards(), id="lost"),
    pytest.param({"down": DOWN, "lost": lost_rows(A), "alive": WARNED}, TOLERANT, id="alive"),
    pytest.param({"require": replace(vector(({}, "1")), warnings=("w",))}, REQUIRING, id="require"),
]


@pytest.mark.parametrize(("outcomes", "guards"), _PARTIAL)
@asynchronous
async def test_p1_partial_guard_answer_is_no_evidence(outcomes: dict[str, Outcome], guards: Guards) -> None:
    """P1: a guard that sees a part only has not seen; unless the rule takes partial answers."""
    async with desk(build_backend(**outcomes), vouched_rule(QUERY, guards=guards)) as stage:
        assert isinstance(await fail(stage, "queue=b"), Partial)
    allowing = vouched_rule(QUERY, guards=replace(guards, allow_partial=True, max_age_s=0))
    async with desk(build_backend(**outcomes), allowing) as stage:
        assert await stage.ask("queue=b") == ["7"]


@pytest.mark.parametrize(
    ("result", "is_met"),
    [
        pytest.param(vector(({}, "1")), True, id="one"),
        pytest.param(vector(({}, "0.5"), ({"a": "b"}, "-3")), True, id="other_numbers"),
        pytest.param(vector(({}, "+Inf")), True, id="infinite"),
        pytest.param(vector(), False, id="empty"),
        pytest.param(vector(({}, "0")), False, id="zero"),
        pytest.param(vector(({}, "-0")), False, id="minus_zero"),
        pytest.param(vector(({}, "NaN")), False, id="nan"),
        pytest.param(vector(({}, "1"), ({"a": "b"}, "0")), False, id="one_of_two"),
    ],
)
@asynchronous
async def test_requirement_is_met_by_values_that_are_not_zero(result: Outcome, is_met: bool) -> None:  # noqa: FBT001
    """`require`: an empty result, 0 or NaN anywhere means: do not scale on this."""
    async with desk(build_backend(require=result), vouched_rule(QUERY, guards=REQUIRING)) as stage:
        if is_met:
            assert await stage.ask("queue=a") == ["5"]
        else:
            error = await fail(stage, "queue=a")
            assert isinstance(error, RequirementFailed)
            assert error.setting == "guards.require"


@asynchronous
async def test_p4_too_few_inputs_are_incomplete() -> None:
    """P4: `minSeries` counts what the selectors select, not what the result has."""
    counted = freshness_of(QUERY, with_count=True)
    backend = build_backend()
    ages, number = tagged("a0", A, B, value=str(NOW_S)), tagged("c0", {}, value="2")
    backend.outcomes[counted] = replace(ages, samples=(*ages.samples, *number.samples))
    for least, is_enough in ((2, True), (3, False)):
        async with desk(backend, vouched_rule(QUERY, guards=Guards(min_series=least))) as stage:
            if is_enough:
                assert await stage.ask("queue=a") == ["5"]
            else:
                error = await fail(stage, "queue=a")
                assert isinstance(error, Incomplete)
                assert (error.series, error.least) == (2, 3)


@pytest.mark.parametrize("values", [("-1", "3"), ("3", "-1")], ids=["bad_first", "good_first"])
@asynchronous
async def test_n8_negative_series_fails_those_who_select_it_in_either_order(values: tuple[str, str]) -> None:
    """N8: one bad item fails the whole answer, never a partial list; who selects the good one is served."""
    backend = VouchedBackend(REFUSAL)
    labels = [A, B] if values[0] == "-1" else [B, A]
    backend.answer(QUERY, list(zip(labels, values, strict=True)))
    async with desk(backend, vouched_rule(QUERY)) as stage:
        assert (await fail(stage)).reason == "Negative"
        assert (await fail(stage, "queue=a")).reason == "Negative"
        assert await stage.ask("queue=b") == ["3"]
    async with desk(backend, vouched_rule(QUERY, negative="clamp")) as stage:
        assert await stage.ask() == ["0", "3"]


@asynchronous
async def test_everything_is_asked_at_once() -> None:
    """A question takes one deadline, not one for each guard; the lost query and its like come after, together."""
    rule = vouched_rule(QUERY, guards=replace(REQUIRING, tolerate_lost="any"))
    backend = build_backend(main=HANG, freshness=HANG, down=HANG, require=HANG, lost=HANG, alive=HANG)
    async with desk(backend, rule) as stage:
        asking = asyncio.create_task(stage.ask("queue=b"))
        await until(lambda: backend.running == 4)
        good = build_backend(require=vector(({}, "1")), down=DOWN).outcomes
        backend.outcomes.update({name: good[name] for name in (QUERY, FRESHNESS, DOWN_TARGETS, "ok")})
        backend.change()
        await until(lambda: backend.count(LOST) == backend.count(ALIVE) == backend.running - 1 == 1)
        backend.outcomes.update({LOST: lost_rows(A), ALIVE: tagged("u0", B)})
        backend.change()
        assert await asking == ["7"]
        assert backend.count() == 6


@asynccontextmanager
async def narrow(backend: ScriptedBackend, *rules: Rule, places: int, timeout_s: float = 5.0) -> AsyncIterator[Desk]:
    """Provide a Desk whose backend has few places."""
    stage = Desk(backend, *rules)
    breaker = Breaker(backend, ShiftedClock(), timeout_s=timeout_s, places=places)
    stage.provider = Provider(
        Configuration(backends={}, rules={each.name: each for each in rules}),
        breakers={"default": breaker},
        grid=TickGrid(stage.clock, 5.0),
    )
    try:
        yield stage
    finally:
        await stage.aclose()
        await breaker.aclose()


@pytest.mark.parametrize("places", [1, 2, 3])
@asynchronous
async def test_one_rules_queries_fit_into_few_places(places: int) -> None:
    """With `maxConcurrency: 1` too, a rule with every guard is answered and not Overloaded by its own questions."""
    guards = replace(REQUIRING, tolerate_lost="any", freshness=parse_template("pushed"))
    backend = build_backend(require=vector(({}, "1")), down=DOWN, lost=vector(), alive=vector())
    backend.outcomes["pushed"] = vector(({}, str(NOW_S)))
    async with narrow(backend, vouched_rule(QUERY, guards=guards), places=places) as stage:
        assert await stage.ask("queue=b") == ["7"]
        assert backend.most_running <= places


@asynchronous
async def test_resting_rule_fails_no_other_rules_guard() -> None:
    """Rule a is slow and rests, and is the first to ask in a tick: `up == 0` is not asked in its name."""
    backend = build_backend()
    backend.outcomes["slow"] = SLOW
    async with desk(backend, vouched_rule("slow", "a"), vouched_rule(QUERY, "b")) as stage:
        backend.outcomes[freshness_of("slow")] = vector()
        assert await fail(stage, metric="a") is SLOW
        stage.clock.advance(1.0)
        stage.clock.wall_s = NOW_S + 5
        assert await fail(stage, metric="a") is SLOW
        assert backend.count("slow") == 1, "it rests"
        assert await stage.ask("queue=b", metric="b") == ["7"]
        assert backend.count(DOWN_TARGETS) == 2


@asynchronous
async def test_slow_question_for_targets_lets_no_rule_rest() -> None:
    """`up == 0` rests by itself: until it answers again no rule is served, and then every rule is at once."""
    backend = build_backend(down=SLOW)
    async with desk(backend, vouched_rule(QUERY, "a"), vouched_rule(QUERY, "b")) as stage:
        for tick, rules in enumerate((["a", "b"], ["b", "a"])):
            stage.clock.wall_s = NOW_S + 5 * tick
            for metric in rules:
                assert await fail(stage, metric=metric) is SLOW
        assert backend.count(DOWN_TARGETS) == 1, "it rests"
        assert backend.count(QUERY) == 4, "the rules do not"
        backend.outcomes[DOWN_TARGETS] = vector()
        stage.clock.advance(10.0)
        assert await stage.ask("queue=a", metric="b") == ["5"]
        assert await stage.ask("queue=a", metric="a") == ["5"]


@asynchronous
async def test_slow_guard_rests_with_growing_distance_though_the_query_answers() -> None:
    """The rule's own success does not end its guard's rest, nor the guard's success the rule's."""
    for slow, fast in ((FRESHNESS, QUERY), (QUERY, FRESHNESS)):
        backend = build_backend()
        good, backend.outcomes[slow] = backend.outcomes[slow], SLOW
        async with desk(backend, vouched_rule(QUERY)) as stage:
            for waited_s, asked in ((0, 1), (5, 2), (5, 2), (5, 3), (15, 3), (5, 4)):
                stage.clock.advance(waited_s)
                assert await fail(stage) is SLOW
                assert backend.count(slow) == asked, (slow, waited_s)
            assert backend.count(fast) == (6 if fast is QUERY else 4)
            backend.outcomes[slow] = good
            stage.clock.advance(60.0)
            backend.answer(QUERY, [(A, "5"), (B, "7")], age_s=-100.0)
            assert await stage.ask() == ["5", "7"]
