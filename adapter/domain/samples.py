"""What a backend answers, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Sample:
    """One series' value at one instant.

    *labels* are the series' labels without `__name__`; *value* is the backend's decimal text, untouched ("52443",
    "1e+06", "NaN"); *timestamp_s* is the instant it was evaluated for, in Unix seconds.
    """

    labels: Mapping[str, str]
    value: str
    timestamp_s: float


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The whole answer to one instant query; a scalar is one sample without labels.

    Source: Prometheus HTTP API, /api/v1/query, resultType vector or scalar. *infos* are left out: they are harmless.
    """

    samples: tuple[Sample, ...]
    kind: Literal["vector", "scalar"] = "vector"
    warnings: tuple[str, ...] = ()
    is_partial: bool = False
