"""What the demonstration does and when, and how late a number may be."""

from dataclasses import dataclass
from enum import StrEnum

from loadgen.arrivals import Profile, chain, constant

QUEUE = "orders"
METRIC = "queue_length"
SELECTOR = f"queue={QUEUE}"
MISTYPED_SELECTOR = "queue=oders"
MISTYPED_METRIC = "queue_lenght"


class PhaseName(StrEnum):
    """The phases, in the order in which they come."""

    RISING = "rising"
    FALLING = "falling"
    TYPO = "typo"
    EXPORTER_KILLED = "exporter-killed"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One stretch of the demonstration. *arrivals_per_s* is how many messages come in during it."""

    name: PhaseName
    duration_s: float
    arrivals_per_s: float


DEFAULT_PHASES = (
    Phase(name=PhaseName.RISING, duration_s=12, arrivals_per_s=70),
    Phase(name=PhaseName.FALLING, duration_s=12, arrivals_per_s=5),
    Phase(name=PhaseName.TYPO, duration_s=4, arrivals_per_s=30),
    Phase(name=PhaseName.EXPORTER_KILLED, duration_s=12, arrivals_per_s=50),
    Phase(name=PhaseName.RECOVERED, duration_s=12, arrivals_per_s=10),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole demonstration.

    Attributes:
        phases: in their order; together under 90 s.
        service_per_s: messages that the consumers finish a second, all the time.
        first_depth: messages that wait at the beginning, so that 0 is never the truth.
        seed: of the arrivals' randomness.
        scrape_interval_s: Prometheus'.
        resolution_s: the adapter's tick.
        look_interval_s: how often each hop is read.
        slack_s: added to every deadline, for a machine that is busy with other things.
    """

    phases: tuple[Phase, ...] = DEFAULT_PHASES
    service_per_s: float = 30
    first_depth: int = 60
    seed: int = 7
    scrape_interval_s: float = 1
    resolution_s: float = 1
    look_interval_s: float = 0.5
    slack_s: float = 3

    @property
    def total_s(self) -> float:
        """How long all phases last together."""
        return sum(phase.duration_s for phase in self.phases)

    @property
    def lag_limit_s(self) -> float:
        """How old a number may be: one scrape and one tick, which add up where they just miss each other, and slack.

        The same bound holds for the last number after the exporter's end, because the first scrape that fails ends
        the series.
        """
        return self.scrape_interval_s + self.resolution_s + self.slack_s

    @property
    def return_limit_s(self) -> float:
        """How long after the exporter is back the first number may take: Prometheus has to scrape it first."""
        return self.lag_limit_s + self.scrape_interval_s

    def build_arrivals(self) -> Profile:
        """Return the arrivals of all phases; afterwards as many come as are finished."""
        return chain(
            *(constant(phase.arrivals_per_s, phase.duration_s) for phase in self.phases), constant(self.service_per_s)
        )

    def build_service(self) -> Profile:
        """Return the rate at which messages are finished."""
        return constant(self.service_per_s)
