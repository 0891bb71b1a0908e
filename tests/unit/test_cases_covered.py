"""Every fault that users reported, but for those of deployment, is a test named after its row."""

import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

CASES: dict[str, tuple[str, ...]] = {
    "Z1": ("support/contract_cases.py",),
    "Z2": ("unit/test_snapshot.py",),
    "Z3": (
        "unit/test_vouching.py",
        "unit/test_lint.py",
    ),
    "Z5": ("support/contract_cases.py",),
    "Z6": ("unit/test_zero.py",),
    "Z8": ("unit/test_evidence.py",),
    "Z9": ("support/contract_cases.py",),
    "Z10": ("support/contract_cases.py",),
    "Z13": ("support/contract_cases.py",),
    "N1": ("support/contract_cases.py",),
    "N2": ("support/contract_cases.py",),
    "N5": ("support/contract_cases.py",),
    "N7": ("support/contract_cases.py",),
    "N8": (
        "unit/test_vouching.py",
        "support/contract_cases.py",
    ),
    "N10": ("support/contract_cases.py",),
    "N11": ("support/contract_cases.py",),
    "N12": ("support/contract_cases.py",),
    "S1": (
        "unit/test_evidence.py",
        "services/test_guards_age_real.py",
    ),
    "S3": ("unit/test_held.py",),
    "S5": ("unit/test_vouching.py",),
    "S6": ("services/test_cases_real.py",),
    "P1": (
        "unit/test_guards.py",
        "unit/test_vouching.py",
    ),
    "P2": ("support/contract_cases.py",),
    "P4": (
        "unit/test_vouching.py",
        "services/test_guards_real.py",
    ),
    "L1": ("support/contract_cases.py",),
    "L2": (
        "support/contract_cases.py",
        "unit/test_selection.py",
    ),
    "L3": ("support/contract_cases.py",),
    "L4": ("support/contract_cases.py",),
    "L6": ("support/contract_cases.py",),
    "L8": ("support/contract_cases.py",),
    "L9": ("support/contract_cases.py",),
    "L10": ("support/contract_cases.py",),
    "L14": ("support/contract_cases.py",),
    "M1": ("support/contract_cases.py",),
    "M2": ("contract/test_bad_input.py",),
    "M3": ("support/contract_cases.py",),
    "M5": ("unit/test_wire.py",),
    "M6": ("support/contract_cases.py",),
    "M8": ("contract/test_bad_input.py",),
    "M9": ("contract/test_cases_http.py",),
    "NS1": ("support/contract_cases.py",),
    "NS2": ("contract/test_cases_http.py",),
    "NS4": ("contract/test_bad_input.py",),
    "NS6": ("support/contract_cases.py",),
    "V1": ("support/contract_cases.py",),
    "V3": ("support/contract_cases.py",),
    "V5": (
        "support/contract_cases.py",
        "unit/test_lint.py",
    ),
    "D1": ("contract/test_secure_server.py",),
    "D2": ("contract/test_secure_server.py",),
    "D4": ("contract/test_secure_server.py",),
    "D5": ("contract/test_secure_server.py",),
    "D6": ("contract/test_secure_server.py",),
    "D7": ("contract/test_secure_server.py",),
    "D9": ("contract/test_secure_server.py",),
    "D10": ("contract/test_secure_server.py",),
    "D11": ("contract/test_secure_server.py",),
    "B1": ("support/contract_cases.py",),
    "B2": ("support/contract_cases.py",),
    "B3": ("contract/test_upstream.py",),
    "B4": ("support/contract_cases.py",),
    "B6": ("support/contract_cases.py",),
    "B8": ("contract/test_cases_http.py",),
    "B10": ("contract/test_upstream_files.py",),
    "B11": ("support/contract_cases.py",),
    "B13": ("contract/test_upstream.py",),
    "Q1": ("contract/test_cases_http.py",),
    "Q2": ("contract/test_cases_http.py",),
    "Q3": ("contract/test_cases_http.py",),
    "H1": (
        "support/contract_cases.py",
        "unit/test_lint.py",
    ),
    "H2": ("contract/test_cases_http.py",),
    "H4": ("support/contract_cases.py",),
    "H5": ("unit/test_snapshot.py",),
}
"""Row of the list of reported faults, and the files below tests/ that hold its tests."""


@cache
def find_ids(file: str) -> frozenset[str]:
    """Return the rows that *file* names in its test functions (`test_z3_...`) and its cases (`id="Z3-off"`)."""
    text = (TESTS / file).read_text()
    functions = re.findall(r"def test_(\w+)", text)
    in_functions = {part.upper() for name in functions for part in name.split("_")}
    in_cases = set(re.findall(r'(?:id=|\b_\w+\(\s*)f?"([A-Z]+[0-9]+)(?=[-_"])', text))
    return frozenset(in_functions | in_cases)


@pytest.mark.parametrize(("case", "file"), [(case, file) for case, files in CASES.items() for file in files])
def test_reported_fault_has_a_test_named_after_it(case: str, file: str) -> None:
    """A test that is renamed or dropped takes its row with it, and this one fails."""
    assert case in find_ids(file)


def test_cases_are_whole() -> None:
    """Every kind with all of its rows: none is dropped from the list unnoticed."""
    kinds = [re.sub(r"\d+", "", case) for case in CASES]
    assert {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} == {
        "Z": 9,
        "N": 8,
        "S": 4,
        "P": 3,
        "L": 9,
        "M": 7,
        "NS": 4,
        "V": 3,
        "D": 9,
        "B": 9,
        "Q": 3,
        "H": 4,
    }
