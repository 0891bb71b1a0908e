"""Keeps a backend in trouble from holding those who ask: the HPA controller has five workers for the whole cluster.

A query that is slow (half of its deadline is gone) or whose connection fails makes a probe decide:

    the probe fails    the backend is down: every question fails at once, with the same Reason, until a probe in the
                       background succeeds
    the probe passes   only that rule is slow: its error stands, and it rests for a growing while, a minute at most
"""

import asyncio
import logging
from dataclasses import dataclass

from adapter.clock import Clock
from adapter.domain.samples import QueryResult
from adapter.errors import BackendUnavailable, DeadlineExceeded, MetricError
from adapter.serving.gate import Gate
from adapter.serving.ports import Backend

PROBE = "vector(1)"
LONGEST_REST_S = 60.0

_SLOW_SHARE = 0.5  # of the deadline: from here on a query counts as slow
_PROBE_SHARE = 0.4  # of the deadline: a probe has decided before the slow query's own deadline passes
_PROBE_DISTANCE_S = 0.25
_FORGOTTEN_AFTER_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Rest:
    """A slow rule's pause; times are of the monotonic clock, in seconds."""

    began_s: float
    length_s: float
    error: DeadlineExceeded


@dataclass(slots=True)
class _Doubt:
    """One query's doubt about the backend, and the probe that decides it."""

    probe: asyncio.Task[MetricError | None] | None = None


class Breaker:
    """Stands between the rules and one backend: places, deadline, probes, rests.

    *timeout_s* is the deadline of one question, waiting for a place included; *places* is maxConcurrency.
    """

    def __init__(self, backend: Backend, clock: Clock, *, timeout_s: float, places: int) -> None:
        self._backend = backend
        self._clock = clock
        self._timeout_s = timeout_s
        self._gate = Gate(places)
        self._rests: dict[tuple[str, str], _Rest] = {}
        self._outage: MetricError | None = None
        self._asked_at_s = 0.0
        self._probe: asyncio.Task[MetricError | None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Return the backend's name in the configuration."""
        return self._backend.name

    async def query(self, promql: str, *, time_s: float, rule: str, part: str = "") -> QueryResult:
        """Return the backend's answer to *promql* at *time_s* (Unix seconds), asked on behalf of *rule*.

        *part* tells the queries of one rule apart: each rests by itself, and what answers ends no other's rest; while
        the rule's own query (no *part*) rests, none of the others is sent.

        Raises: what `Backend.query` raises, and Overloaded. Never takes longer than the deadline.
        """
        asked_at_s = self._asked_at_s = self._clock.monotonic_s()
        self._check_available(rule, part)
        async with self._gate.place(rule, timeout_s=self._timeout_s):
            self._check_available(rule, part)
            result = await self._send(promql, time_s=time_s, asker=(rule, part), asked_at_s=asked_at_s)
        self._rests.pop((rule, part), None)
        return result

    def forget_rests(self) -> None:
        """Let every rule be tried again: a new configuration may have mended the slow ones."""
        self._rests.clear()

    async def aclose(self) -> None:
        """Stop probing and close the backend."""
        tasks = [task for task in (self._probe, self._watch) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._backend.aclose()

    def _check_available(self, rule: str, part: str) -> None:
        if self._outage is not None:
            raise self._outage.with_traceback(None)
        for asker in {(rule, ""), (rule, part)}:
            rest = self._rests.get(asker)
            if rest is not None and self._clock.monotonic_s() < rest.began_s + rest.length_s:
                raise rest.error.with_traceback(None)

    async def _send(self, promql: str, *, time_s: float, asker: tuple[str, str], asked_at_s: float) -> QueryResult:
        sent_at_s = self._clock.monotonic_s()
        left_s = max(self._timeout_s - (sent_at_s - asked_at_s), 0.001)
        doubt = _Doubt()
        slow = asyncio.get_running_loop().call_later(left_s * _SLOW_SHARE, self._start_probe, doubt)
        try:
            return await self._backend.query(promql, time_s=time_s, timeout_s=left_s)
        except DeadlineExceeded as error:
            has_had_its_time = left_s >= self._timeout_s * _SLOW_SHARE
            if await self._is_up(doubt, asked_at_s) and has_had_its_time:
                self._let_rest(asker, error, sent_at_s=sent_at_s)
            raise
        except BackendUnavailable as error:
            if error.is_connection:
                await self._is_up(doubt, asked_at_s)
            raise
        finally:
            slow.cancel()

    async def _is_up(self, doubt: _Doubt, asked_at_s: float) -> bool:
        """Return whether a probe that began since the *doubt* passed; false where none has ended in time.

        The probe may decide after the question's own deadline: then it does so for those who come later.
        """
        probe = doubt.probe or self._start_probe(doubt)
        left_s = self._timeout_s - (self._clock.monotonic_s() - asked_at_s)
        done, _ = await asyncio.wait((probe,), timeout=max(left_s, 0.0))
        return bool(done) and not probe.cancelled() and probe.result() is None

    def _start_probe(self, doubt: _Doubt) -> asyncio.Task[MetricError | None]:
        """Return the probe for someone who doubts the backend now: the one under way, or a new one."""
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._ask_probe())
        doubt.probe = self._probe
        return self._probe

    async def _ask_probe(self) -> MetricError | None:
        """Return why the backend is down, or None if it answers."""
        outcome = await self._send_probe()
        if outcome is not None and self._outage is None:
            self._enter_outage(outcome)
        return outcome

    async def _send_probe(self) -> MetricError | None:
        try:
            await self._backend.query(
                PROBE, time_s=self._clock.now_s(), timeout_s=max(self._timeout_s * _PROBE_SHARE, 0.05)
            )
        except DeadlineExceeded:
            return DeadlineExceeded(deadline_s=self._timeout_s, detail="it does not answer a probe either")
        except BackendUnavailable as error:
            return error
        except MetricError:
            pass  # it answers, if only to refuse: that is each rule's own matter
        except Exception:  # noqa: BLE001 - a fault of our own is no sign of an outage, and must not make one last
            _log.exception("probe_failed backend=%s", self._backend.name)
        return None

    def _let_rest(self, asker: tuple[str, str], error: DeadlineExceeded, *, sent_at_s: float) -> None:
        previous = self._rests.get(asker)
        if previous is not None and sent_at_s < previous.began_s:
            return  # one of several queries that were slow together: they count once
        length_s = min(previous.length_s * 2 if previous else self._timeout_s, LONGEST_REST_S)
        self._rests[asker] = _Rest(self._clock.monotonic_s(), length_s, error)
        rule, part = asker
        guard = f" guard={part}" if part else ""
        _log.warning("rule_rests rule=%s%s backend=%s rest_s=%g", rule, guard, self._backend.name, length_s)

    def _enter_outage(self, error: MetricError) -> None:
        self._outage = error
        self._gate.fail_waiting(error)
        self._watch = asyncio.create_task(self._await_recovery())
        _log.error("backend_down backend=%s reason=%s error=%s", self._backend.name, error.reason, error)

    async def _await_recovery(self) -> None:
        """Probe until one succeeds, or until nobody has asked for a while: then the next question finds out."""
        try:
            while self._clock.monotonic_s() - self._asked_at_s < _FORGOTTEN_AFTER_S:
                await asyncio.sleep(_PROBE_DISTANCE_S)
                error = await asyncio.shield(self._start_probe(_Doubt()))
                if error is None:
                    _log.warning("backend_up backend=%s", self._backend.name)
                    break
                self._outage = error
        finally:
            self._outage = None  # whatever ended the watch: nobody else would end the outage
