"""Ask one question of a configuration, in this process, and read the answer as the API would give it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from adapter.cli.logs import silence_logs
from adapter.cli.terminal import print_error
from adapter.config.load import load_configuration
from adapter.config.problems import ConfigurationError
from adapter.domain.rules import Configuration
from adapter.errors import MetricError
from adapter.server.wire import build_error_status, build_value_list
from adapter.serving.provider import Question
from adapter.serving.trace import Trace
from adapter.wiring import Factory

Document = Mapping[str, Any]
"""An ExternalMetricValueList or a Status, as JSON."""


def load_or_exit(path: Path) -> Configuration:
    """Return the configuration at *path*, or print every problem on stderr and exit with 1."""
    try:
        return load_configuration(path).configuration
    except ConfigurationError as error:
        print_error(f"the configuration cannot be used:\n{error}")
        raise typer.Exit(1) from None


def ask(configuration: Configuration, question: Question, trace: Trace | None = None) -> Document:
    """Return what the API would answer to *question* now, by *configuration*; the steps go into *trace*."""
    silence_logs()
    return asyncio.run(_ask(configuration, question, trace))


async def _ask(configuration: Configuration, question: Question, trace: Trace | None) -> Document:
    generation = Factory().build_generation(configuration)
    try:
        return build_value_list(await generation.provider.fetch(question, trace), question.metric)
    except MetricError as error:
        return build_error_status(error, question.metric)
    finally:
        await generation.aclose()
