"""`python -m loadgen.parts`."""

from loadgen.parts.cli import app

app(prog_name="python -m loadgen.parts")
