"""Hold: the last good answer bridges an absent backend, as old as it is, for a stated time."""

import pytest

from adapter.domain.answers import Answer, Item
from adapter.domain.guardqueries import DOWN_TARGETS
from adapter.domain.quantity import ZERO
from adapter.domain.rules import Guards
from adapter.errors import (
    BackendRefused,
    BackendUnavailable,
    BadQuery,
    DeadlineExceeded,
    Incomplete,
    MetricError,
    Negative,
    NoSamples,
    Overloaded,
    Partial,
    RequirementFailed,
    Stale,
    TooManySeries,
)
from adapter.serving.held import HeldAnswers
from adapter.serving.provider import Question
from tests.support.serving import NOW_S, Desk, Outcome, asynchronous, desk, vector
from tests.support.vouched import VouchedBackend, vouched_rule

QUERY = "sum by (queue) (q)"
A = {"queue": "a"}
AWAY = BackendUnavailable(detail="connection refused")
REFUSAL = BadQuery("bad_data", "not in the script")
HOLDING = vouched_rule(QUERY, hold_s=60.0)
ITEMS = (Item(labels={}, timestamp_s=NOW_S, quantity=ZERO),)
ANSWER = Answer(items=ITEMS)
ABSENT: list[MetricError] = [AWAY, DeadlineExceeded(deadline_s=5.0), Overloaded(waiting=9, places=2)]
PRESENT: list[MetricError] = [
    Stale(age_s=300.0, limit_s=120.0, labels=A),
    Incomplete(targets=("a/1",)),
    Partial(warnings=("w",)),
    RequirementFailed(setting="guards.require", detail="0"),
    NoSamples(),
    Negative(value="-1", labels=A),
    BackendRefused(detail="403"),
    REFUSAL,
    TooManySeries(got="2 series", limit="1"),
]


async def give(outcome: Answer | MetricError) -> Answer:
    """Return or raise *outcome*."""
    if isinstance(outcome, MetricError):
        raise outcome
    return outcome


class Counting:
    """Counts held answers by rule."""

    def __init__(self) -> None:
        self.held: list[str] = []

    def note_held(self, rule: str) -> None:
        """Take that an answer was held."""
        self.held.append(rule)

    def note_evaluation(self, rule: str, *, tick_s: float, series: int) -> None:
        """Take nothing."""


@pytest.mark.parametrize("error", ABSENT, ids=lambda error: error.reason)
@asynchronous
async def test_s3_absent_backend_is_bridged_within_the_window_only(error: MetricError) -> None:
    """S3: the last good answer, the very same, for 60 s after the tick that it was of; each is counted."""
    counting = Counting()
    held = HeldAnswers(counting)
    asked = ("app", "queue=a")
    assert await held.bridge(HOLDING, asked, NOW_S, give(ANSWER)) is ANSWER
    for later_s in (5.0, 60.0):
        assert await held.bridge(HOLDING, asked, NOW_S + later_s, give(error)) is ANSWER
    assert counting.held == ["depth", "depth"]
    with pytest.raises(type(error)):
        await held.bridge(HOLDING, asked, NOW_S + 60.5, give(error))
    assert counting.held == ["depth", "depth"]


@pytest.mark.parametrize("error", PRESENT, ids=lambda error: error.reason)
@asynchronous
async def test_answer_that_came_and_was_refused_is_never_bridged(error: MetricError) -> None:
    """What guards refuse is refused, and the refusal of a backend that is there stands."""
    held = HeldAnswers()
    await held.bridge(HOLDING, ("app", ""), NOW_S, give(ANSWER))
    with pytest.raises(type(error)):
        await held.bridge(HOLDING, ("app", ""), NOW_S + 5, give(error))


@asynchronous
async def test_nothing_is_held_for_another_question() -> None:
    """Neither another selector's nor another namespace's nor another rule's answer is served."""
    held = HeldAnswers()
    await held.bridge(HOLDING, ("app", "queue=a"), NOW_S, give(ANSWER))
    other = vouched_rule(QUERY, "other", hold_s=60.0)
    for rule, asked in ((HOLDING, ("app", "queue=b")), (HOLDING, ("nsq", "queue=a")), (other, ("app", "queue=a"))):
        with pytest.raises(BackendUnavailable):
            await held.bridge(rule, asked, NOW_S, give(AWAY))


@asynchronous
async def test_held_answer_does_not_renew_itself() -> None:
    """Serving it is no success: the window runs from the last good tick."""
    held = HeldAnswers()
    await held.bridge(HOLDING, ("app", ""), NOW_S, give(ANSWER))
    for later_s in range(5, 61, 5):
        await held.bridge(HOLDING, ("app", ""), NOW_S + later_s, give(AWAY))
    with pytest.raises(BackendUnavailable):
        await held.bridge(HOLDING, ("app", ""), NOW_S + 65, give(AWAY))


@asynchronous
async def test_held_answers_are_bounded_and_the_oldest_go_first() -> None:
    """Any client may invent selectors: large answers and long selectors count more than small ones."""
    held = HeldAnswers()
    large = Answer(items=ITEMS * 1000)
    for index in range(60):
        await held.bridge(HOLDING, ("app", f"x={index}"), NOW_S, give(large))
    with pytest.raises(BackendUnavailable):
        await held.bridge(HOLDING, ("app", "x=0"), NOW_S, give(AWAY))
    assert await held.bridge(HOLDING, ("app", "x=59"), NOW_S, give(AWAY)) is large
    for index in range(600):
        await held.bridge(HOLDING, ("app", f"{index}" + "x" * 10_000), NOW_S, give(ANSWER))
    with pytest.raises(BackendUnavailable):
        await held.bridge(HOLDING, ("app", "x=59"), NOW_S, give(AWAY))


@asynchronous
async def test_question_asked_again_and_again_fills_no_memory() -> None:
    """The newest answer takes the place of the one before, and leaves the others theirs."""
    held = HeldAnswers()
    await held.bridge(HOLDING, ("app", "x=other"), NOW_S, give(ANSWER))
    large = Answer(items=ITEMS * 1000)
    for tick in range(100):
        await held.bridge(HOLDING, ("app", "x=1"), NOW_S + tick, give(large))
    assert await held.bridge(HOLDING, ("app", "x=other"), NOW_S, give(AWAY)) is ANSWER


async def fail(stage: Desk) -> MetricError:
    """Return the error that a question gets."""
    with pytest.raises(MetricError) as caught:
        await stage.ask()
    return caught.value


@pytest.mark.parametrize("which", [QUERY, DOWN_TARGETS], ids=["query", "guard"])
@asynchronous
async def test_s3_served_answer_keeps_its_old_timestamp(which: str) -> None:
    """S3: through the provider: number and time of the last good tick, also where only a guard's query failed."""
    backend = VouchedBackend(REFUSAL)
    backend.answer(QUERY, [(A, "90")], age_s=7.0)
    async with desk(backend, HOLDING) as stage:
        assert await stage.ask() == ["90"]
        stage.next_tick()
        backend.outcomes[which] = AWAY
        answer = await stage.provider.fetch(Question("app", "depth"))
        assert [(item.timestamp_s, str(item.quantity)) for item in answer.items] == [(NOW_S - 7, "90")]
        stage.clock.advance(60.0)
        assert isinstance(await fail(stage), BackendUnavailable)


@asynchronous
async def test_s3_nothing_is_held_by_default() -> None:
    """S3: without `hold` the first tick of an absent backend is an error."""
    backend = VouchedBackend(REFUSAL)
    backend.answer(QUERY, [(A, "90")])
    async with desk(backend, vouched_rule(QUERY)) as stage:
        assert await stage.ask() == ["90"]
        stage.next_tick()
        backend.outcomes[QUERY] = AWAY
        assert await fail(stage) is AWAY


@pytest.mark.parametrize("outcome", [vector(), vector((A, "-1")), REFUSAL], ids=["empty", "negative", "refused"])
@asynchronous
async def test_held_rule_still_refuses_what_came(outcome: Outcome) -> None:
    """A backend that answers is not away."""
    backend = VouchedBackend(REFUSAL)
    backend.answer(QUERY, [(A, "90")])
    async with desk(backend, vouched_rule(QUERY, hold_s=60.0, guards=Guards())) as stage:
        assert await stage.ask() == ["90"]
        stage.next_tick()
        backend.outcomes[QUERY] = outcome
        assert not isinstance(await fail(stage), BackendUnavailable)
