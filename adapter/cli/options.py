"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        help="The configuration: a YAML file, or a directory of them.",
        envvar="DEPTHGAUGE_CONFIG",
        show_default=False,
    ),
]
