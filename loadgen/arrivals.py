"""When messages arrive: rates as pure functions of time, and the instants that follow from them.

A profile is a chain of segments with a linear rate each, which is enough for constant, ramp, step and spike. It says
how many arrivals are due by a time, and by when the n-th one is due, both exactly; the instants of two runs with the
same profile and seed are the same, whatever the machine does meanwhile.
"""

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time whose rate goes in a straight line from one value to another.

    Attributes:
        duration_s: how long it lasts; infinite only where the rate is constant.
        start_per_s: arrivals a second at its beginning.
        end_per_s: arrivals a second at its end.

    Raises: ValueError for a negative rate, no duration, or a ramp without an end.
    """

    duration_s: float
    start_per_s: float
    end_per_s: float

    def __post_init__(self) -> None:
        if not self.duration_s > 0:
            raise ValueError(f"a segment must last some time, not {self.duration_s} s")
        if not (0 <= self.start_per_s < math.inf and 0 <= self.end_per_s < math.inf):
            raise ValueError(
                f"a rate is finite and not negative, unlike {self.start_per_s} to {self.end_per_s} a second"
            )
        if math.isinf(self.duration_s) and self.start_per_s != self.end_per_s:
            raise ValueError("only a constant rate can last for ever")

    @property
    def total(self) -> float:
        """How many arrivals it brings."""
        mean_per_s = (self.start_per_s + self.end_per_s) / 2
        return mean_per_s * self.duration_s if mean_per_s else 0.0

    def rate_per_s(self, elapsed_s: float) -> float:
        """Return the rate *elapsed_s* after its beginning."""
        return self.start_per_s + self._slope * elapsed_s

    def count(self, elapsed_s: float) -> float:
        """Return how many arrivals it has brought *elapsed_s* after its beginning."""
        return self.start_per_s * elapsed_s + self._slope * elapsed_s * elapsed_s / 2

    def time_s(self, count: float) -> float:
        """Return when it has brought *count*, which is at most `total`; the inverse of `count`."""
        if count <= 0:
            return 0.0
        # The root of count(x) = count, in the form that loses no digits for slopes near zero.
        root = math.sqrt(max(0.0, self.start_per_s**2 + 2 * self._slope * count))
        divisor = self.start_per_s + root
        return min(self.duration_s, 2 * count / divisor) if divisor else 0.0

    @property
    def _slope(self) -> float:
        return 0.0 if self.start_per_s == self.end_per_s else (self.end_per_s - self.start_per_s) / self.duration_s


@dataclass(frozen=True, slots=True)
class Profile:
    """Segments one after the other; nothing arrives after the last."""

    segments: tuple[Segment, ...]

    def rate_per_s(self, elapsed_s: float) -> float:
        """Return the rate at *elapsed_s*; at a border, the later segment's."""
        for segment in self.segments:
            if elapsed_s < segment.duration_s:
                return segment.rate_per_s(elapsed_s)
            elapsed_s -= segment.duration_s
        return 0.0

    def count(self, elapsed_s: float) -> float:
        """Return how many arrivals are due from 0 to *elapsed_s*."""
        due = 0.0
        for segment in self.segments:
            if elapsed_s < segment.duration_s:
                return due + segment.count(elapsed_s)
            due += segment.total
            elapsed_s -= segment.duration_s
        return due

    def find_time_s(self, count: float) -> float | None:
        """Return when *count* arrivals are due, or None if that many never are."""
        begin_s = due = 0.0
        for segment in self.segments:
            # Added up as in `count`, so that the very last arrival is not lost to rounding.
            if count <= due + segment.total:
                return begin_s + segment.time_s(count - due)
            due += segment.total
            begin_s += segment.duration_s
        return None


def constant(rate_per_s: float, duration_s: float = math.inf) -> Profile:
    """Return the same rate all the time."""
    return Profile((Segment(duration_s, rate_per_s, rate_per_s),))


def ramp(start_per_s: float, end_per_s: float, duration_s: float) -> Profile:
    """Return a rate that changes steadily."""
    return Profile((Segment(duration_s, start_per_s, end_per_s),))


def chain(*profiles: Profile) -> Profile:
    """Return *profiles* one after the other."""
    return Profile(tuple(segment for profile in profiles for segment in profile.segments))


def even_times_s(profile: Profile) -> Iterator[float]:
    """Yield the due times of the first, second, … arrival, spaced as evenly as the rate allows."""
    for number in itertools.count(1):
        due_s = profile.find_time_s(number)
        if due_s is None:
            return
        yield due_s


def poisson_times_s(profile: Profile, *, seed: int) -> Iterator[float]:
    """Yield the due times of independent arrivals at the profile's rate: a Poisson process, the same for a seed.

    Source: the time change of a unit-rate process by the cumulative rate (Cinlar, 1975).
    """
    source = random.Random(seed)
    reached = 0.0
    while True:
        reached += source.expovariate(1.0)
        due_s = profile.find_time_s(reached)
        if due_s is None:
            return
        yield due_s
