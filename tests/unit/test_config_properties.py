"""Whatever a file holds, loading gives a configuration or problems that say where."""

import json
import math
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapter.config.durations import BadDuration, parse_duration_s
from adapter.config.load import load_sources
from adapter.config.problems import ConfigurationError, Problem
from adapter.config.sources import Source, Sources

FILE = Path("depthgauge.yaml")

VOCABULARY = (
    "prometheus url backends resolution metrics externalRules rules name query namespace labels aliases guards "
    "maxAge minSeries empty zeroWhile hold negative seriesQuery metricsQuery resources overrides template resource "
    "seriesFilters is isNot as matches tls headers params triggers q http://p 5s 0 -1 any error null true ~ "
    "$matchers $namespace <<.Series>> <<.LabelMatchers>> << >> {__name__=~'x'} q{a='b'} : - [ ] { } & * ! | > ' # "
    "% @ , &a *a !!int !!python/name:x --- ... ? 1:30 0x1f .nan .inf 2020-01-01 \t"
)
WORDS = st.sampled_from(VOCABULARY.split(" "))
YAML_TEXT = st.lists(st.tuples(WORDS, st.sampled_from([" ", ": ", "\n", "\n  ", "\n- ", "\n  - ", ""]))).map(
    lambda parts: "".join(word + blank for word, blank in parts)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | WORDS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(WORDS | st.text(), children, max_size=6),
    max_leaves=15,
)
TOP_KEYS = ["prometheus", "backends", "resolution", "metrics", "externalRules", "rules", "resourceRules", "triggers"]


def load_or_list(content: bytes) -> list[Problem]:
    """Return the problems of *content*; none if it loads."""
    try:
        load_sources(Sources(FILE, (Source(FILE, content),)))
    except ConfigurationError as error:
        return list(error.problems)
    return []


def check_problems(content: bytes) -> None:
    """Check that each problem of *content* is one line that says where."""
    lines = content.count(b"\n") + content.count(b"\r") + content.decode("utf-8", "ignore").count("\x85") + 2
    for problem in load_or_list(content):
        assert problem.file == str(FILE)
        assert 1 <= problem.line <= lines + content.count(b"\xe2\x80")
        assert problem.detail
        assert len(str(problem).splitlines()) == 1


@given(st.binary(max_size=200))
def test_arbitrary_bytes_load_or_are_refused(content: bytes) -> None:
    """Bytes of any kind never raise anything but ConfigurationError."""
    check_problems(content)


@given(YAML_TEXT | st.text())
def test_arbitrary_text_loads_or_is_refused(text: str) -> None:
    """Text that looks like YAML never raises anything but ConfigurationError."""
    check_problems(text.encode("utf-8", "surrogatepass"))


@given(st.dictionaries(st.sampled_from(TOP_KEYS), JSON))
def test_arbitrary_values_load_or_are_refused(document: dict[str, Any]) -> None:
    """Any value under any top-level key never raises anything but ConfigurationError."""
    check_problems(json.dumps(document).encode())


METRIC_KEYS = ("backend", "namespace", "labels", "aliases", "empty", "negative", "hold", "guards", "other")
METRICS = st.lists(
    st.fixed_dictionaries(
        {"name": WORDS | st.text(), "query": WORDS | st.text()}, optional=dict.fromkeys(METRIC_KEYS, JSON)
    ),
    max_size=3,
)
NAMING = st.fixed_dictionaries(
    {},
    optional={"matches": st.text(alphabet="q()[]|*+?^$.\\x{}:<>=P1"), "as": st.text(alphabet="${}1_ax")},
)
EXTERNAL = st.lists(
    st.fixed_dictionaries(
        {"seriesQuery": WORDS | st.text(), "metricsQuery": WORDS | st.text()},
        optional={
            "name": NAMING,
            "resources": JSON | st.fixed_dictionaries({"template": WORDS | st.text()}) | st.just({"namespaced": False}),
            "seriesFilters": st.lists(st.dictionaries(st.sampled_from(["is", "isNot"]), st.text()), max_size=2),
        },
    ),
    max_size=3,
)


@given(METRICS, EXTERNAL)
def test_arbitrary_rules_load_or_are_refused(metrics: list[Any], external: list[Any]) -> None:
    """Rules with the right keys and any values never raise anything but ConfigurationError."""
    document = {"prometheus": {"url": "http://p"}, "metrics": metrics, "externalRules": external}
    check_problems(json.dumps(document).encode())


@given(st.text(alphabet="0123456789ywdhms.- "))
def test_duration_is_a_finite_number_of_seconds_or_refused(text: str) -> None:
    """No text gives a negative or infinite duration."""
    try:
        duration_s = parse_duration_s(text)
    except BadDuration:
        return
    assert 0 <= duration_s < math.inf
