"""The breaker: a backend in trouble holds nobody for longer than one deadline, and a slow rule harms only itself.

Deadlines are real and short; what takes longer is moved by the clock's hand.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from adapter.domain.samples import QueryResult
from adapter.errors import BackendRefused, BackendUnavailable, DeadlineExceeded, MetricError, Reason
from adapter.serving.breaker import LONGEST_REST_S, PROBE, Breaker
from tests.support.serving import HANG, ScriptedBackend, ShiftedClock, asynchronous, run, settle, until, vector

TIMEOUT_S = 0.2
SLACK_S = 0.1
OK = vector(({}, "5"))
NO_CONNECTION = BackendUnavailable(detail="connection refused", is_connection=True)


class Bench:
    """A breaker, what stands behind it, and a stopwatch."""

    def __init__(self, backend: ScriptedBackend, *, timeout_s: float, places: int) -> None:
        self.backend = backend
        self.clock = ShiftedClock()
        self.breaker = Breaker(backend, self.clock, timeout_s=timeout_s, places=places)

    async def ask(self, rule: str, promql: str = "") -> QueryResult:
        """Ask on behalf of *rule*, whose query is its name."""
        return await self.breaker.query(promql or rule, time_s=0.0, rule=rule)

    async def fail(self, rule: str, promql: str = "") -> tuple[MetricError, float]:
        """Ask, and return the error and the seconds it took."""
        start_s = time.monotonic()
        with pytest.raises(MetricError) as caught:
            await self.ask(rule, promql)
        return caught.value, time.monotonic() - start_s

    @property
    def rule_queries(self) -> list[str]:
        """Return what was asked beside probes."""
        return [asked.promql for asked in self.backend.asked if asked.promql != PROBE]

    async def recovered(self) -> None:
        """Return when questions reach the backend again."""
        await until(lambda: self.breaker._outage is None)


@asynccontextmanager
async def bench(
    default: QueryResult | Exception | object = OK,
    *,
    timeout_s: float = TIMEOUT_S,
    places: int = 16,
    **outcomes: object,
) -> AsyncIterator[Bench]:
    """Provide a breaker before a backend that answers *default*, or per rule one of *outcomes*."""
    backend = ScriptedBackend(default, outcomes)  # type: ignore[arg-type]
    stage = Bench(backend, timeout_s=timeout_s, places=places)
    try:
        yield stage
    finally:
        await stage.breaker.aclose()
        assert backend.running == 0


@asynchronous
async def test_healthy_backend_is_asked_once_a_question_and_never_probed() -> None:
    """Nothing slow, no probe; the deadline goes with the query."""
    async with bench() as stage:
        for index in range(20):
            assert await stage.ask(f"rule-{index}") is OK
        halfway_gone = asyncio.Event()
        asyncio.get_running_loop().call_later(TIMEOUT_S * 0.75, halfway_gone.set)
        await halfway_gone.wait()
        assert stage.backend.count() == 20
        assert stage.backend.count(PROBE) == 0
        assert all(TIMEOUT_S - SLACK_S < asked.timeout_s <= TIMEOUT_S for asked in stage.backend.asked)


@asynchronous
async def test_hung_backend_costs_the_first_callers_their_deadline_and_everyone_after_nothing() -> None:
    """Five wait once; a hundred more fail within 50 ms each, with the same Reason, and reach no backend."""
    async with bench(HANG) as stage:
        first = await asyncio.gather(*(stage.fail(f"first-{index}") for index in range(5)))
        assert {error.reason for error, _ in first} == {Reason.DEADLINE_EXCEEDED}
        assert all(TIMEOUT_S - 0.01 <= took_s < TIMEOUT_S + SLACK_S for _, took_s in first)
        after = [await stage.fail(f"rule-{index}") for index in range(100)]
        assert {error.reason for error, _ in after} == {Reason.DEADLINE_EXCEEDED}
        assert max(took_s for _, took_s in after) < 0.05
        assert sorted(stage.rule_queries) == [f"first-{index}" for index in range(5)]


@asynchronous
async def test_hung_backend_ends_the_waiting_for_places_too() -> None:
    """Who waits for a place when the outage is found fails then, not at its own deadline."""
    async with bench(HANG, places=1, timeout_s=1.0) as stage:
        holder = asyncio.create_task(stage.fail("a"))
        await until(lambda: stage.backend.running)
        error, took_s = await stage.fail("b")
        assert error is stage.breaker._outage
        assert error.reason is Reason.DEADLINE_EXCEEDED
        assert took_s < 1.0
        assert not holder.done()  # whose place would have come free at its own deadline only
        await holder
        assert stage.rule_queries == ["a"]


@asynchronous
async def test_question_that_got_its_place_late_still_keeps_its_deadline() -> None:
    """The probe of a query sent late is not waited for beyond the question's own deadline."""
    async with bench(places=1, timeout_s=1.0, a=HANG, b=HANG) as stage:
        stage.backend.outcomes[PROBE] = HANG
        first = asyncio.create_task(stage.ask("a"))
        await until(lambda: stage.backend.running)
        second = asyncio.create_task(stage.fail("b"))
        await settle()
        stage.clock.advance(0.9)
        stage.backend.outcomes["a"] = OK
        stage.backend.change()
        assert await first is OK
        error, took_s = await second
        assert error.reason is Reason.DEADLINE_EXCEEDED
        assert took_s < 0.1 + 0.2  # the probe takes 0.4 s from halfway on
        assert not stage.breaker._outage
        await until(lambda: stage.breaker._outage)  # the probe decides for those who come later
        error, took_s = await stage.fail("c")
        assert took_s < 0.05


@asynchronous
async def test_slow_rule_rests_alone() -> None:
    """The probe passes: the slow rule fails at once with its deadline's error, all others answer as before."""
    async with bench(slow=HANG) as stage:
        error, took_s = await stage.fail("slow")
        assert error.reason is Reason.DEADLINE_EXCEEDED
        assert took_s < TIMEOUT_S + SLACK_S
        again, took_s = await stage.fail("slow")
        assert again is error
        assert took_s < 0.05
        assert stage.rule_queries == ["slow"]
        assert stage.backend.count(PROBE) == 1
        for index in range(50):
            assert await stage.ask(f"rule-{index}") is OK


@asynchronous
async def test_resting_rule_is_tried_again_with_growing_distance_up_to_a_minute() -> None:
    """Each failed try doubles the rest; none is longer than 60 s; within a rest the backend is not asked."""
    timeout_s = 0.03
    async with bench(timeout_s=timeout_s, slow=HANG) as stage:
        expected_s = timeout_s
        for tries in range(1, 15):
            await stage.fail("slow")
            assert len(stage.rule_queries) == tries
            stage.clock.advance(expected_s * 0.5)
            if expected_s > 1:  # shorter ones may pass by themselves on a busy machine
                await stage.fail("slow")
                assert len(stage.rule_queries) == tries
            stage.clock.advance(expected_s * 0.5 + 0.001)
            expected_s = min(expected_s * 2, LONGEST_REST_S)
        assert expected_s == LONGEST_REST_S


@asynchronous
async def test_slow_queries_of_one_rule_at_once_make_it_rest_once() -> None:
    """Ten pushed-down queries slow together are one failed try, not ten doublings."""
    async with bench(HANG) as stage:
        stage.backend.outcomes[PROBE] = OK
        await asyncio.gather(*(stage.fail("slow", f"q-{index}") for index in range(10)))
        stage.clock.advance(TIMEOUT_S)
        await stage.fail("slow", "q-again")
        assert stage.rule_queries[-1] == "q-again"


@asynchronous
async def test_success_ends_a_rules_growing_rest() -> None:
    """A rule that answered again starts from a short rest when it becomes slow once more."""
    async with bench(slow=HANG) as stage:
        for rest_s in (1, 2, 4):
            await stage.fail("slow")
            stage.clock.advance(TIMEOUT_S * rest_s)
        stage.backend.outcomes["slow"] = OK
        assert await stage.ask("slow") is OK
        stage.backend.outcomes["slow"] = HANG
        await stage.fail("slow")
        stage.clock.advance(TIMEOUT_S)
        stage.backend.outcomes["slow"] = OK
        assert await stage.ask("slow") is OK


@asynchronous
async def test_new_configuration_lets_resting_rules_be_tried_at_once() -> None:
    """The query may have been mended."""
    async with bench(slow=HANG) as stage:
        await stage.fail("slow")
        stage.breaker.forget_rests()
        stage.backend.outcomes["slow"] = OK
        assert await stage.ask("slow") is OK


@asynchronous
async def test_query_that_waited_long_for_its_place_is_not_called_slow() -> None:
    """With less than half of its deadline left, a query's own deadline says nothing about its rule."""
    async with bench(places=1, b=HANG, a=HANG) as stage:
        first = asyncio.create_task(stage.ask("a"))
        await until(lambda: stage.backend.running)
        second = asyncio.create_task(stage.fail("b"))
        await settle()
        stage.clock.advance(TIMEOUT_S * 0.7)
        stage.backend.outcomes["a"] = OK
        stage.backend.change()
        await first
        await second
        stage.backend.outcomes["b"] = OK
        assert await stage.ask("b") is OK


@asynchronous
async def test_failed_connection_is_probed_at_once_and_fails_everyone() -> None:
    """No one waits for a deadline that cannot help; everyone gets the connection's Reason."""
    async with bench(NO_CONNECTION) as stage:
        error, took_s = await stage.fail("a")
        assert error.reason is Reason.BACKEND_UNAVAILABLE
        assert took_s < TIMEOUT_S / 2
        assert stage.backend.count(PROBE) == 1
        for index in range(20):
            error, took_s = await stage.fail(f"rule-{index}")
            assert error.reason is Reason.BACKEND_UNAVAILABLE
            assert took_s < 0.05
        assert stage.rule_queries == ["a"]


@asynchronous
async def test_connection_that_failed_once_is_no_outage_where_the_probe_passes() -> None:
    """One reset connection fails one question; that rule is asked again, and does not rest."""
    async with bench(a=NO_CONNECTION) as stage:
        await stage.fail("a")
        assert await stage.ask("b") is OK
        stage.backend.outcomes["a"] = OK
        assert await stage.ask("a") is OK


@pytest.mark.parametrize(
    "error", [BackendUnavailable(detail="503"), BackendRefused(detail="403")], ids=["503", "refused"]
)
def test_answer_that_is_an_error_starts_no_probe(error: MetricError) -> None:
    """A backend that answers at once, if only to refuse, holds nobody: there is nothing to find out."""

    async def play() -> None:
        async with bench(error) as stage:
            for _ in range(3):
                got, _ = await stage.fail("a")
                assert got is error
            assert stage.backend.count(PROBE) == 0
            assert len(stage.rule_queries) == 3

    assert not run(play())[1]


@asynchronous
async def test_probe_that_is_refused_shows_a_backend_that_is_there() -> None:
    """A backend that refuses `vector(1)` in time is slow for one rule, not down."""
    async with bench(slow=HANG) as stage:
        stage.backend.outcomes[PROBE] = BackendRefused(detail="403")
        await stage.fail("slow")
        assert await stage.ask("other") is OK


@asynchronous
async def test_outage_ends_when_a_probe_in_the_background_succeeds() -> None:
    """Nobody has to try: values are back as soon as the backend is."""
    async with bench(HANG) as stage:
        await stage.fail("a")
        await stage.fail("b")
        stage.backend.default = OK
        stage.backend.change()
        await stage.recovered()
        assert stage.rule_queries == ["a"]
        assert await stage.ask("b") is OK


@asynchronous
async def test_outage_says_what_the_latest_probe_saw() -> None:
    """A hung backend that is restarted refuses connections in between: the error follows."""
    async with bench(HANG) as stage:
        await stage.fail("a")
        stage.backend.default = NO_CONNECTION
        stage.backend.change()
        await until(lambda: stage.breaker._outage is NO_CONNECTION)
        error, _ = await stage.fail("b")
        assert error is NO_CONNECTION


@asynchronous
async def test_outage_is_forgotten_when_nobody_asks() -> None:
    """After a minute without a question the probing stops, and the next question finds out for itself."""
    async with bench(NO_CONNECTION) as stage:
        await stage.fail("a")
        stage.clock.advance(61)
        await stage.recovered()
        probes = stage.backend.count(PROBE)
        await settle()
        assert stage.backend.count(PROBE) == probes
        await stage.fail("b")
        assert stage.rule_queries == ["a", "b"]


@asynchronous
async def test_outage_is_kept_in_mind_while_somebody_asks() -> None:
    """Each question, though failed at once, keeps the probing alive."""
    async with bench(NO_CONNECTION) as stage:
        await stage.fail("a")
        for _ in range(3):
            stage.clock.advance(40)
            await stage.fail("b")
            probes = stage.backend.count(PROBE)
            await until(lambda probes=probes: stage.backend.count(PROBE) > probes)
        assert stage.rule_queries == ["a"]


@asynchronous
async def test_fault_in_a_probe_does_not_make_an_outage_last(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception while probing is logged, and ends the outage rather than the probing."""
    async with bench(NO_CONNECTION) as stage:
        await stage.fail("a")
        stage.backend.default = ZeroDivisionError()
        await stage.recovered()
        assert "probe_failed" in caplog.text
        stage.backend.default = OK
        assert await stage.ask("a") is OK


@asynchronous
async def test_fault_in_a_query_gives_back_its_place() -> None:
    """An unexpected exception reaches who asked, and costs no place."""
    async with bench(ZeroDivisionError(), places=1) as stage:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await stage.ask("a")
        stage.backend.default = OK
        assert await stage.ask("a") is OK


@asynchronous
async def test_caller_that_goes_away_leaves_place_and_probe_in_order() -> None:
    """Cancelled before and after the probe began: the place is free, and the probe ends by itself."""
    async with bench(a=HANG, places=1) as stage:
        early = asyncio.create_task(stage.ask("a"))
        await until(lambda: stage.backend.running)
        early.cancel()
        await asyncio.wait((early,))
        assert early.cancelled()
        stage.backend.outcomes[PROBE] = HANG
        late = asyncio.create_task(stage.ask("a"))
        await until(lambda: stage.backend.count(PROBE))
        late.cancel()
        await asyncio.wait((late,))
        assert late.cancelled()
        stage.backend.outcomes[PROBE] = OK
        stage.backend.change()
        assert await stage.ask("b") is OK


@asynchronous
async def test_cached_outage_does_not_grow_a_traceback() -> None:
    """One error object stands for a whole outage, however many it turns away."""
    async with bench(NO_CONNECTION) as stage:
        depths = []
        for _ in range(300):
            error, _ = await stage.fail("a")
            depth, frame = 0, error.__traceback__
            while frame is not None:
                depth, frame = depth + 1, frame.tb_next
            depths.append(depth)
        assert max(depths[1:]) == min(depths[1:])


@asynchronous
async def test_closing_in_an_outage_leaves_nothing_running() -> None:
    """Closing stops probe and watch, closes the backend once, and loses no exception."""
    async with bench(HANG) as stage:
        await stage.fail("a")
        backend = stage.backend
    assert backend.closed == 1


@asynchronous
async def test_one_slow_rule_among_a_hundred_harms_no_other() -> None:
    """With few places and one rule that always hangs, the 99 others answer tick after tick."""
    async with bench(slow=HANG, places=2) as stage:
        for _ in range(4):
            slow = asyncio.create_task(stage.fail("slow"))
            for index in range(99):
                start_s = time.monotonic()
                assert await stage.ask(f"rule-{index}") is OK
                assert time.monotonic() - start_s < 0.1
            await slow
            stage.clock.advance(5)


@asynchronous
async def test_deadline_that_the_backend_itself_declares_makes_the_rule_rest() -> None:
    """Prometheus' own timeout arrives early: a probe is asked then, and only that rule rests."""
    async with bench(slow=DeadlineExceeded(deadline_s=0.1, detail="the backend says timeout")) as stage:
        _, took_s = await stage.fail("slow")
        assert took_s < TIMEOUT_S / 2
        await stage.fail("slow")
        assert stage.rule_queries == ["slow"]
        assert stage.backend.count(PROBE) == 1
        assert await stage.ask("other") is OK
