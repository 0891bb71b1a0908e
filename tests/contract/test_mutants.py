"""Planted faults are caught: each mutation of one line makes some test fail that passes without it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 100

MUTANTS = [
    pytest.param(
        "domain/matchers.py",
        "return f'\"{_UNSAFE.sub(_escape, text)}\"'",
        "return f'\"{text}\"'",
        "tests/unit/test_matchers.py",
        id="unescaped-value",
    ),
    pytest.param(
        "domain/matchers.py",
        'return _RE2_META.sub(r"\\\\\\g<0>", text)',
        "return text",
        "tests/unit/test_matchers.py",
        id="unescaped-regex",
    ),
    pytest.param(
        "domain/quantity.py",
        "if 2 * rest > divisor or (2 * rest == divisor and kept % 2):",
        "if 2 * rest >= divisor:",
        "tests/unit/test_quantity.py",
        id="rounded-quantity",
    ),
    pytest.param(
        "domain/quantity.py",
        "return max(kept, 1)",
        "return kept",
        "tests/unit/test_quantity.py",
        id="truncated-to-zero",
    ),
    pytest.param(
        "server/routes.py",
        "        return build_error_reply(outcome, metric, is_pretty=is_pretty)\n",
        "        outcome = Answer(items=())\n",
        "tests/unit/test_routes.py",
        id="lost-status",
    ),
    pytest.param(
        "domain/selection.py",
        "missing = _find_missing_label(selection, existing)",
        "return samples",
        "tests/unit/test_selection.py",
        id="selector-ignored",
    ),
    pytest.param(
        "domain/guards.py",
        "check_representable([item.quantity",
        "list([item.quantity",
        "tests/unit/test_guards.py",
        id="sum-not-checked",
    ),
]


@pytest.mark.parametrize(("module", "line", "planted", "tests"), MUTANTS)
def test_planted_fault_is_caught(tmp_path: Path, module: str, line: str, planted: str, tests: str) -> None:
    """A test of the module fails for this fault, and passes without it."""
    for folder in ("adapter", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "contract", "services", "e2e")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert run_tests(tmp_path, tests) == 0
    source = tmp_path / "adapter" / module
    text = source.read_text()
    assert text.count(line) == 1, f"{module} has changed: mend the mutant"
    source.write_text(text.replace(line, planted))
    assert run_tests(tmp_path, tests) == 1


def run_tests(root: Path, tests: str) -> int:
    """Return pytest's exit code for *tests* of the copy at *root*: 0 passed, 1 some failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "HYPOTHESIS_PROFILE": "fast"}
    ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, timeout=DEADLINE_S, check=False)
    return ended.returncode
