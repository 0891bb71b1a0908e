"""What a request is answered with: items whose numbers the HPA can hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from adapter.domain.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Item:
    """One external metric value; *timestamp_s* is in Unix seconds."""

    labels: Mapping[str, str]
    timestamp_s: float
    quantity: Quantity


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, never a part of one; the items are in a stable order."""

    items: Sequence[Item]
