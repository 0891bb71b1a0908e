"""For whom, when and by whom a rule is evaluated."""

from dataclasses import dataclass

from adapter.domain.samples import QueryResult
from adapter.serving.breaker import Breaker
from adapter.serving.ports import EvaluationObserver
from adapter.serving.ticks import TickCache
from adapter.serving.trace import Trace


@dataclass(frozen=True, slots=True)
class Occasion:
    """The asking namespace, the tick in Unix seconds, the backend.

    *shared* keeps what is asked once a backend and tick, whichever rule needs it first.
    """

    namespace: str
    tick_s: float
    breaker: Breaker
    trace: Trace | None = None
    observer: EvaluationObserver | None = None
    shared: TickCache[tuple[str, str], QueryResult] | None = None

    def note(self, name: str, detail: str) -> None:
        """Write down one step, where somebody wants to read it."""
        if self.trace is not None:
            self.trace.note(name, detail)

    async def ask(self, promql: str, rule: str) -> QueryResult:
        """Return the backend's answer to *promql* at this tick, asked on behalf of *rule*."""
        return await self.breaker.query(promql, time_s=self.tick_s, rule=rule)

    async def ask_once(self, promql: str, rule: str) -> QueryResult:
        """Return the backend's answer to *promql* at this tick, asked once for all rules of the backend."""
        if self.shared is None:
            return await self.ask(promql, rule)
        return await self.shared.get((self.breaker.name, promql), self.tick_s, lambda: self.ask(promql, rule))
