"""Numbers: compared with the real Kubernetes library (tests/vectors), with `decimal`, and with themselves."""

import json
import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adapter.domain.quantity import LARGEST, NANOS_PER_UNIT, ZERO, Quantity, check_representable, parse_sample_value
from adapter.errors import BackendRefused, NotFinite, NotRepresentable

VECTORS = Path(__file__).parents[1] / "vectors" / "quantities.json"
LABELS = {"queue": "orders"}
WIDE = Context(prec=1200, Emax=10_000, Emin=-10_000)
SUFFIX_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def read_canonical(text: str) -> Decimal:
    """Return the value of a canonical Quantity, read by nothing but a table of suffixes."""
    suffix = text[-1] if text[-1].isalpha() else ""
    return WIDE.scaleb(Decimal(text.removesuffix(suffix)), SUFFIX_EXPONENTS[suffix])


def round_to_nano(text: str) -> Decimal:
    """Return *text* rounded half to even at the ninth place, but a value that is not zero never to zero."""
    with localcontext(WIDE):
        exact = Decimal(text)
        rounded = exact.quantize(Decimal("1e-9"), rounding=ROUND_HALF_EVEN)
        return rounded if rounded or not exact else Decimal("1e-9").copy_sign(exact)


def format_as_prometheus(value: float) -> str:
    """Return *value* as strconv.FormatFloat(value, 'f', -1, 64) does, without exponent."""
    return format(Decimal(repr(value)), "f")


floats = st.floats(allow_nan=False, allow_infinity=False)
served_floats = st.floats(min_value=0, max_value=float(LARGEST - 1))
decimal_texts = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{whole}{fraction}{exponent}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**18).map(str),
    st.just("") | st.from_regex(r"\.[0-9]{0,12}", fullmatch=True) | st.from_regex(r"\.[0-9]{9}50{0,3}", fullmatch=True),
    st.just("") | st.integers(-30, 30).map(lambda exponent: f"e{exponent:+03d}"),
)
sample_texts = st.one_of(decimal_texts, floats.map(repr), floats.map(format_as_prometheus))
quantities = st.integers(-(10**30), 10**30).map(Quantity)


def find_kind(text: str) -> tuple[str, Quantity | None]:
    """Return the vectors' word for what becomes of *text*, and its Quantity."""
    try:
        quantity = parse_sample_value(text)
    except NotFinite:
        return "notFinite", None
    except BackendRefused:
        return "refused", None
    try:
        check_representable([quantity])
    except NotRepresentable:
        return "large", quantity
    return "ok", quantity


def test_vectors_agree_with_the_kubernetes_library() -> None:
    """Every number is judged, rounded and printed as resource.Quantity prints it, and reaches the HPA unwrapped."""
    cases = json.loads(VECTORS.read_text("utf-8"))
    wrong = []
    for text, kind, canonical, milli in cases:
        got_kind, quantity = find_kind(text)
        got_canonical = None if canonical is None else str(quantity)
        got_milli = None if milli is None or quantity is None else math.ceil(quantity.nanos / Decimal(10**6))
        if (got_kind, got_canonical, got_milli) != (kind, canonical, milli):
            wrong.append(f"{text!r}: expected {kind} {canonical} {milli}, got {got_kind} {got_canonical} {got_milli}")
    assert len(cases) >= 3000
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:10])


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=text) for text in ("NaN", "+Inf", "-Inf", "Inf", "nan", "infinity")]
)
def test_n1_not_finite_is_refused_with_value_and_series(text: str) -> None:
    """NaN and the infinities raise NotFinite, which names Prometheus' own text and the series."""
    with pytest.raises(NotFinite) as caught:
        parse_sample_value(text, LABELS)
    assert (caught.value.value, caught.value.labels) == (text, LABELS)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9223372036854775", id="at the bound"),
        pytest.param("-9223372036854775", id="at the negative bound"),
        pytest.param("9223372036854774.999999999", id="one nano below"),
        pytest.param("9.223372036854775e+15", id="with exponent"),
        pytest.param("9223372036854775.0000000005", id="rounded to the bound"),
    ],
)
def test_n5_at_the_bound_is_representable(text: str) -> None:
    """The largest value whose milli-units fit an int64 is served."""
    items = [parse_sample_value(text)]
    assert check_representable(items, [LABELS]) is items


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("9223372036854775.000000001", "9223372036854775.000000001", id="one nano above"),
        pytest.param("9223372036854776", "9223372036854776", id="one above"),
        pytest.param("-9223372036854776", "-9223372036854776", id="negative"),
        pytest.param("2.5e18", "2500000000000000000", id="the case"),
        pytest.param("9223372036854775807", "9223372036854775807", id="int64 max"),
        pytest.param("9223372036854775808", "9223372036854775808", id="int64 max plus one"),
        pytest.param("18446744073709551616", "18446744073709551616", id="wraps to zero in 64 bits"),
        pytest.param("18446744073709552", "18446744073709552", id="milli-units wrap to 384"),
        pytest.param("1.7976931348623157e+308", "17976931348623157" + "0" * 292, id="largest float64"),
    ],
)
def test_n5_above_the_bound_is_refused(text: str, shown: str) -> None:
    """A value whose milli-units wrap raises NotRepresentable with the plain value, the bound and the series."""
    with pytest.raises(NotRepresentable) as caught:
        check_representable([ZERO, parse_sample_value(text)], [{}, LABELS])
    error = caught.value
    assert (error.value, error.limit, error.labels) == (shown, "9223372036854775", LABELS)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("1e401", id="a little"),
        pytest.param("-1e5000", id="negative"),
        pytest.param("1e999999999999", id="by far"),
        pytest.param("1e" + "9" * 1900, id="endless exponent"),
    ],
)
def test_n5_beyond_any_float_is_refused_without_being_written_out(text: str) -> None:
    """An exponent that no float64 has is refused at once; nothing of that size is ever computed."""
    with pytest.raises(NotRepresentable) as caught:
        parse_sample_value(text, LABELS)
    assert (caught.value.value, caught.value.labels) == (text, LABELS)


@pytest.mark.parametrize(
    ("texts", "total"),
    [
        pytest.param(["9223372036854775", "1"], "9223372036854776", id="two items"),
        pytest.param(["9223372036854775", "0.000000001"], "9223372036854775.000000001", id="one nano too much"),
        pytest.param(["-9223372036854775", "-1"], "-9223372036854776", id="negative"),
        pytest.param(
            ["9223372036854775", "9223372036854775", "-9223372036854775"], "9223372036854775", id="on the way"
        ),
    ],
)
def test_n5_sum_above_the_bound_is_refused(texts: list[str], total: str) -> None:
    """Items that fit alone raise NotRepresentable without a series when the HPA's running sum would wrap."""
    with pytest.raises(NotRepresentable) as caught:
        check_representable([parse_sample_value(text) for text in texts], [LABELS] * len(texts))
    assert (caught.value.value, caught.value.labels) == (total, None)


def test_n5_sum_at_the_bound_is_representable() -> None:
    """A sum of exactly the bound is served, and so is no item at all."""
    items = [parse_sample_value(text) for text in ("9223372036854774.9", "0.1")]
    assert check_representable(items) == items
    assert check_representable([]) == []


def test_n7_large_value_is_exact() -> None:
    """A value just above what a 32-bit replica count times a tiny target holds is passed on exactly."""
    assert str(parse_sample_value("214748365")) == "214748365"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0.0004", "400u", id="the case"),
        pytest.param("0.0015", "1500u", id="not a whole milli"),
        pytest.param("0.000000001", "1n", id="one nano"),
        pytest.param("1e-10", "1n", id="finer than nano"),
        pytest.param("5e-324", "1n", id="smallest float64"),
        pytest.param("-5e-324", "-1n", id="smallest negative float64"),
        pytest.param("5e-10", "1n", id="half a nano is not rounded to the even zero"),
        pytest.param("1e-999999999999", "1n", id="finer than any float64"),
        pytest.param("2.5e-9", "2n", id="tie to even, down"),
        pytest.param("3.5e-9", "4n", id="tie to even, up"),
        pytest.param("-2.5e-9", "-2n", id="negative tie to even"),
        pytest.param("2.5000000001e-9", "3n", id="just above a tie"),
        pytest.param("3.0000000000000004", "3", id="no fourth replica"),
        pytest.param("2.9999999999999996", "3", id="just below three"),
    ],
)
def test_n10_tiny_value_is_never_truncated_to_zero(text: str, expected: str) -> None:
    """Values are exact to a nano-unit, finer ones round half to even, and only zero is zero."""
    assert str(parse_sample_value(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("52443", "52443", id="whole number"),
        pytest.param("329.5", "329500m", id="half"),
        pytest.param("140.226", "140226m", id="milli"),
        pytest.param("52000", "52k", id="thousands"),
        pytest.param("-52000", "-52k", id="negative thousands"),
        pytest.param("999999999999999", "999999999999999", id="longest on the short way"),
        pytest.param("1000000000000000", "1P", id="longer than that"),
    ],
)
def test_n11_number_is_printed_as_kubernetes_prints_it(text: str, expected: str) -> None:
    """Whole numbers carry no m suffix, and thousands get theirs."""
    assert str(parse_sample_value(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1e+06", "1M", id="exponent"),
        pytest.param("1.5e-05", "15u", id="negative exponent"),
        pytest.param("-0", "0", id="negative zero"),
        pytest.param("0.1", "100m", id="tenth"),
        pytest.param("0.30000000000000004", "300m", id="float noise"),
        pytest.param("1e+21", "1000E", id="beyond the last suffix"),
    ],
)
def test_n12_exponent_becomes_canonical(text: str, expected: str) -> None:
    """No exponent and no float's repr is left in the answer."""
    assert str(parse_sample_value(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=ascii(text[:10]))
        for text in (
            "",
            " ",
            "1 ",
            " 1",
            "1\n",
            "1_000",
            "\u0661",
            "²",
            "\uff11",
            "0x10",
            "1k",
            "1e",
            ".",
            "--1",
            "∞",
            "+NaN",
        )
    ],
)
def test_text_that_is_no_number_is_refused(text: str) -> None:
    """What Python's int() and float() would take and Prometheus never prints is the backend's fault, not a number."""
    with pytest.raises(BackendRefused) as caught:
        parse_sample_value(text)
    assert caught.value.detail == f"a sample value that is not a number: {text!r}"


def test_text_of_endless_digits_is_refused_and_quoted_shortly() -> None:
    """A backend that sends a megabyte of digits costs no arithmetic and no long message."""
    with pytest.raises(BackendRefused) as caught:
        parse_sample_value("9" * 1_000_000)
    assert len(caught.value.detail) < 200


def test_clamped_at_zero_touches_only_negative_values() -> None:
    """A negative value becomes zero; zero and positive values stay."""
    values = [Quantity(-1), ZERO, Quantity(1)]
    assert [value.clamped_at_zero() for value in values] == [ZERO, ZERO, Quantity(1)]
    assert [value.is_negative for value in values] == [True, False, False]
    assert [value.is_zero for value in values] == [False, True, False]


@given(sample_texts)
@example("0.0000000005")
@example("-1e-300")
def test_canonical_text_has_the_rounded_value(text: str) -> None:
    """What is printed, read back by a table of suffixes, is the exact value rounded once."""
    assert read_canonical(str(parse_sample_value(text))) == round_to_nano(text)


@given(sample_texts)
def test_plain_text_has_the_rounded_value(text: str) -> None:
    """The plain decimal in messages is the value itself, without exponent or trailing zeros."""
    plain = parse_sample_value(text).plain()
    assert Decimal(plain) == round_to_nano(text)
    assert plain == "0" or not plain.startswith(("-0", "00")) or plain.startswith("-0.")
    assert "." not in plain or not plain.endswith(("0", "."))


@given(quantities)
def test_canonical_text_uses_the_largest_suffix_that_leaves_a_whole_number(quantity: Quantity) -> None:
    """The mantissa is whole, and divisible by a thousand only where there is no larger suffix."""
    text = str(quantity)
    mantissa = int(text.rstrip("numkMGTPE"))
    assert mantissa % 1000 or text == "0" or text.endswith("E")


@given(sample_texts, sample_texts)
def test_order_is_preserved(first: str, second: str) -> None:
    """Rounding never swaps two values."""
    with localcontext(WIDE):
        if Decimal(first) > Decimal(second):
            first, second = second, first
    assert parse_sample_value(first) <= parse_sample_value(second)


@given(quantities, quantities)
def test_addition_is_exact(first: Quantity, second: Quantity) -> None:
    """A sum is the sum of the values, whatever their size."""
    total = read_canonical(str(first + second))
    assert total == WIDE.add(read_canonical(str(first)), read_canonical(str(second)))


@given(served_floats)
def test_representable_value_has_milli_units_within_an_int64(value: float) -> None:
    """What is served never wraps in the HPA, which rounds milli-units up."""
    (quantity,) = check_representable([parse_sample_value(repr(value))])
    assert 0 <= -(-quantity.nanos // (NANOS_PER_UNIT // 1000)) < 2**63


@given(st.text())
@example("9" * 5000)
@example("1e" + "9" * 5000)
def test_any_text_gives_a_quantity_or_one_of_three_errors(text: str) -> None:
    """No text of a backend raises anything that is not an answer."""
    try:
        quantity = parse_sample_value(text)
    except (NotFinite, NotRepresentable, BackendRefused):
        return
    assert str(quantity)
