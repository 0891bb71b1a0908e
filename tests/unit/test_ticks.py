"""Ticks: one grid for all, one evaluation for each key, and one outcome for everyone who asks within the tick."""

import asyncio
import logging
import traceback
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import BackendUnavailable, NoSamples
from adapter.serving.ticks import EvaluationFault, TickCache, TickGrid
from tests.support.serving import NOW_S, ManualClock, asynchronous, settle, until


@pytest.mark.parametrize(
    ("resolution_s", "now_s", "tick_s"),
    [
        (5.0, 1_700_000_004.999, 1_700_000_000.0),
        (5.0, 1_700_000_005.0, 1_700_000_005.0),
        (7.0, 1_700_000_004.0, 1_700_000_001.0),
        (0.25, 1_700_000_000.6, 1_700_000_000.5),
        (1.5, 10.4, 9.0),
        (60.0, 59.999, 0.0),
        (0.0001, 10.0004, 10.0),
    ],
)
def test_grid_gives_the_last_multiple_of_the_resolution(resolution_s: float, now_s: float, tick_s: float) -> None:
    """A tick is floor(now / resolution) * resolution, also for odd resolutions."""
    assert TickGrid(ManualClock(now_s), resolution_s).current_s() == tick_s


@given(st.integers(1, 3_600_000), st.integers(0, 4_000_000_000_000))
def test_grid_is_exact_to_the_millisecond(resolution_ms: int, now_ms: int) -> None:
    """Every tick is a whole multiple of the resolution, not after now and less than one resolution before it."""
    tick_s = TickGrid(ManualClock(now_ms / 1000), resolution_ms / 1000).current_s()
    tick_ms = Fraction(tick_s).limit_denominator(1000) * 1000
    assert tick_ms % resolution_ms == 0
    assert tick_s == float(tick_ms / 1000)
    assert 0 <= now_ms - tick_ms <= resolution_ms  # equal where a float falls just short of its millisecond


class Evaluations:
    """Counts evaluations, and ends them when it is told to."""

    def __init__(self, outcome: object = 42) -> None:
        self.outcome = outcome
        self.count = 0
        self.ended = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self) -> object:
        """Evaluate: return the outcome, or raise it."""
        self.count += 1
        mine = self.outcome
        await self.gate.wait()
        self.ended += 1
        if isinstance(mine, BaseException):
            raise mine
        return mine


@asynchronous
async def test_q2_two_hundred_callers_at_once_are_one_evaluation() -> None:
    """Q2: 200 identical questions in a tick cost one evaluation, and all get its answer."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations(object())
    evaluate.gate.clear()
    callers = [asyncio.create_task(cache.get("k", NOW_S, evaluate)) for _ in range(200)]
    await settle()
    evaluate.gate.set()
    answers = await asyncio.gather(*callers)
    assert evaluate.count == 1
    assert all(answer is evaluate.outcome for answer in answers)


@asynchronous
async def test_cache_keeps_an_answer_to_the_end_of_the_tick_and_no_longer() -> None:
    """The same tick gives the same answer; the next one is evaluated anew."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations(1)
    assert await cache.get("k", 100.0, evaluate) == 1
    evaluate.outcome = 2
    assert await cache.get("k", 100.0, evaluate) == 1
    assert await cache.get("k", 105.0, evaluate) == 2
    assert evaluate.count == 2


@asynchronous
async def test_cache_evaluates_each_key_for_itself() -> None:
    """One key's answer is never another's."""
    cache: TickCache[str, object] = TickCache()
    assert await cache.get("a", 100.0, Evaluations(1)) == 1
    assert await cache.get("b", 100.0, Evaluations(2)) == 2
    assert await cache.get("a", 100.0, Evaluations(3)) == 1


@asynchronous
async def test_cache_keeps_an_error_to_the_end_of_the_tick() -> None:
    """Errors are answers: evaluated once in a tick, and gone with it."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations(NoSamples())
    for _ in range(3):
        with pytest.raises(NoSamples):
            await cache.get("k", 100.0, evaluate)
    assert evaluate.count == 1
    evaluate.outcome = 7
    assert await cache.get("k", 105.0, evaluate) == 7


@asynchronous
async def test_cache_serves_the_earlier_tick_anew_when_the_clock_goes_back() -> None:
    """A clock set back makes a different tick like any other: evaluated once, never answered from the future."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations("late")
    await cache.get("k", 105.0, evaluate)
    evaluate.outcome = "early"
    assert await cache.get("k", 100.0, evaluate) == "early"
    assert await cache.get("k", 100.0, evaluate) == "early"
    assert evaluate.count == 2


@asynchronous
async def test_cache_evaluation_that_outlives_its_tick_answers_only_those_who_asked_in_it() -> None:
    """A slow evaluation's value belongs to its own tick and is never served in the next."""
    cache: TickCache[str, object] = TickCache()
    slow, fast = Evaluations("old"), Evaluations("new")
    slow.gate.clear()
    early = asyncio.create_task(cache.get("k", 100.0, slow))
    await settle()
    assert await cache.get("k", 105.0, fast) == "new"
    slow.gate.set()
    assert await early == "old"
    assert await cache.get("k", 105.0, fast) == "new"
    assert fast.count == 1


@asynchronous
async def test_cache_with_several_ticks_lets_a_late_caller_spoil_nothing() -> None:
    """Where callers come back late, an old tick's question does not throw away the current tick's answer."""
    cache: TickCache[str, object] = TickCache(max_ticks=2)
    evaluate = Evaluations()
    for tick_s in (105.0, 100.0, 105.0, 100.0):
        await cache.get("k", tick_s, evaluate)
    assert evaluate.count == 2
    await cache.get("k", 110.0, evaluate)
    assert len(cache._ticks) == 2


@asynchronous
async def test_cache_caller_that_goes_away_takes_nothing_from_the_others() -> None:
    """Cancelling one caller, or all of them, leaves the evaluation running and its answer kept."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations("x")
    evaluate.gate.clear()
    first, second = (asyncio.create_task(cache.get("k", 100.0, evaluate)) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    assert first.cancelled()
    assert not second.done()
    second.cancel()
    await settle()
    evaluate.gate.set()
    assert await cache.get("k", 100.0, evaluate) == "x"
    assert evaluate.count == 1


@asynchronous
async def test_cached_error_does_not_grow_a_traceback() -> None:
    """A thousand raises of one kept error leave a traceback as short as the first."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations(NoSamples())
    lengths = []
    for _ in range(1000):
        try:
            await cache.get("k", 100.0, evaluate)
        except NoSamples as error:
            lengths.append(len(traceback.extract_tb(error.__traceback__)))
    assert len(lengths) == 1000
    assert max(lengths) == min(lengths) <= 3


@asynchronous
async def test_fault_of_our_own_reaches_every_waiter_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected exception is a fault for all who wait, kept for the tick, and one log record with its traceback."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations(ZeroDivisionError("secret detail"))
    callers = [asyncio.create_task(cache.get("k", 100.0, evaluate)) for _ in range(50)]
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {EvaluationFault}
    with pytest.raises(EvaluationFault):
        await cache.get("k", 100.0, evaluate)
    assert evaluate.count == 1
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


@asynchronous
async def test_fault_of_our_own_is_logged_though_nobody_waits_any_more(caplog: pytest.LogCaptureFixture) -> None:
    """The last waiter left before the fault: it is logged, and not reported by the event loop as never retrieved."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations(ZeroDivisionError())
    evaluate.gate.clear()
    caller = asyncio.create_task(cache.get("k", 100.0, evaluate))
    await settle()
    caller.cancel()
    await settle()
    evaluate.gate.set()
    await until(lambda: evaluate.ended)
    await settle()
    assert len(caplog.records) == 1


@asynchronous
async def test_cache_is_bounded_in_entries() -> None:
    """However many keys a client invents within a tick, no more than the limit are kept."""
    cache: TickCache[int, object] = TickCache(max_entries=10)
    for key in range(100):
        await cache.get(key, 100.0, Evaluations())
        assert sum(map(len, cache._ticks.values())) <= 10


@asynchronous
async def test_cache_keeps_nothing_of_an_earlier_tick() -> None:
    """Snapshots may be large: the last tick's are let go."""
    cache: TickCache[int, object] = TickCache()
    for tick in range(50):
        await cache.get(0, float(tick), Evaluations())
    assert list(cache._ticks) == [49.0]
    assert not cache._running


@asynchronous
async def test_closing_tells_those_who_still_wait() -> None:
    """Closing ends what runs; who waits for it gets an error, not a cancellation that was never theirs."""
    cache: TickCache[str, object] = TickCache()
    evaluate = Evaluations()
    evaluate.gate.clear()
    caller = asyncio.create_task(cache.get("k", 100.0, evaluate))
    await settle()
    await cache.aclose()
    with pytest.raises(BackendUnavailable):
        await caller
    assert evaluate.ended == 0
