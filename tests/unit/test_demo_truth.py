"""The lag of a number is how long ago the queue last had that depth."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.truth import DepthHistory


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Return its time."""
        return self.now_s


def build_history(clock: HandClock, depths: list[int], *, step_s: float = 1.0, kept_s: float = 300.0) -> DepthHistory:
    """Return a history in which each of *depths* lasted *step_s*; the last one lasts now, for no time yet."""
    history = DepthHistory(clock_s=clock, kept_s=kept_s)
    for number, depth in enumerate(depths):
        clock.now_s += step_s if number else 0.0
        history.record(depth)
    return history


@pytest.mark.parametrize(
    ("value", "lag_s"),
    [
        pytest.param("8", 0.0, id="has-it-now"),
        pytest.param("7", 0.0, id="had-it-until-now"),
        pytest.param("5", 2.0, id="had-it-on-the-way"),
        pytest.param("0", None, id="never-had-it"),
        pytest.param("6.5", None, id="no-whole-number"),
        pytest.param("-5", None, id="negative"),
        pytest.param("NaN", None, id="nan"),
    ],
)
def test_history_finds_how_long_ago_a_rising_queue_had_a_depth(value: str, lag_s: float | None) -> None:
    """On a rising queue the lag is exact, counted from the end of that depth; a depth that never was has none."""
    history = build_history(HandClock(), [4, 5, 6, 7, 8])
    assert history.find_lag_s(Decimal(value)) == lag_s


def test_history_counts_from_the_latest_time_where_a_depth_came_twice() -> None:
    """Up and down over the same depth, the later one counts."""
    history = build_history(HandClock(), [5, 6, 7, 6, 5, 4])
    assert history.find_lag_s(Decimal(6)) == 1.0


def test_history_grows_older_while_nothing_changes() -> None:
    """A number that is served on and on lags more and more; the true one does not."""
    clock = HandClock()
    history = build_history(clock, [5, 6])
    clock.now_s += 30
    assert history.find_lag_s(Decimal(5)) == 30.0
    assert history.find_lag_s(Decimal(6)) == 0.0


def test_history_forgets_what_is_older_than_the_window_but_not_what_lasts_into_it() -> None:
    """Memory is bounded, and the depth that held when the window began is still known."""
    clock = HandClock()
    history = build_history(clock, [1, 2, 3], step_s=10.0, kept_s=15.0)
    assert history.find_lag_s(Decimal(1)) == 10.0
    clock.now_s += 10
    history.record(4)
    assert history.find_lag_s(Decimal(1)) is None
    assert history.find_lag_s(Decimal(2)) == 10.0


@given(depths=st.lists(st.integers(0, 20), min_size=1, max_size=50), wait_s=st.floats(0, 5))
def test_history_never_calls_a_depth_unknown_that_was(depths: list[int], wait_s: float) -> None:
    """Every depth that was recorded has a lag, and it is the time since its last end."""
    clock = HandClock()
    history = build_history(clock, depths)
    clock.now_s += wait_s
    for depth in set(depths):
        changes_since = len(depths) - 1 - max(index for index, seen in enumerate(depths) if seen == depth)
        expected_s = 0.0 if changes_since == 0 else changes_since - 1 + wait_s
        assert history.find_lag_s(Decimal(depth)) == pytest.approx(expected_s)
