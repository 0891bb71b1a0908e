"""Arrival profiles are exact, and the instants that follow from them repeatable."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.arrivals import Profile, Segment, chain, constant, even_times_s, poisson_times_s, ramp

RATES = st.floats(0, 1_000).filter(lambda rate: rate == 0 or rate > 1e-3)
SEGMENTS = st.builds(Segment, st.floats(0.01, 100), RATES, RATES)
PROFILES = st.builds(Profile, st.lists(SEGMENTS, min_size=1, max_size=5).map(tuple))


@given(profile=PROFILES, part=st.floats(0, 1))
def test_profile_finds_the_time_at_which_a_count_is_reached(profile: Profile, part: float) -> None:
    """`find_time_s` is the inverse of `count`, over constant, rising and falling rates and pauses."""
    wanted = part * profile.count(math.inf)
    found_s = profile.find_time_s(wanted)
    assert found_s is not None
    assert profile.count(found_s) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@given(profile=PROFILES, times_s=st.lists(st.floats(0, 600), min_size=2))
def test_profile_count_never_falls(profile: Profile, times_s: list[float]) -> None:
    """More time never means fewer arrivals."""
    counts = [profile.count(time_s) for time_s in sorted(times_s)]
    assert all(later >= earlier - 1e-6 for earlier, later in itertools.pairwise(counts))


@pytest.mark.parametrize(
    ("profile", "elapsed_s", "count", "rate_per_s"),
    [
        pytest.param(constant(30), 2, 60, 30, id="constant"),
        pytest.param(ramp(0, 10, 10), 4, 8, 4, id="ramp-up"),
        pytest.param(ramp(10, 0, 10), 4, 32, 6, id="ramp-down"),
        pytest.param(chain(constant(5, 2), constant(0, 2), constant(1)), 3, 10, 0, id="pause"),
        pytest.param(chain(constant(5, 2), constant(0, 2), constant(1)), 6, 12, 1, id="after-a-pause"),
        pytest.param(constant(5, 2), 9, 10, 0, id="after-the-end"),
    ],
)
def test_profile_gives_count_and_rate_by_hand(
    profile: Profile, elapsed_s: float, count: float, rate_per_s: float
) -> None:
    """Counts and rates are those that pencil and paper give."""
    assert profile.count(elapsed_s) == pytest.approx(count)
    assert profile.rate_per_s(elapsed_s) == pytest.approx(rate_per_s)


def test_profile_keeps_its_last_arrival_whatever_the_rounding() -> None:
    """The sum of all segments is reached, also where adding and subtracting them round differently."""
    profile = Profile((Segment(1.0, 0.0, 1.0), Segment(21.3300753151103, 0.0, 3.0)))
    assert profile.find_time_s(profile.count(math.inf)) == pytest.approx(22.3300753151103)


def test_profile_finds_a_time_for_the_least_count_of_a_rate_that_begins_at_zero() -> None:
    """A count that underflows is due at once, and no division by zero."""
    assert ramp(0, 0.05, 1).find_time_s(5e-324) == 0.0


def test_profile_never_reaches_a_count_beyond_its_end() -> None:
    """Asking for one arrival too many finds no time, and not a wrong one."""
    assert constant(5, 2).find_time_s(10) == pytest.approx(2)
    assert constant(5, 2).find_time_s(10.001) is None
    assert constant(0).find_time_s(1) is None


def test_even_times_are_evenly_spaced() -> None:
    """At 4 a second for one second, something is due every quarter of a second, and then nothing more."""
    assert list(even_times_s(constant(4, 1))) == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_poisson_times_repeat_for_a_seed_and_differ_for_another() -> None:
    """A run can be repeated, and a second one be different."""
    profile = chain(constant(50, 2), ramp(50, 0, 2))
    first = list(poisson_times_s(profile, seed=1))
    assert first == list(poisson_times_s(profile, seed=1))
    assert first != list(poisson_times_s(profile, seed=2))
    assert first == sorted(first)


def test_poisson_times_have_the_mean_and_the_variance_of_a_poisson_process() -> None:
    """Counts over a second are 30 on average, and so is their variance: not even, not bursty (fixed seed)."""
    counts = [0] * 2_000
    for time_s in poisson_times_s(constant(30, len(counts)), seed=11):
        counts[min(len(counts) - 1, int(time_s))] += 1
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    assert mean == pytest.approx(30, rel=0.02)
    assert variance == pytest.approx(30, rel=0.1)


@pytest.mark.parametrize(
    ("duration_s", "start_per_s", "end_per_s"),
    [
        pytest.param(0, 1, 1, id="no-duration"),
        pytest.param(math.nan, 1, 1, id="nan-duration"),
        pytest.param(1, -1, 1, id="negative-rate"),
        pytest.param(1, 1, math.inf, id="infinite-rate"),
        pytest.param(math.inf, 1, 2, id="endless-ramp"),
    ],
)
def test_segment_refuses_what_has_no_meaning(duration_s: float, start_per_s: float, end_per_s: float) -> None:
    """A segment that could not be carried out is refused when it is written down."""
    with pytest.raises(ValueError, match=r"segment|rate"):
        Segment(duration_s, start_per_s, end_per_s)
