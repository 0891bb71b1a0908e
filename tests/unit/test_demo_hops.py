"""Kubernetes numbers and addresses, read and written as the HPA does."""

from decimal import Decimal

import pytest

from loadgen.hops import Reading, build_metric_url, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("0", "0", id="zero"),
        pytest.param("52443", "52443", id="plain"),
        pytest.param("52k", "52000", id="kilo"),
        pytest.param("1M", "1000000", id="mega"),
        pytest.param("329500m", "329.5", id="milli"),
        pytest.param("400u", "0.0004", id="micro"),
        pytest.param("1n", "0.000000001", id="nano"),
        pytest.param("2Ki", "2048", id="kibi"),
        pytest.param("1.5Gi", "1610612736", id="gibi"),
        pytest.param("1e3", "1000", id="exponent"),
        pytest.param("2E", "2000000000000000000", id="exa"),
        pytest.param("-1500m", "-1.5", id="negative"),
        pytest.param(".5", "0.5", id="no-leading-digit"),
    ],
)
def test_quantity_is_the_number_it_stands_for(text: str, value: str) -> None:
    """Every suffix means what Kubernetes means by it, exactly."""
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "k", "1x", "1 k", "1kk", "NaN", "Inf", "1e", "0x10", "1,5", "5\n"])
def test_quantity_refuses_anything_else(text: str) -> None:
    """What is no Quantity is an error, never a number that happens to be near."""
    with pytest.raises(ValueError, match="not a Quantity"):
        parse_quantity(text)


def test_metric_url_is_what_the_hpa_asks() -> None:
    """Path and selector are escaped."""
    assert build_metric_url("http://127.0.0.1:1", "a/b", selector="queue=orders,x in (1)", namespace="team") == (
        "http://127.0.0.1:1/apis/external.metrics.k8s.io/v1beta1/namespaces/team/a%2Fb"
        "?labelSelector=queue%3Dorders%2Cx+in+%281%29"
    )


@pytest.mark.parametrize(
    ("reading", "is_explicit"),
    [
        pytest.param(Reading(code=404, reason="NoSamples"), True, id="status-with-reason"),
        pytest.param(Reading(code=503), False, id="no-reason"),
        pytest.param(Reading(code=200, reason="NoSamples"), False, id="reason-with-200"),
        pytest.param(Reading(code=200, message="no items"), False, id="empty-list"),
        pytest.param(Reading(message="connection refused"), False, id="no-answer"),
        pytest.param(Reading(code=200, value=Decimal(0)), False, id="number"),
    ],
)
def test_reading_is_an_explicit_error_only_with_its_reason(reading: Reading, *, is_explicit: bool) -> None:
    """An empty list, silence and a bare 503 explain nothing."""
    assert reading.is_explicit_error is is_explicit
