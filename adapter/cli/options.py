"""Options that several commands share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

_CONFIG_VARIABLE: Final = "DEPTHGAUGE_CONFIG"
_CONFIG_HELP: Final = "The configuration: a YAML file, or a directory of them."


class Output(StrEnum):
    """How a command prints its answer."""

    TEXT = "text"
    JSON = "json"


class ValueOutput(StrEnum):
    """The same, for a command whose answer has values."""

    TEXT = "text"
    JSON = "json"
    VALUE = "value"


def complete_metric(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the configuration's metrics that begin with *incomplete*, for the shell."""
    from adapter.config.load import load_configuration
    from adapter.config.problems import ConfigurationError

    path = ctx.params.get("config") or os.environ.get(_CONFIG_VARIABLE)
    if not path:
        return []
    try:
        rules = load_configuration(Path(path)).configuration.rules
    except (ConfigurationError, OSError):
        return []
    return sorted(rule.name for rule in rules.values() if rule.name.startswith(incomplete))


ConfigOption = Annotated[
    Path,
    typer.Option("--config", "-c", metavar="PATH", help=_CONFIG_HELP, envvar=_CONFIG_VARIABLE, show_default=False),
]
OptionalConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="PATH", help=_CONFIG_HELP, envvar=_CONFIG_VARIABLE, show_default=False),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print the answer.")]
MetricArgument = Annotated[
    str,
    typer.Argument(
        metavar="METRIC", help="The metric's name, in any case.", show_default=False, autocompletion=complete_metric
    ),
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace that asks: the HPA's.")
]
SelectorOption = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        metavar="SELECTOR",
        help="A Kubernetes label selector, as in queue=orders,tier!=test.",
        show_default=False,
    ),
]
