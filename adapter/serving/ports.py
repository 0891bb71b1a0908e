"""What serving needs from the outside."""

from typing import Protocol

from adapter.domain.samples import QueryResult


class Backend(Protocol):
    """One Prometheus-compatible server."""

    @property
    def name(self) -> str:
        """Return the backend's name in the configuration."""
        ...

    async def query(self, promql: str, *, time_s: float, timeout_s: float) -> QueryResult:
        """Return the answer to an instant query at *time_s* (Unix seconds), within *timeout_s* seconds.

        Raises: BadQuery, BackendRefused, BackendUnavailable, DeadlineExceeded, WrongResultType, TooManySeries (an
        answer too large to read).
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class EvaluationObserver(Protocol):
    """What wants to know of evaluations: once for each query, not for each request; and of held answers."""

    def note_evaluation(self, rule: str, *, tick_s: float, series: int) -> None:
        """Take that *rule* has a usable result of so many *series* at *tick_s* (Unix seconds)."""
        ...

    def note_held(self, rule: str) -> None:
        """Take that a request about *rule* got the last good answer, because the backend is away."""
        ...
