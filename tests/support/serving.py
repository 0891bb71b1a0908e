"""Clocks to move by hand, a backend that does as it is told, and an event loop that notices what is left behind."""

import asyncio
import functools
import gc
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from adapter.domain.promql import parse_shape, parse_template
from adapter.domain.rules import Configuration, Guards, Rule
from adapter.domain.samples import QueryResult, Sample
from adapter.errors import DeadlineExceeded
from adapter.serving.breaker import Breaker
from adapter.serving.provider import Provider, Question
from adapter.serving.ticks import TickGrid

NOW_S = 1_700_000_000.0


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self, now_s: float = NOW_S) -> None:
        self.wall_s = now_s
        self.elapsed_s = 1_000.0

    def now_s(self) -> float:
        """Return Unix seconds."""
        return self.wall_s

    def monotonic_s(self) -> float:
        """Return seconds that never go backwards."""
        return self.elapsed_s

    def advance(self, seconds: float) -> None:
        """Move both times forward."""
        self.wall_s += seconds
        self.elapsed_s += seconds


class ShiftedClock:
    """Runs as the machine's does, and can be moved forward besides."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_s(self) -> float:
        """Return Unix seconds."""
        return NOW_S + self.monotonic_s()

    def monotonic_s(self) -> float:
        """Return seconds that never go backwards."""
        return time.monotonic() + self.ahead_s

    def advance(self, seconds: float) -> None:
        """Move both times forward."""
        self.ahead_s += seconds


class Behaviour(Enum):
    """What is neither an answer nor an error."""

    HANG = "hang"


HANG = Behaviour.HANG
Outcome = QueryResult | Exception | Literal[Behaviour.HANG]


@dataclass(frozen=True, slots=True)
class Asked:
    """One query that reached the backend."""

    promql: str
    time_s: float
    timeout_s: float


class ScriptedBackend:
    """Answers each query as scripted; keeps the deadline as the real one does."""

    def __init__(self, default: Outcome, outcomes: Mapping[str, Outcome] | None = None) -> None:
        self.default: Outcome = default
        self.outcomes: dict[str, Outcome] = dict(outcomes or {})
        self.asked: list[Asked] = []
        self.running = 0
        self.most_running = 0
        self.closed = 0
        self._changed = asyncio.Event()

    @property
    def name(self) -> str:
        """Return the backend's name."""
        return "default"

    def count(self, promql: str | None = None) -> int:
        """Return how often *promql*, or anything, was asked."""
        return sum(promql in (None, asked.promql) for asked in self.asked)

    def change(self) -> None:
        """Let hanging queries look at the script again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def query(self, promql: str, *, time_s: float, timeout_s: float) -> QueryResult:
        """Do as scripted, within *timeout_s* seconds."""
        self.asked.append(Asked(promql, time_s, timeout_s))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(0)
                while (outcome := self.outcomes.get(promql, self.default)) is HANG:
                    await self._changed.wait()
        except TimeoutError:
            raise DeadlineExceeded(deadline_s=timeout_s) from None
        finally:
            self.running -= 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def aclose(self) -> None:
        """Count that it was closed."""
        self.closed += 1


def vector(*rows: tuple[Mapping[str, str], str], time_s: float = NOW_S) -> QueryResult:
    """Return an instant vector of (labels, value) rows."""
    return QueryResult(samples=tuple(Sample(labels=labels, value=value, timestamp_s=time_s) for labels, value in rows))


def scalar(value: str, time_s: float = NOW_S) -> QueryResult:
    """Return a scalar result."""
    return QueryResult(samples=(Sample(labels={}, value=value, timestamp_s=time_s),), kind="scalar")


def rule(query: str, name: str = "depth", **fields: Any) -> Rule:
    """Return a rule of *query* with every other field at its default, but for the guards that ask queries: off."""
    template = parse_template(query)
    guards = replace(fields.pop("guards", Guards()), max_age_s=0.0, lost_targets_s=0.0)
    return Rule(name=name, query=template, shape=parse_shape(template), guards=guards, **fields)


async def until(condition: Callable[[], object], *, deadline_s: float = 5.0) -> None:
    """Return as soon as *condition* holds; fail after *deadline_s*."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - for conditions that announce themselves by no event
            await asyncio.sleep(0.001)


async def settle() -> None:
    """Let everything run that can run without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what *coroutine* returns; fail for tasks left running and for errors that nobody looked at."""
    complaints: list[str] = []

    async def watched() -> Any:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(repr(context)))
        outcome = await coroutine
        await settle()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, f"tasks left running: {left}"
        return outcome

    outcome = asyncio.run(watched())
    return outcome, complaints


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in a loop of its own, and hold it to tidiness."""

    @functools.wraps(test)
    def synchronous(*args: Any, **kwargs: Any) -> None:
        _, complaints = run(test(*args, **kwargs))
        gc.collect()
        assert not complaints, complaints

    return synchronous


class Desk:
    """A provider over a scripted backend, asked as a request would ask, at an instant that is moved by hand."""

    def __init__(self, backend: ScriptedBackend, *rules: Rule) -> None:
        self.backend = backend
        self.clock = ManualClock()
        self._breaker = Breaker(backend, self.clock, timeout_s=5.0, places=16)
        self.provider = Provider(
            Configuration(backends={}, rules={each.name.lower(): each for each in rules}),
            breakers={"default": self._breaker},
            grid=TickGrid(self.clock, 5.0),
        )

    async def ask(self, selector: str = "", *, metric: str = "depth", namespace: str = "app") -> list[str]:
        """Return the values of the items."""
        answer = await self.provider.fetch(Question(namespace, metric, selector))
        return [str(item.quantity) for item in answer.items]

    @property
    def queries(self) -> list[str]:
        """Return what the backend was asked."""
        return [asked.promql for asked in self.backend.asked]

    def next_tick(self) -> None:
        """Move the clock by one resolution."""
        self.clock.advance(5.0)

    async def aclose(self) -> None:
        """Close provider and breaker."""
        await self.provider.aclose()
        await self._breaker.aclose()


@asynccontextmanager
async def desk(backend: ScriptedBackend, *rules: Rule) -> AsyncIterator[Desk]:
    """Provide a Desk and close it."""
    stage = Desk(backend, *rules)
    try:
        yield stage
    finally:
        await stage.aclose()
