"""`depthgauge schema`."""

import json

import typer


def schema() -> None:
    """Print the JSON Schema of a configuration.

    For editors, and for checks before a commit.

    Examples:
      depthgauge schema > depthgauge.schema.json
      # then, as the first line of depthgauge.yaml:
      # yaml-language-server: $schema=depthgauge.schema.json
    """
    from adapter.config.schema import build_json_schema

    typer.echo(json.dumps(build_json_schema(), indent=2, ensure_ascii=False))
