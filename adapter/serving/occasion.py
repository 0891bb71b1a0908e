"""For whom, when and by whom a rule is evaluated."""

from dataclasses import dataclass

from adapter.domain.samples import QueryResult
from adapter.serving.breaker import Breaker
from adapter.serving.ports import EvaluationObserver
from adapter.serving.ticks import TickCache
from adapter.serving.trace import Trace

OF_ALL_RULES = "(all rules)"
"""Whose queries those are that a backend is asked once a tick, for the breaker and its log."""


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

    async def ask(self, promql: str, rule: str, *, part: str = "") -> QueryResult:
        """Return the backend's answer to *promql* at this tick, asked on behalf of *rule*.

        *part* names the guard that asks; empty for the rule's own query.
        """
        return await self.breaker.query(promql, time_s=self.tick_s, rule=rule, part=part)

    async def ask_once(self, promql: str) -> QueryResult:
        """Return the backend's answer to *promql* at this tick, asked once for all rules of the backend.

        No rule answers for it: one that rests must not fail it for the others, nor rest because it is slow.
        """
        if self.shared is None:
            return await self.ask(promql, OF_ALL_RULES)
        key = (self.breaker.name, promql)
        return await self.shared.get(key, self.tick_s, lambda: self.ask(promql, OF_ALL_RULES))
