"""docs/configuration.md is the reference of every key, and its examples load."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapter.config.load import load_configuration
from adapter.config.schema import build_json_schema

REFERENCE = Path(__file__).parents[2] / "docs" / "configuration.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", REFERENCE.read_text(encoding="utf-8"), re.DOTALL)


def list_keys(schema: dict[str, Any], name: str, above: str = "") -> Iterator[str]:
    """Yield the keys of the definition *name*, those of its own mappings with a dot."""
    for key, child in schema["$defs"][name]["properties"].items():
        yield above + key
        if "$ref" in child:
            yield from list_keys(schema, child["$ref"].rpartition("/")[2], f"{above}{key}.")


def list_all_keys() -> list[str]:
    """Return every key that the tables of the reference must have."""
    schema = build_json_schema()
    nested = {"tls", "basicAuth", "guards"}
    keys = [*schema["properties"], *list_keys(schema, "BackendKeys"), *list_keys(schema, "MetricKeys")]
    return [key for key in keys if key not in nested]


@pytest.mark.parametrize("key", list_all_keys())
def test_reference_has_every_key(key: str) -> None:
    """Each key begins a row of a table."""
    rows = [line.split("|")[1] for line in REFERENCE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert any(f"`{key}`" in row for row in rows)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_reference_example_loads(text: str, tmp_path: Path) -> None:
    """Each YAML example is a configuration, where needed with a backend beside it."""
    path = tmp_path / "depthgauge.yaml"
    path.write_text(yaml.safe_dump({"prometheus": {"url": "http://p"}} | yaml.safe_load(text)))
    assert load_configuration(path).configuration.backends


def test_examples_are_found() -> None:
    """The reference has examples."""
    assert len(EXAMPLES) >= 3
