"""What was seen of the chain at one moment: each hop's number or error, and how far it lags behind the queue."""

from dataclasses import dataclass
from typing import Any

from loadgen.hops import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One hop at one moment. *lag_s* is that of its number, None for no number or one that the queue never had."""

    reading: Reading
    lag_s: float | None = None

    @property
    def has_number(self) -> bool:
        """Whether it gave a number, right or wrong."""
        return self.reading.value is not None

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        reading = self.reading
        if reading.value is not None:
            return {"value": str(reading.value), "lag_s": None if self.lag_s is None else round(self.lag_s, 3)}
        return {"code": reading.code, "reason": reading.reason, "message": reading.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSample:
    """The chain at one moment.

    Attributes:
        phase: the phase's name.
        elapsed_s: since the run began.
        phase_elapsed_s: since the phase began.
        depth: what the queue held.
        exporter: the exporter's answer; and so on along the chain.
        prometheus: its answer.
        adapter: its answer to the right question.
        mistyped_selector: the adapter's answer to a selector that matches nothing, where it was asked.
        mistyped_metric: its answer to a metric that does not exist, where it was asked.
    """

    phase: str
    elapsed_s: float
    phase_elapsed_s: float
    depth: int
    exporter: Look
    prometheus: Look
    adapter: Look
    mistyped_selector: Reading | None = None
    mistyped_metric: Reading | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as one line of a record."""
        line: dict[str, Any] = {
            "phase": self.phase,
            "elapsed_s": round(self.elapsed_s, 3),
            "depth": self.depth,
            "exporter": self.exporter.as_json(),
            "prometheus": self.prometheus.as_json(),
            "adapter": self.adapter.as_json(),
        }
        for name, reading in (("mistyped_selector", self.mistyped_selector), ("mistyped_metric", self.mistyped_metric)):
            if reading is not None:
                line[name] = Look(reading=reading).as_json()
        return line
