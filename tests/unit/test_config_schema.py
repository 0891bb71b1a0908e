"""The JSON Schema agrees with what is loaded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from adapter.config.load import load_configuration
from adapter.config.problems import ConfigurationError
from adapter.config.schema import build_json_schema

GOOD = """\
prometheus: {url: "http://p:9090/x", timeout: 5s, maxConcurrency: 3, params: {dedup: "true"}}
backends: {b: {url: "https://b", tls: {serverName: b}}}
resolution: 5s
metrics:
- {name: a, query: q, namespace: any, hold: 0, empty: error}
- {name: b, query: q, backend: b, namespace: {label: ns}, labels: {a: b}, aliases: {a: {b: /c}}}
- {name: c, query: q, namespace: [team-a], negative: clamp, guards: {maxSeries: 5, maxAge: 0s}}
externalRules:
- {seriesQuery: d, resources: {namespaced: false}, metricsQuery: q, seriesFilters: [{isNot: x}], name: {as: d}}
rules: [{seriesQuery: x}]
resourceRules: {cpu: {}}
"""


def test_schema_is_valid_and_describes_every_key() -> None:
    """It is JSON Schema 2020-12, forbids unknown keys and describes each known one."""
    schema = build_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    objects = list(_list_objects(schema))
    assert len(objects) > 10
    for properties in objects:
        assert properties["additionalProperties"] is False
        for key, child in properties["properties"].items():
            assert child.get("description"), key
            assert child.get("default", "") is not None, key


def test_schema_accepts_what_loads(tmp_path: Path) -> None:
    """A configuration with every form of every union passes both."""
    path = tmp_path / "depthgauge.yaml"
    path.write_text(GOOD)
    assert len(load_configuration(path).configuration.rules) == 4
    jsonschema.validate(yaml.safe_load(GOOD), build_json_schema(), jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "text",
    [
        "prometheus: {url: ftp://p}",
        "prometheus: {url: http://p, timeout: 5x}",
        "prometheus: {url: http://p, timeout: ''}",
        "prometheus: {url: http://p, timeout: null}",
        "prometheus: {timeout: 5s}",
        "prometheus: {url: http://u@p}",
        "resolution: 5",
        "metrics: {}",
        "metrics: [{name: a}]",
        "metrics: [{name: a/b, query: q}]",
        "metrics: [{name: .., query: q}]",
        "metrics: [{name: a, query: ' '}]",
        "metrics: [{name: a, query: q, namespace: team}]",
        "metrics: [{name: a, query: q, namespace: []}]",
        "metrics: [{name: a, query: q, guards: {maxSeries: 0}}]",
        "metrics: [{name: a, query: q, negative: zero}]",
        "metrics: [{name: a, query: q, nope: 1}]",
        "externalRules: [{seriesQuery: a}]",
        "nope: 1",
    ],
)
def test_schema_and_loading_refuse_the_same(tmp_path: Path, text: str) -> None:
    """What an editor would underline, loading refuses too."""
    document = {"prometheus": {"url": "http://p"}, **yaml.safe_load(text)}
    assert list(jsonschema.Draft202012Validator(build_json_schema()).iter_errors(document))
    path = tmp_path / "depthgauge.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigurationError):
        load_configuration(path)


def _list_objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (each for each in (schema, *schema["$defs"].values()) if "properties" in each)
