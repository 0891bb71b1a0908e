"""Snapshots: one query for everyone who asks within a tick, and each gets only what it selects."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.evidence import Evidence
from adapter.domain.matchers import build_matchers
from adapter.domain.rules import Guards, NamespaceLabel
from adapter.domain.samples import QueryResult
from adapter.domain.selectors import parse_selector
from adapter.errors import (
    BackendUnavailable,
    ExpectedOne,
    Negative,
    NoMatch,
    NoSamples,
    NotFinite,
    Partial,
    TooManySeries,
    UnknownMetric,
)
from adapter.serving.evaluation import Evaluation
from adapter.serving.provider import Question
from adapter.serving.snapshot import Snapshot
from adapter.serving.trace import Trace
from adapter.serving.vouching import Rendering
from tests.support.serving import NOW_S, ScriptedBackend, asynchronous, desk, rule, run, scalar, vector

QUEUES = vector(
    ({"namespace": "app", "queue": "a"}, "5"),
    ({"namespace": "app", "queue": "b"}, "7"),
    ({"namespace": "nsq", "queue": "a"}, "9"),
)


@asynchronous
async def test_snapshot_costs_one_query_a_tick_whoever_asks() -> None:
    """Many namespaces and selectors, at once and one after the other: one query, at the tick's own time."""
    async with desk(ScriptedBackend(QUEUES), rule("q", namespace=NamespaceLabel("namespace"))) as stage:
        asked = [(f"queue={queue}", namespace) for queue in "ab" for namespace in ("app", "nsq")] * 25
        await asyncio.gather(*(stage.ask(s, namespace=n) for s, n in asked), return_exceptions=True)
        assert await stage.ask("queue=b") == ["7"]
        assert stage.queries == ["q"]
        assert stage.backend.asked[0].time_s == NOW_S
        stage.clock.advance(4.999)
        await stage.ask()
        assert stage.queries == ["q"]
        stage.clock.advance(0.001)
        await stage.ask()
        assert [asked.time_s for asked in stage.backend.asked] == [NOW_S, NOW_S + 5.0]


@asynchronous
async def test_v3_each_request_sees_only_its_own_selector() -> None:
    """V3: two selectors on one metric are never added, and neither sees the other's answer from the memo."""
    async with desk(ScriptedBackend(QUEUES), rule("q")) as stage:
        for _ in range(2):
            assert await stage.ask("queue=a,namespace=app") == ["5"]
            assert await stage.ask("queue=b") == ["7"]
            assert await stage.ask() == ["5", "7", "9"]
            assert await stage.ask("queue!=b") == ["5", "9"]


@asynchronous
async def test_snapshot_keeps_namespaces_apart_in_memory() -> None:
    """The same selector text from two namespaces gives each its own series, twice over."""
    async with desk(ScriptedBackend(QUEUES), rule("q", namespace=NamespaceLabel("namespace"))) as stage:
        for _ in range(2):
            assert await stage.ask("queue=a", namespace="app") == ["5"]
            assert await stage.ask("queue=a", namespace="nsq") == ["9"]
            with pytest.raises(NoMatch):
                await stage.ask("queue=a", namespace="other")


@asynchronous
async def test_snapshot_of_a_query_with_namespace_is_one_for_each_namespace() -> None:
    """`$namespace` without `$matchers`: one query a namespace and tick, with the name quoted."""
    backend = ScriptedBackend(vector(), {'q{ns="app"}': vector(({}, "1")), 'q{ns="nsq"}': vector(({}, "2"))})
    async with desk(backend, rule("q{ns=$namespace}")) as stage:
        for _ in range(2):
            assert await stage.ask(namespace="app") == ["1"]
            assert await stage.ask(namespace="nsq") == ["2"]
        assert stage.queries == ['q{ns="app"}', 'q{ns="nsq"}']


@asynchronous
async def test_rules_with_one_query_are_evaluated_each_for_itself() -> None:
    """Two rules with the same PromQL keep their own guards: one's answer is not the other's."""
    strict = rule("q", name="strict", guards=Guards(expect_one=True))
    async with desk(ScriptedBackend(QUEUES), rule("q"), strict) as stage:
        assert await stage.ask() == ["5", "7", "9"]
        with pytest.raises(ExpectedOne):
            await stage.ask(metric="strict")


@asynchronous
async def test_z9_scalar_is_one_item_without_labels() -> None:
    """Z9: a scalar is served; a selector on it is NoMatch, as it has no labels."""
    async with desk(ScriptedBackend(scalar("5")), rule("scalar(sum(q))")) as stage:
        answer = await stage.provider.fetch(Question("app", "depth"))
        assert [(item.labels, str(item.quantity)) for item in answer.items] == [({}, "5")]
        with pytest.raises(NoMatch) as caught:
            await stage.ask("queue=a")
        assert caught.value.missing_label == "queue"


@asynchronous
async def test_z1_z2_empty_result_is_no_samples_until_there_are_some() -> None:
    """Z1, Z2: nothing there is an error with or without a selector, and the value is back at the next tick."""
    async with desk(ScriptedBackend(vector()), rule("q")) as stage:
        for selector in ("", "queue=a"):
            with pytest.raises(NoSamples):
                await stage.ask(selector)
        stage.backend.default = QUEUES
        with pytest.raises(NoSamples):
            await stage.ask()
        stage.next_tick()
        assert await stage.ask("queue=b") == ["7"]


@asynchronous
async def test_m1_metric_is_found_in_any_spelling() -> None:
    """M1: the HPA's client lower-cases the name."""
    async with desk(ScriptedBackend(QUEUES), rule("q", name="JobsQueued")) as stage:
        assert await stage.ask("queue=b", metric="jobsqueued") == ["7"]
        assert await stage.ask("queue=b", metric="JobsQueued") == ["7"]
        assert stage.queries == ["q"]
        with pytest.raises(UnknownMetric) as caught:
            await stage.ask(metric="jobsqeued")
        assert caught.value.near == ("JobsQueued",)


@asynchronous
async def test_q3_one_bad_rule_fails_alone() -> None:
    """Q3: nineteen rules answer beside one that cannot."""
    rules = [rule(f"q{index}", name=f"m{index}") for index in range(20)]
    backend = ScriptedBackend(vector(({}, "1")), {"q7": BackendUnavailable(detail="503")})
    async with desk(backend, *rules) as stage:
        answers = await asyncio.gather(*(stage.ask(metric=each.name) for each in rules), return_exceptions=True)
        assert [answer for answer in answers if answer == ["1"]] == [["1"]] * 19
        assert isinstance(answers[7], BackendUnavailable)


@asynchronous
async def test_guard_of_the_whole_result_fails_everyone() -> None:
    """Partial and TooManySeries judge the result before anyone's selector, so nobody gets a part of it."""
    partial = QueryResult(samples=QUEUES.samples, warnings=("store away",))
    async with desk(ScriptedBackend(partial), rule("q")) as stage:
        with pytest.raises(Partial):
            await stage.ask("queue=b")
    async with desk(ScriptedBackend(QUEUES), rule("q", guards=Guards(max_series=2))) as stage:
        with pytest.raises(TooManySeries):
            await stage.ask("queue=b")


@asynchronous
async def test_bad_item_fails_only_those_who_select_it() -> None:
    """One queue's NaN or negative value is nothing to those who do not select it."""
    result = vector(({"queue": "a"}, "5"), ({"queue": "b"}, "NaN"), ({"queue": "c"}, "-1"))
    async with desk(ScriptedBackend(result), rule("q")) as stage:
        for _ in range(2):
            assert await stage.ask("queue=a") == ["5"]
            with pytest.raises(NotFinite):
                await stage.ask("queue in (a,b)")
            with pytest.raises(Negative):
                await stage.ask("queue=c")


@asynchronous
async def test_h5_answer_within_a_tick_is_one_object_and_time() -> None:
    """H5: two requests in one tick see identical values and timestamps."""
    async with desk(ScriptedBackend(QUEUES), rule("q")) as stage:
        first = await stage.provider.fetch(Question("app", "depth", "queue=a"))
        stage.backend.default = vector(({"queue": "a"}, "100"))
        assert await stage.provider.fetch(Question("other", "depth", "queue=a")) is first


def test_snapshot_memo_does_not_grow_without_bound() -> None:
    """However many selectors are invented, what one snapshot remembers is bounded, and answers stay right."""
    each = rule("q")
    result = vector(*(({"queue": f"q{index}"}, str(index)) for index in range(500)))
    snapshot = Snapshot(Evaluation(Rendering("q"), result, Evidence(tick_s=NOW_S)), each)

    async def play() -> None:
        async with desk(ScriptedBackend(result), each) as stage:
            for index in range(300):
                assert len(await stage.ask(f"queue!=q{index}")) == 499
            (task,) = stage.provider._snapshots._cache._ticks[NOW_S].values()
            nonlocal snapshot
            snapshot = task.result()

    run(play())
    kept = sum(len(outcome.items) for outcome in snapshot._answers.values() if not isinstance(outcome, Exception))
    assert 0 < kept <= 20_000


@asynchronous
async def test_parsed_questions_are_kept_within_bounds() -> None:
    """What a question means is remembered, a long one's not, and never without limit."""
    async with desk(ScriptedBackend(QUEUES), rule("q")) as stage:
        long = ",".join(f"a{index}!=x" for index in range(500))
        assert await stage.ask(long) == ["5", "7", "9"]
        assert not stage.provider._plans
        for index in range(12_000):
            question = Question("app", "depth", f"a=b{index}")
            stage.provider._remember(question, stage.provider._plan(question, None))
            assert 0 < len(stage.provider._plans) <= 10_000


@asynchronous
async def test_trace_of_an_explained_request_walks_the_same_path() -> None:
    """`explain` sees rule, tick, PromQL, the raw answer and the selection, and gets the same items."""
    async with desk(ScriptedBackend(QUEUES), rule("q", origin="c.yaml:3")) as stage:
        trace = Trace()
        answer = await stage.provider.fetch(Question("app", "depth", "queue=b"), trace)
        assert [str(item.quantity) for item in answer.items] == ["7"]
        steps = {step.name: step.detail for step in trace.steps}
        walk = ["rule", "evaluation", "tick", "promql", "raw", "selection"]
        assert [step.name for step in trace.steps if step.name in walk] == walk
        assert "c.yaml:3" in steps["rule"]
        assert "1700000000.000" in steps["tick"]
        assert steps["promql"] == "q"
        assert "1 of 3 series" in steps["selection"]


names = st.sampled_from(["queue", "vhost"])
terms = st.builds("{}{}{}".format, names, st.sampled_from(["=", "!="]), st.sampled_from("abc")) | st.sampled_from(
    ["queue", "!queue", "queue in (a,b)", "vhost notin (a,c)", "!vhost", "queue=", "queue in (a,)"]
)


@given(
    st.lists(terms, max_size=3).map(",".join),
    st.lists(st.dictionaries(names, st.sampled_from("abc"), max_size=2), min_size=1, max_size=5),
)
def test_snapshot_gives_what_the_selector_matches_or_no_match(text: str, label_sets: list[dict[str, str]]) -> None:
    """Never a series too many or too few: the items are those that match, and none matching is NoMatch."""
    result = vector(*((labels, str(index)) for index, labels in enumerate(label_sets)))
    selector = parse_selector(text)
    expected = sorted(str(index) for index, labels in enumerate(label_sets) if selector.matches(labels))

    async def play() -> None:
        async with desk(ScriptedBackend(result), rule("q")) as stage:
            if expected:
                assert sorted(await stage.ask(text)) == expected
            else:
                with pytest.raises(NoMatch):
                    await stage.ask(text)

    run(play())
    if build_matchers(selector.requirements) is None:
        assert not expected
