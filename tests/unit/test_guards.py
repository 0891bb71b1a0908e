"""Guards: what is refused before anyone scales on it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.answers import Answer
from adapter.domain.evidence import Evidence
from adapter.domain.guards import build_answer, check_result
from adapter.domain.quantity import LARGEST, Quantity
from adapter.domain.rules import Guards, Rule
from adapter.domain.samples import Sample
from adapter.errors import ExpectedOne, MetricError, Negative, NotFinite, NotRepresentable, Partial, TooManySeries
from tests.support.serving import NOW_S, rule, vector

A, B, C = {"partition": "a"}, {"partition": "b"}, {"partition": "c"}


def answer_of(samples: Sequence[Sample], checked: Rule) -> Answer:
    """Return what `build_answer` makes of *samples* without evidence of their age."""
    return build_answer(samples, checked, Evidence(tick_s=NOW_S))


def guarded(**guards: object) -> Rule:
    """Return a rule with these guards."""
    return rule("q", guards=Guards(**guards))  # type: ignore[arg-type]


def values(*texts: str) -> list[Sample]:
    """Return samples of these values, labelled in order."""
    return [Sample({"partition": chr(97 + index)}, text, NOW_S) for index, text in enumerate(texts)]


def test_p1_partial_result_is_refused_quoting_the_warning() -> None:
    """P1: a warning or `isPartial` means that a part may be missing."""
    result = replace(vector((A, "40")), warnings=("store 10.0.0.7 unavailable",))
    with pytest.raises(Partial) as caught:
        check_result(result, guarded())
    assert caught.value.warnings == ("store 10.0.0.7 unavailable",)
    assert "store 10.0.0.7 unavailable" in caught.value.describe()
    with pytest.raises(Partial):
        check_result(replace(vector((A, "40")), is_partial=True), guarded())


def test_p1_partial_result_passes_where_the_rule_allows_it() -> None:
    """P1: `allowPartial` is explicit, and then the result is unchanged."""
    result = replace(vector((A, "40")), warnings=("w",), is_partial=True)
    assert check_result(result, guarded(allow_partial=True)) is result


def test_empty_partial_result_is_partial_and_not_empty() -> None:
    """A part that came back empty says nothing about the whole."""
    with pytest.raises(Partial):
        check_result(replace(vector(), warnings=("w",)), guarded())


def test_too_many_series_is_refused_above_the_limit_only() -> None:
    """The limit itself is allowed; one more names both numbers."""
    result = vector((A, "1"), (B, "2"))
    assert check_result(result, guarded(max_series=2)) is result
    with pytest.raises(TooManySeries) as caught:
        check_result(result, guarded(max_series=1))
    assert (caught.value.got, caught.value.limit) == ("2 series", "1")


def test_v1_expect_one_refuses_several_and_takes_one() -> None:
    """V1: a rule that expects one item refuses three."""
    with pytest.raises(ExpectedOne) as caught:
        answer_of(values("5", "7", "9"), guarded(expect_one=True))
    assert caught.value.count == 3
    assert len(answer_of(values("5"), guarded(expect_one=True)).items) == 1


def test_v1_several_series_are_items_in_one_order() -> None:
    """V1: three items with distinct labels, in the same order however the backend ordered them."""
    for order in permutations(values("5", "7", "9")):
        answer = answer_of(order, guarded())
        assert [(item.labels["partition"], str(item.quantity)) for item in answer.items] == [
            ("a", "5"),
            ("b", "7"),
            ("c", "9"),
        ]
        assert all(item.timestamp_s == NOW_S for item in answer.items)


def test_v1_series_with_equal_labels_are_in_one_order_too() -> None:
    """Without `__name__` two series may look alike; replicas must still agree."""
    twins = [Sample(A, text, NOW_S) for text in ("5", "7", "10")]
    for order in permutations(twins):
        assert [str(item.quantity) for item in answer_of(order, guarded()).items] == ["10", "5", "7"]


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf"])
@pytest.mark.parametrize("negative", ["error", "clamp"])
def test_n1_n2_value_that_is_no_number_is_refused(text: str, negative: str) -> None:
    """N1, N2: NaN and the infinities are errors, also where negative values are clamped."""
    with pytest.raises(NotFinite) as caught:
        answer_of([Sample(A, text, NOW_S)], replace(rule("q"), negative=negative))  # type: ignore[arg-type]
    assert (caught.value.value, caught.value.labels) == (text, A)


def test_n8_negative_value_is_refused_or_clamped() -> None:
    """N8: -1 is an error that names value and series; with `negative: clamp` it is 0."""
    with pytest.raises(Negative) as caught:
        answer_of([Sample(A, "-1", NOW_S)], rule("q"))
    assert (caught.value.value, caught.value.labels) == ("-1", A)
    clamped = answer_of(values("-1", "3", "-1e-30"), replace(rule("q"), negative="clamp"))
    assert [str(item.quantity) for item in clamped.items] == ["0", "3", "0"]


def test_n8_negative_zero_and_tiny_negatives() -> None:
    """-0 is 0; what is below zero at all is negative, however little."""
    assert str(answer_of(values("-0"), rule("q")).items[0].quantity) == "0"
    with pytest.raises(Negative):
        answer_of(values("-1e-30"), rule("q"))


def test_n5_item_above_the_bound_is_refused_and_the_bound_itself_is_exact() -> None:
    """N5: 9223372036854775 is served exactly, anything above names value, limit and series."""
    assert answer_of(values(str(LARGEST)), rule("q")).items[0].quantity == Quantity(LARGEST * 10**9)
    with pytest.raises(NotRepresentable) as caught:
        answer_of(values("1", "2.5e18"), rule("q"))
    assert caught.value.labels == B
    assert caught.value.value == "2500000000000000000"
    assert caught.value.limit == str(LARGEST)


def test_n5_sum_above_the_bound_is_refused() -> None:
    """N5: two items that fit alone but wrap when the HPA adds them."""
    with pytest.raises(NotRepresentable) as caught:
        answer_of(values(str(LARGEST), "0.001"), rule("q"))
    assert caught.value.labels is None
    assert len(answer_of(values(str(LARGEST - 1), "1"), rule("q")).items) == 2


@given(
    st.lists(st.sampled_from(["0", "5", "329.5", "1e+06"]), max_size=4),
    st.sampled_from(["NaN", "+Inf", "-Inf", "-1", "1e19", "x"]),
    st.data(),
)
def test_one_bad_item_fails_the_whole_answer_wherever_it_stands(good: list[str], bad: str, data: st.DataObject) -> None:
    """Never a partial list: any order of good and bad items gives the same error and no answer."""
    rows = [Sample({"p": str(index)}, text, NOW_S) for index, text in enumerate([*good, bad])]
    with pytest.raises(MetricError) as caught:
        answer_of(data.draw(st.permutations(rows)), rule("q"))
    with pytest.raises(MetricError) as again:
        answer_of(rows, rule("q"))
    assert type(caught.value) is type(again.value)
    assert caught.value.describe() == again.value.describe()
