"""Pushdown: selectors go into the query, one query for each distinct set of them, and empty answers are explained."""

import asyncio

import pytest

from adapter.domain.rules import Guards, NamespaceLabel
from adapter.domain.samples import QueryResult
from adapter.errors import (
    BackendUnavailable,
    BadQuery,
    Negative,
    NoMatch,
    NoSamples,
    Partial,
    TooManySeries,
    UnmappedLabel,
)
from tests.support.serving import HANG, NOW_S, ScriptedBackend, asynchronous, desk, rule, settle, until, vector

ONE = vector(({}, "5"))
COUNT = "count(\nsum(q{})\n)"


@asynchronous
async def test_pushdown_asks_once_for_each_distinct_selector() -> None:
    """The same selector, however spelled, is one query a tick; another selector is another query."""
    backend = ScriptedBackend(ONE, {'sum(q{queue="b"})': vector(({}, "7"))})
    async with desk(backend, rule("sum(q{$matchers})")) as stage:
        spellings = ["queue=a", "queue==a", "queue in (a)", " queue = a "]
        assert await asyncio.gather(*(stage.ask(text) for text in spellings * 20)) == [["5"]] * 80
        assert await stage.ask("queue=b") == ["7"]
        assert await stage.ask("queue=a") == ["5"]
        assert stage.queries == ['sum(q{queue="a"})', 'sum(q{queue="b"})']
        assert {asked.time_s for asked in backend.asked} == {NOW_S}
        stage.next_tick()
        await stage.ask("queue=a")
        assert stage.queries[2:] == ['sum(q{queue="a"})']


@asynchronous
async def test_l10_pushdown_without_a_selector_asks_without_the_comma() -> None:
    """L10: a global rule without selectors is plain PromQL."""
    async with desk(ScriptedBackend(ONE), rule('q{$matchers,vhost="/"}')) as stage:
        assert await stage.ask() == ["5"]
        assert stage.queries == ['q{vhost="/"}']


@asynchronous
async def test_pushdown_adds_the_namespace_of_the_request() -> None:
    """NS1: each namespace is a query of its own, and an empty one says what was added."""
    backend = ScriptedBackend(vector(), {'q{namespace="app"}': ONE})
    async with desk(backend, rule("q{$matchers}", namespace=NamespaceLabel("namespace"))) as stage:
        assert await stage.ask(namespace="app") == ["5"]
        with pytest.raises(NoSamples) as caught:
            await stage.ask(namespace="nsq")
        assert '{namespace="nsq"}' in caught.value.describe()


@asynchronous
async def test_pushdown_renders_namespace_and_matchers_together() -> None:
    """`$namespace` beside `$matchers` is the asking namespace, and part of what makes a query distinct."""
    async with desk(ScriptedBackend(ONE), rule("q{ns=$namespace,$matchers}")) as stage:
        await stage.ask("queue=a", namespace="x")
        await stage.ask("queue=a", namespace="y")
        assert stage.queries == ['q{ns="x",queue="a"}', 'q{ns="y",queue="a"}']


@asynchronous
async def test_empty_answer_is_no_match_where_the_rule_has_other_series() -> None:
    """One count a tick, shared by all empty selectors, tells a typo from nothing there."""
    backend = ScriptedBackend(vector(), {COUNT: vector(({}, "3"))})
    async with desk(backend, rule("sum(q{$matchers})")) as stage:
        for text in ("queue=x", "queue=y", "queue=x"):
            with pytest.raises(NoMatch) as caught:
                await stage.ask(text)
            assert caught.value.series == 3
            assert caught.value.wanted == f'{{queue="{text[-1]}"}}'
        assert stage.queries.count(COUNT) == 1
        assert stage.backend.count() == 3
        assert {asked.time_s for asked in backend.asked} == {NOW_S}
        stage.next_tick()
        with pytest.raises(NoMatch):
            await stage.ask("queue=x")
        assert stage.queries.count(COUNT) == 2


@asynchronous
async def test_empty_answer_is_no_samples_where_the_rule_has_none() -> None:
    """Nothing there at all is NoSamples, with the matchers that were added."""
    async with desk(ScriptedBackend(vector()), rule("sum(q{$matchers})")) as stage:
        with pytest.raises(NoSamples) as caught:
            await stage.ask("queue=x")
        assert caught.value.added == '{queue="x"}'
        assert stage.queries == ['sum(q{queue="x"})', COUNT]


@asynchronous
async def test_empty_answer_without_a_selector_needs_no_count() -> None:
    """There is nothing to tell apart."""
    async with desk(ScriptedBackend(vector()), rule("sum(q{$matchers})")) as stage:
        with pytest.raises(NoSamples):
            await stage.ask()
        assert stage.queries == ["sum(q{})"]


@asynchronous
async def test_empty_answer_stays_no_samples_where_the_count_fails() -> None:
    """The query did come back empty: a failing count only costs the better message."""
    backend = ScriptedBackend(vector(), {COUNT: BackendUnavailable(detail="503")})
    async with desk(backend, rule("sum(q{$matchers})")) as stage:
        with pytest.raises(NoSamples):
            await stage.ask("queue=x")


@pytest.mark.parametrize("text", ["queue=", "queue in ()", "a=b,queue=="])
def test_impossible_selector_asks_nothing_but_the_count(text: str) -> None:
    """No series can have an empty label: not the total, not an error of the backend, and no query in vain."""

    @asynchronous
    async def play() -> None:
        async with desk(ScriptedBackend(ONE), rule("sum(q{$matchers})")) as stage:
            for _ in range(2):
                with pytest.raises(NoMatch) as caught:
                    await stage.ask(text)
                assert (caught.value.wanted, caught.value.series) == (text, 5)
            assert stage.queries == [COUNT]

    play()


@pytest.mark.parametrize("error", [BackendUnavailable(detail="503"), BadQuery(error_type="bad_data", text="x")])
def test_impossible_selector_reports_the_backend_that_could_not_say(error: Exception) -> None:
    """Nothing came back empty here, so a failing count is the answer itself, never "no samples"."""

    @asynchronous
    async def play() -> None:
        async with desk(ScriptedBackend(error), rule("sum(q{$matchers})")) as stage:
            with pytest.raises(type(error)):
                await stage.ask("queue=")

    play()


@asynchronous
async def test_impossible_selector_of_a_scalar_counts_nothing() -> None:
    """`count()` of a scalar is no PromQL, so it is not asked."""
    async with desk(ScriptedBackend(ONE), rule("scalar(q{$matchers})")) as stage:
        with pytest.raises(NoSamples):
            await stage.ask("queue=")
        assert stage.queries == []


@asynchronous
async def test_count_survives_a_comment_at_the_end_of_the_query() -> None:
    """The count's closing parenthesis stands on a line of its own."""
    async with desk(ScriptedBackend(vector()), rule("q{$matchers} # by queue")) as stage:
        with pytest.raises(NoSamples):
            await stage.ask("queue=x")
        assert stage.queries[1] == "count(\nq{} # by queue\n)"


@asynchronous
async def test_count_of_an_earlier_tick_does_not_disturb_the_current_one() -> None:
    """An evaluation that ends late asks for its own tick's count; the current tick's is still asked only once."""
    slow = 'sum(q{queue="slow"})'
    backend = ScriptedBackend(vector(), {COUNT: vector(({}, "3")), slow: HANG})
    async with desk(backend, rule("sum(q{$matchers})")) as stage:
        late = asyncio.create_task(stage.ask("queue=slow"))
        await until(lambda: slow in stage.queries)
        stage.next_tick()
        with pytest.raises(NoMatch):
            await stage.ask("queue=x")
        del backend.outcomes[slow]
        backend.change()
        with pytest.raises(NoMatch):
            await late
        with pytest.raises(NoMatch):
            await stage.ask("queue=y")
        await settle()
        assert [asked.time_s for asked in backend.asked if asked.promql == COUNT] == [NOW_S + 5, NOW_S]


@asynchronous
async def test_l1_pushdown_refuses_a_key_that_is_no_label_before_asking() -> None:
    """L1: a key with a slash never reaches the backend, unless the rule maps it."""
    async with desk(ScriptedBackend(ONE), rule("q{$matchers}", labels={"app.kubernetes.io/name": "app"})) as stage:
        with pytest.raises(UnmappedLabel):
            await stage.ask("example.com/x=a")
        assert stage.queries == []
        assert await stage.ask("app.kubernetes.io/name=a") == ["5"]
        assert stage.queries == ['q{app="a"}']


@asynchronous
async def test_l3_l4_values_reach_the_backend_as_values() -> None:
    """L3, L4: what looks like a pattern is sent escaped, or as plain equality."""
    async with desk(ScriptedBackend(ONE), rule("q{$matchers}")) as stage:
        await stage.ask("queue in (orders.v1)")
        await stage.ask("queue in (a.b,c)")
        assert stage.queries == ['q{queue="orders.v1"}', r'q{queue=~"a\\.b|c"}']


@asynchronous
async def test_v3_pushdown_keeps_selectors_apart() -> None:
    """V3: two selectors at once, each with its own number."""
    backend = ScriptedBackend(vector(), {'q{queue="a"}': ONE, 'q{queue="b"}': vector(({}, "9"))})
    async with desk(backend, rule("q{$matchers}")) as stage:
        answers = await asyncio.gather(*(stage.ask(f"queue={queue}") for queue in "abab"))
        assert answers == [["5"], ["9"], ["5"], ["9"]]


@asynchronous
async def test_pushdown_result_passes_the_same_guards() -> None:
    """Partial, TooManySeries and Negative judge a pushed-down result as they judge a snapshot."""
    warned = QueryResult(samples=ONE.samples, warnings=("w",))
    backend = ScriptedBackend(
        ONE,
        {
            'q{x="partial"}': warned,
            'q{x="many"}': vector(({"a": "1"}, "1"), ({"a": "2"}, "2")),
            'q{x="negative"}': vector(({}, "-1")),
        },
    )
    async with desk(backend, rule("q{$matchers}", guards=Guards(max_series=1))) as stage:
        for value, error in (("partial", Partial), ("many", TooManySeries), ("negative", Negative)):
            with pytest.raises(error):
                await stage.ask(f"x={value}")
        assert await stage.ask("x=fine") == ["5"]


@asynchronous
async def test_pushdown_keeps_an_error_for_the_tick() -> None:
    """An error is asked for once a tick, too."""
    backend = ScriptedBackend(BackendUnavailable(detail="503"))
    async with desk(backend, rule("q{$matchers}")) as stage:
        for _ in range(3):
            with pytest.raises(BackendUnavailable):
                await stage.ask("queue=a")
        assert len(stage.queries) == 1
        backend.default = ONE
        stage.next_tick()
        assert await stage.ask("queue=a") == ["5"]
