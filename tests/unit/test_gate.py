"""The gate: how many at once, who is next, who is turned away, and that no place is ever lost."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.errors import BackendUnavailable, DeadlineExceeded, Overloaded
from adapter.serving.gate import Gate
from tests.support.serving import asynchronous, run, settle

LONG_S = 30.0


class Holder:
    """One query that takes a place and keeps it until it is told to leave."""

    def __init__(self, gate: Gate, rule: str, order: list["Holder"], timeout_s: float = LONG_S) -> None:
        self.rule = rule
        self.leave = asyncio.Event()
        self.holds = False
        self.task = asyncio.create_task(self._hold(gate, order, timeout_s))

    async def _hold(self, gate: Gate, order: list["Holder"], timeout_s: float) -> None:
        async with gate.place(self.rule, timeout_s=timeout_s):
            self.holds = True
            order.append(self)
            try:
                await self.leave.wait()
            finally:
                self.holds = False


async def finish(*holders: Holder) -> list[object]:
    """Let everyone go, and return their outcomes."""
    for holder in holders:
        holder.leave.set()
    return await asyncio.gather(*(holder.task for holder in holders), return_exceptions=True)


@asynchronous
async def test_gate_admits_as_many_as_there_are_places_in_the_order_they_came() -> None:
    """First come, first served: never more than the places, never one overtaking."""
    gate, order = Gate(2), []
    holders = [Holder(gate, f"rule-{index}", order) for index in range(6)]
    await settle()
    assert [holder.holds for holder in holders] == [True, True, False, False, False, False]
    assert gate.waiting == 4
    for expected in range(3, 7):
        holders[expected - 3].leave.set()
        await settle()
        assert order == holders[:expected]
    await finish(*holders)
    assert gate.waiting == 0


@asynchronous
async def test_gate_turns_away_whom_it_cannot_let_wait() -> None:
    """Four times the places may wait; the next is Overloaded at once, with both numbers."""
    gate, order = Gate(2), []
    holders = [Holder(gate, f"rule-{index}", order) for index in range(2 + 8)]
    await settle()
    with pytest.raises(Overloaded) as caught:
        await Holder(gate, "one-more", order).task
    assert (caught.value.waiting, caught.value.places) == (8, 2)
    assert await finish(*holders) == [None] * 10


@asynchronous
async def test_gate_leaves_room_beside_a_rule_that_takes_all_it_can_get() -> None:
    """One rule holds three quarters of the places and of the queue; others come in past its waiting queries."""
    gate, order = Gate(4), []
    greedy = [Holder(gate, "greedy", order) for _ in range(3 + 12)]
    await settle()
    assert sum(holder.holds for holder in greedy) == 3
    assert gate.waiting == 12
    with pytest.raises(Overloaded):
        await Holder(gate, "greedy", order).task
    other = Holder(gate, "other", order)
    await settle()
    assert other.holds
    waits = Holder(gate, "other", order)
    await settle()
    assert not waits.holds
    other.leave.set()
    await settle()
    assert waits.holds
    await finish(*greedy, waits)


@asynchronous
async def test_gate_counts_waiting_against_the_deadline() -> None:
    """Who waits longer than the deadline gets DeadlineExceeded, leaves the queue, and costs no place."""
    gate, order = Gate(1), []
    holder = Holder(gate, "a", order)
    await settle()
    waiter = Holder(gate, "b", order, timeout_s=0.02)
    with pytest.raises(DeadlineExceeded) as caught:
        await waiter.task
    assert caught.value.deadline_s == 0.02
    assert "maxConcurrency" in caught.value.describe()
    assert gate.waiting == 0
    await finish(holder)
    after = Holder(gate, "c", order)
    await settle()
    assert after.holds
    await finish(after)


@asynchronous
async def test_gate_gives_back_the_place_of_a_query_that_fails() -> None:
    """An error inside leaves like any other end."""
    gate = Gate(1)
    for _ in range(3):
        with pytest.raises(BackendUnavailable):
            async with gate.place("a", timeout_s=LONG_S):
                raise BackendUnavailable(detail="x")


@asynchronous
async def test_gate_fails_everyone_who_waits_and_nobody_who_holds() -> None:
    """An outage ends the waiting at once, with its own error."""
    gate, order = Gate(1), []
    holders = [Holder(gate, f"rule-{index}", order) for index in range(4)]
    await settle()
    outage = BackendUnavailable(detail="down")
    gate.fail_waiting(outage)
    outcomes = await asyncio.gather(*(holder.task for holder in holders[1:]), return_exceptions=True)
    assert outcomes == [outage] * 3
    assert holders[0].holds
    await finish(holders[0])
    after = Holder(gate, "a", order)
    await settle()
    assert after.holds
    await finish(after)


@asynchronous
async def test_gate_failing_a_waiter_that_was_cancelled_in_the_same_moment_leaves_no_trace() -> None:
    """An error that nobody picks up is not reported as never retrieved, and no place is lost."""
    gate, order = Gate(1), []
    holder, waiter = Holder(gate, "a", order), Holder(gate, "b", order)
    await settle()
    gate.fail_waiting(BackendUnavailable(detail="down"))
    waiter.task.cancel()
    await asyncio.wait((waiter.task,))
    await finish(holder)
    async with asyncio.timeout(1), gate.place("c", timeout_s=LONG_S):
        assert gate.waiting == 0


@asynchronous
async def test_gate_place_given_in_the_moment_of_cancellation_is_given_back() -> None:
    """A waiter admitted and cancelled in one step of the loop takes no place with it."""
    gate = Gate(1)
    async with gate.place("a", timeout_s=LONG_S):
        waiter = Holder(gate, "b", [])
        await settle()
    waiter.task.cancel()  # leaving has admitted the waiter, whose task has not run yet
    await asyncio.wait((waiter.task,))
    assert waiter.task.cancelled()
    async with asyncio.timeout(1), gate.place("c", timeout_s=LONG_S):
        pass


steps = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "enter", "leave", "cancel", "fail", "expire", "run"]), st.integers(0, 30)
    ),
    max_size=40,
)


def take_step(gate: Gate, holders: list[Holder], step: str, choice: int) -> None:
    """Let one thing happen; *choice* picks the holder or the rule."""
    chosen = holders[choice % len(holders)] if holders else None
    match step:
        case "enter":
            holders.append(Holder(gate, f"rule-{choice % 3}", []))
        case "expire":
            holders.append(Holder(gate, f"rule-{choice % 3}", [], timeout_s=0))
        case "leave" if chosen:
            chosen.leave.set()
        case "cancel" if chosen:
            chosen.task.cancel()
        case "fail":
            gate.fail_waiting(BackendUnavailable(detail="down"))


@given(st.integers(1, 4), steps)
def test_gate_never_loses_or_invents_a_place(places: int, script: list[tuple[str, int]]) -> None:
    """Coming, leaving, cancelling, expiring and failing in any interleaving: all places are there at the end."""

    async def play() -> None:
        gate, holders = Gate(places), []
        for step, choice in script:
            take_step(gate, holders, step, choice)
            for _ in range(choice % 4 if step == "run" else 0):
                await asyncio.sleep(0)
            held = Counter(holder.rule for holder in holders if holder.holds)
            assert held.total() <= places
            assert all(count <= max(1, places * 3 // 4) for count in held.values())
        await finish(*holders)
        assert gate.waiting == 0
        async with asyncio.timeout(1), AsyncExitStack() as stack:
            for index in range(places):
                await stack.enter_async_context(gate.place(f"after-{index}", timeout_s=0.5))

    _, complaints = run(play())
    assert not complaints
