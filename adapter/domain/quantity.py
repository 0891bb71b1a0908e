"""Prometheus' decimal text → exact decimal → canonical Kubernetes Quantity, with no binary float on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from adapter.errors import BackendRefused, NotFinite, NotRepresentable

LARGEST: Final = 9_223_372_036_854_775
"""The largest whole value whose milli-units fit an int64. The HPA computes in those, and they wrap silently above."""

NANOS_PER_UNIT: Final = 10**9

_LARGEST_NANOS: Final = LARGEST * NANOS_PER_UNIT
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})

_DECIMAL: Final = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?")
# What Go's strconv.ParseFloat takes beside numbers; Prometheus itself prints NaN, +Inf and -Inf.
_NOT_FINITE: Final = re.compile(r"nan|[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII)

# A float64 has at most 1077 characters when written out in full, and 309 digits before the point.
_TEXT_LIMIT_CHARS: Final = 2_000
_WHOLE_DIGITS_LIMIT: Final = 400
_HOT_DIGITS: Final = 15

_SUFFIXES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact decimal in whole nano-units, the finest that a Kubernetes Quantity can hold. `str()` is canonical."""

    nanos: int

    @property
    def is_negative(self) -> bool:
        """Tell whether the value is below zero."""
        return self.nanos < 0

    @property
    def is_zero(self) -> bool:
        """Tell whether the value is exactly zero."""
        return self.nanos == 0

    def clamped_at_zero(self) -> Quantity:
        """Return zero for a negative value, else the value itself."""
        return ZERO if self.nanos < 0 else self

    def plain(self) -> str:
        """Return the value as a plain decimal without exponent or suffix, such as `-329.5`."""
        units, nanos = divmod(abs(self.nanos), NANOS_PER_UNIT)
        sign = "-" if self.nanos < 0 else ""
        return f"{sign}{units}.{nanos:09d}".rstrip("0") if nanos else f"{sign}{units}"

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos)

    def __str__(self) -> str:
        """Return what `resource.Quantity` prints as DecimalSI: the largest suffix that leaves a whole number."""
        nanos = self.nanos
        units, rest = divmod(nanos, NANOS_PER_UNIT)
        if rest == 0 and units % 1000:
            return str(units)
        if nanos == 0:
            return "0"
        thousands = 0
        while thousands < len(_SUFFIXES) - 1 and nanos % 1000 == 0:
            nanos //= 1000
            thousands += 1
        return f"{nanos}{_SUFFIXES[thousands]}"


ZERO: Final = Quantity(0)


def parse_sample_value(text: str, labels: Mapping[str, str] = _NO_LABELS) -> Quantity:
    """Return the Quantity of a sample value as Prometheus prints it.

    Exact down to a nano-unit; finer values round half to even, but one that is not zero never becomes zero: the least
    is one nano-unit with the value's sign. *labels* are the sample's, for the error. The result may still be above
    `LARGEST`: `check_representable` judges that.

    Raises: NotFinite for NaN and the infinities, NotRepresentable where no float64 is that large, BackendRefused for
            text that is no number.
    Source: Prometheus HTTP API, "Expression query result formats"; rounding: docs/architecture.md, "Numbers".
    """
    if len(text) <= _HOT_DIGITS and text.isdigit() and text.isascii():
        return Quantity(int(text) * NANOS_PER_UNIT)
    match = _DECIMAL.fullmatch(text) if len(text) <= _TEXT_LIMIT_CHARS else None
    if match is None:
        if _NOT_FINITE.fullmatch(text):
            raise NotFinite(value=text, labels=labels)
        raise BackendRefused(detail=f"a sample value that is not a number: {text[:80]!r}")
    sign, whole, fraction, bare_fraction, exponent = match.groups()
    fraction = bare_fraction or fraction or ""
    digits = ((whole or "") + fraction).lstrip("0")
    if not digits:
        return ZERO
    shift = int(exponent or 0) - len(fraction) + 9
    if len(digits) + shift > _WHOLE_DIGITS_LIMIT:
        raise NotRepresentable(value=text, limit=str(LARGEST), labels=labels)
    nanos = _scale(digits, shift)
    return Quantity(-nanos if sign == "-" else nanos)


def check_representable(quantities: Sequence[Quantity], labels: Sequence[Mapping[str, str]] = ()) -> Sequence[Quantity]:
    """Return *quantities*, the items of one answer, if the HPA can hold each of them and their sum.

    Shape:  *labels* are the items' own, in the same order, for the error; without them the item is not named.
    Units:  whole units; the bound is `LARGEST`, on either side of zero, and is itself allowed.
    Raises: NotRepresentable; with `labels=None` where no item alone but the sum is too large.
    Source: the HPA adds up int64 milli-units in the order of the items and does not notice a wrap.
    """
    for index, quantity in enumerate(quantities):
        if not -_LARGEST_NANOS <= quantity.nanos <= _LARGEST_NANOS:
            item_labels = labels[index] if index < len(labels) else _NO_LABELS
            raise NotRepresentable(value=quantity.plain(), limit=str(LARGEST), labels=item_labels)
    total = 0
    for quantity in quantities:
        total += quantity.nanos
        if not -_LARGEST_NANOS <= total <= _LARGEST_NANOS:
            whole = Quantity(sum(item.nanos for item in quantities))
            raise NotRepresentable(value=whole.plain(), limit=str(LARGEST))
    return quantities


def _scale(digits: str, shift: int) -> int:
    """Return *digits* times ten to the *shift*, rounded half to even and at least 1. *digits* has no leading zero."""
    if shift >= 0:
        factor: int = 10**shift
        return int(digits) * factor
    dropped = -shift
    if dropped > len(digits):
        return 1
    divisor: int = 10**dropped
    kept, rest = divmod(int(digits), divisor)
    if 2 * rest > divisor or (2 * rest == divisor and kept % 2):
        kept += 1
    return max(kept, 1)
