"""Rules: found in any spelling, and a miss that is cheap however many there are."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.rules import Configuration
from adapter.errors import UnknownMetric
from tests.support.serving import rule


def configure(*names: str) -> Configuration:
    """Return a configuration with rules of these names."""
    each = rule("q")
    rules = {name.lower(): type(each)(name=name, query=each.query, shape=each.shape) for name in names}
    return Configuration(backends={}, rules=rules)


@pytest.mark.parametrize("metric", ["JobsQueued", "jobsqueued", "JOBSQUEUED"])
def test_m1_rule_is_found_in_any_spelling(metric: str) -> None:
    """M1: the HPA's client lower-cases what the configuration spells otherwise."""
    assert configure("JobsQueued", "other").get_rule(metric).name == "JobsQueued"


@pytest.mark.parametrize(
    ("metric", "near"),
    [
        ("jobsqueud", ("JobsQueued",)),
        ("xobsqueued", ("JobsQueued",)),
        ("jobsqueuex", ("JobsQueued",)),
        ("nothing_like_it", ()),
        ("", ()),
        ("j" * 5000, ()),
    ],
)
def test_unknown_metric_names_what_looks_like_it(metric: str, near: tuple[str, ...]) -> None:
    """A typo is told the name that was meant, spelled as configured."""
    with pytest.raises(UnknownMetric) as caught:
        configure("JobsQueued", "other").get_rule(metric)
    assert caught.value.near == near


@pytest.mark.parametrize("metric", ["queue_depth_of_service_x", "queue_depth_of_service_" + "9" * 60, "zzz" * 20_000])
def test_unknown_metric_stays_cheap_with_ten_thousand_rules(metric: str) -> None:
    """A 404 may not hold the event loop: an HPA for a removed rule asks for ever."""
    configuration = configure(*(f"queue_depth_of_service_{index}" for index in range(10_000)))
    start_s = time.perf_counter()
    for _ in range(10):
        with pytest.raises(UnknownMetric):
            configuration.get_rule(metric)
    assert (time.perf_counter() - start_s) / 10 < 0.05


@given(st.text(max_size=120))
def test_lookup_of_any_text_finds_its_rule_or_none(metric: str) -> None:
    """No text is a fault."""
    configuration = configure("jobs", "queue_depth")
    if metric.lower() in configuration.rules:
        assert configuration.get_rule(metric).name == metric.lower()
    else:
        with pytest.raises(UnknownMetric):
            configuration.get_rule(metric)
