"""`hold`: the last good answer bridges an absent backend, with its old timestamps and for a stated time."""

from collections import OrderedDict
from collections.abc import Awaitable

from adapter.domain.answers import Answer
from adapter.domain.rules import Rule
from adapter.errors import BackendUnavailable, DeadlineExceeded, Overloaded
from adapter.serving.ports import EvaluationObserver

_LIMIT_ITEMS = 50_000
_CHARS_AS_AN_ITEM = 100


class HeldAnswers:
    """Keeps the last good answer to each question about a rule that holds.

    Only an absent backend is bridged (BackendUnavailable, DeadlineExceeded, Overloaded): never an answer that came and
    was refused. Replicas may differ in this, as each holds what it was asked itself.
    """

    def __init__(self, observer: EvaluationObserver | None = None) -> None:
        self._observer = observer
        self._last: OrderedDict[tuple[str, tuple[str, str]], tuple[Answer, float]] = OrderedDict()
        self._size_items = 0

    async def bridge(self, rule: Rule, asked: tuple[str, str], tick_s: float, fresh: Awaitable[Answer]) -> Answer:
        """Return what *fresh* gives, or the last good answer to *asked* (namespace, selector) if it may be held.

        *tick_s* is the tick of this question, in Unix seconds.
        """
        key = (rule.name, asked)
        try:
            answer = await fresh
        except (BackendUnavailable, DeadlineExceeded, Overloaded):
            held, since_s = self._last.get(key, (None, 0.0))
            if held is None or tick_s - since_s > rule.hold_s:
                raise
            if self._observer is not None:
                self._observer.note_held(rule.name)
            return held
        self._keep(key, answer, tick_s)
        return answer

    def _keep(self, key: tuple[str, tuple[str, str]], answer: Answer, tick_s: float) -> None:
        """Keep *answer*, within a bound on memory: any client may invent selectors. The oldest go first."""
        known = self._last.pop(key, None)
        if known is not None:
            self._size_items -= _measure(key, known[0])
        self._last[key] = (answer, tick_s)
        self._size_items += _measure(key, answer)
        while self._size_items > _LIMIT_ITEMS and len(self._last) > 1:
            oldest, (dropped, _) = self._last.popitem(last=False)
            self._size_items -= _measure(oldest, dropped)


def _measure(key: tuple[str, tuple[str, str]], answer: Answer) -> int:
    """Return the size of one kept answer, in items."""
    return 1 + len(answer.items) + sum(map(len, key[1])) // _CHARS_AS_AN_ITEM
