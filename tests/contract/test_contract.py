"""The contract's cases against the fake backend, which checks the PromQL that arrives."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadgen.parts.process import find_free_port
from tests.support.adapter import AdapterServer
from tests.support.contract_cases import CASES, Case
from tests.support.fake_prometheus import HANG, FakePrometheus, Request
from tests.support.stand import TIMEOUT_S, Stand, build_config, check_reply, check_status

_AT_ZERO = Request("POST", "", {}, {"time": "0"}, {}, connection=1, received_s=0.0)


@pytest.fixture(scope="module")
def fake() -> Iterator[FakePrometheus]:
    """The fake, told the answers of all cases; two cases may share a query, but not disagree on its answer."""
    with FakePrometheus() as backend:
        told: dict[str, object] = {}
        for case in CASES:
            for promql, answer in case.answers.items():
                said = (answer.status, answer.body(_AT_ZERO) if callable(answer.body) else answer.body)
                assert told.setdefault(promql, said) == said, promql
                backend.set(promql, answer)
        yield backend


@pytest.fixture(scope="module")
def stand(fake: FakePrometheus) -> Iterator[Stand]:
    """The adapter in front of the fake, of one that hangs and of a port where nothing listens."""
    with FakePrometheus() as hung:
        hung.everything = HANG
        others = {
            "hung": {"url": hung.url, "timeout": f"{TIMEOUT_S:g}s"},
            "gone": {"url": f"http://127.0.0.1:{find_free_port()}"},
            "elsewhere": {"url": f"{fake.url}/nowhere"},
        }
        with AdapterServer(build_config(fake.url, backends=others)) as adapter:
            yield Stand("fake", adapter)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_contract_holds_with_fake(stand: Stand, case: Case) -> None:
    """Each case is answered as promised."""
    check_reply(stand.ask(case), case)


@pytest.mark.parametrize(
    ("backend", "reason", "code"),
    [
        pytest.param("hung", "DeadlineExceeded", 504, id="hung"),
        pytest.param("gone", "BackendUnavailable", 503, id="gone"),
        pytest.param("elsewhere", "BackendRefused", 500, id="wrong-path"),
    ],
)
def test_contract_names_the_failure_of_a_backend(stand: Stand, backend: str, reason: str, code: int) -> None:
    """A backend that cannot be asked is named as such, and never answered for with a number."""
    check_status(stand.adapter.ask(f"ask-{backend}"), reason, code)


def test_contract_exceptions_are_all_known() -> None:
    """A case that some real backend is excused from stands in the committed list, with a reason: none slips in."""
    excused = [f"{case.id}: {kind}" for case in CASES for kind in sorted(case.excused_from)]
    reasons = [reason for case in CASES for reason in case.excused_from.values()]
    assert all(reasons)
    assert excused == (Path(__file__).parent / "excused.txt").read_text().splitlines()
