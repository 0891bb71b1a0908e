"""The help that people read: in pipes, at 80 columns, quickly, and the same as in the documentation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapter.cli.program import app

COMMANDS = ("serve", "check", "get", "explain", "schema")
DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
WIDTH = 80


def read_help(*command: str) -> str:
    """Return the help as it is printed into a pipe, 80 columns wide."""
    result = CliRunner().invoke(app, [*command, "--help"], prog_name="depthgauge", terminal_width=WIDTH, color=False)
    assert result.exit_code == 0
    return result.stdout.strip()


def test_documentation_shows_the_help_of_every_command() -> None:
    """docs/cli.md holds each command's help word for word; UPDATE_DOCS=1 writes it there."""
    text = DOCUMENT.read_text()
    for command in ((), *((name,) for name in COMMANDS)):
        title = " ".join(("depthgauge", *command))
        block = re.compile(rf"(?<=^## `{title}`\n\n```text\n).*?(?=\n```$)", re.DOTALL | re.MULTILINE)
        assert block.search(text), f"docs/cli.md has no section for {title}"
        if os.environ.get("UPDATE_DOCS"):
            help_text = read_help(*command)
            text = block.sub(lambda _, new=help_text: new, text)
            DOCUMENT.write_text(text)
        documented = block.search(text)
        assert documented
        assert documented.group() == read_help(*command), (
            "run: UPDATE_DOCS=1 .venv/bin/pytest tests/unit/test_cli_help.py"
        )


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_that_stay_on_their_lines(command: str) -> None:
    """Every command shows how it is called, each call on a line of its own, nothing wider than the screen."""
    text = read_help(command)
    examples = text.partition("Examples:\n")[2].splitlines()
    assert examples[0].startswith("    ")
    assert f"depthgauge {command}" in examples[0]
    assert all(len(line) <= WIDTH for line in text.splitlines() if "curl" not in line)
    assert "\x1b" not in text


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "schema"])
def test_help_tells_the_exit_codes(command: str) -> None:
    """Scripts can rely on the exit codes, so the help lists them."""
    codes = re.findall(r"^ {4}(\d+) ", read_help(command).partition("Exit codes:\n")[2], re.MULTILINE)
    assert codes[:3] == ["0", "1", "2"]


def test_help_summaries_are_whole_sentences() -> None:
    """The list of commands is not cut off."""
    listed = read_help().partition("Commands:\n")[2]
    assert [line.split()[0] for line in listed.splitlines()] == list(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in listed.splitlines())


def test_help_loads_nothing_that_only_work_needs() -> None:
    """`--help` and completion answer at once: servers, clients and validators are loaded by the commands that work."""
    program = "import sys, adapter.cli.program; print('\\n'.join(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    )
    heavy = {
        "uvicorn",
        "uvloop",
        "fastapi",
        "starlette",
        "httpx",
        "pydantic",
        "kubernetes",
        "yaml",
        "rich",
        "promql_parser",
    }
    assert loaded & heavy == set()


def test_commands_without_arguments_show_the_help() -> None:
    """`depthgauge` alone lists the commands."""
    result = CliRunner().invoke(app, [])
    assert "Commands:" in result.output


def test_version_is_that_of_the_package() -> None:
    """`--version` names the program and its version."""
    assert re.fullmatch(r"depthgauge \d+\.\d+\.\d+\S*\n", CliRunner().invoke(app, ["--version"]).stdout)
