"""The `depthgauge` command: one module for each of its commands."""

from adapter.cli.program import main

__all__ = ["main"]
