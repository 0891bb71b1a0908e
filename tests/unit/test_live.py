"""Reload: requests finish on the configuration they began with, and that one is closed once, after the last."""

import asyncio

import pytest

from adapter.domain.answers import Answer
from adapter.domain.rules import Configuration
from adapter.errors import NoSamples
from adapter.serving.live import Generation, LiveProvider
from adapter.serving.provider import Question
from tests.support.serving import asynchronous, settle

QUESTION = Question("app", "depth")


class Stub:
    """A provider that answers when it is told to."""

    def __init__(self) -> None:
        self.configuration = Configuration(backends={}, rules={})
        self.answer = Answer(items=())
        self.error: Exception | None = None
        self.may_answer = asyncio.Event()

    async def fetch(self, _question: Question) -> Answer:
        """Answer, or fail, after permission."""
        await self.may_answer.wait()
        if self.error:
            raise self.error
        return self.answer


class Era:
    """A generation that counts how often it is closed."""

    def __init__(self) -> None:
        self.provider = Stub()
        self.closed = 0
        self.close_error: Exception | None = None
        self.generation = Generation(provider=self.provider, aclose=self._aclose)  # type: ignore[arg-type]

    async def _aclose(self) -> None:
        self.closed += 1
        if self.close_error:
            raise self.close_error


@asynchronous
async def test_replaced_generation_finishes_its_requests_and_is_closed_once_after_the_last() -> None:
    """Requests in flight get the old one's answers, new ones the new one's; the old closes after both have ended."""
    old, new = Era(), Era()
    live = LiveProvider(old.generation)
    first, second = (asyncio.create_task(live.fetch(QUESTION)) for _ in range(2))
    await settle()
    live.replace(new.generation)
    assert live.configuration is new.provider.configuration
    new.provider.may_answer.set()
    assert await live.fetch(QUESTION) is new.provider.answer
    assert old.closed == 0
    first.cancel()
    await settle()
    assert old.closed == 0
    old.provider.may_answer.set()
    assert await second is old.provider.answer
    await settle()
    assert (old.closed, new.closed) == (1, 0)
    await live.aclose()
    assert (old.closed, new.closed) == (1, 1)


@asynchronous
async def test_replaced_generation_without_requests_is_closed_at_once() -> None:
    """Nothing in flight, nothing to wait for; and several reloads close each one once."""
    eras = [Era() for _ in range(4)]
    live = LiveProvider(eras[0].generation)
    for era in eras[1:]:
        live.replace(era.generation)
    await settle()
    assert [era.closed for era in eras] == [1, 1, 1, 0]
    await live.aclose()
    assert [era.closed for era in eras] == [1, 1, 1, 1]


@asynchronous
async def test_failed_request_counts_as_ended() -> None:
    """An error in flight does not keep the old generation open."""
    old, new = Era(), Era()
    old.provider.error = NoSamples()
    live = LiveProvider(old.generation)
    request = asyncio.create_task(live.fetch(QUESTION))
    await settle()
    live.replace(new.generation)
    old.provider.may_answer.set()
    with pytest.raises(NoSamples):
        await request
    await settle()
    assert old.closed == 1
    await live.aclose()


@asynchronous
async def test_generation_that_fails_to_close_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A fault while closing is in the log; the new configuration serves."""
    old, new = Era(), Era()
    old.close_error = ZeroDivisionError()
    new.provider.may_answer.set()
    live = LiveProvider(old.generation)
    live.replace(new.generation)
    await settle()
    assert "generation_close_failed" in caplog.text
    assert await live.fetch(QUESTION) is new.provider.answer
    await live.aclose()


@asynchronous
async def test_closing_waits_for_generations_that_are_closing() -> None:
    """After `aclose` nothing is left running, however slow an old generation is to close."""
    old, new = Era(), Era()
    may_close = asyncio.Event()

    async def close_slowly() -> None:
        await may_close.wait()
        old.closed += 1

    old.generation.aclose = close_slowly
    live = LiveProvider(old.generation)
    live.replace(new.generation)
    closing = asyncio.create_task(live.aclose())
    await settle()
    assert not closing.done()
    may_close.set()
    await closing
    assert (old.closed, new.closed) == (1, 1)
