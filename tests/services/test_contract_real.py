"""The contract's cases against real backends: what the fake says of them is true."""

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadgen.parts.process import find_free_port
from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from loadgen.parts.victoria import SHOW_NEWEST, VictoriaMetrics
from tests.support.adapter import AdapterServer
from tests.support.contract_cases import CASES, REAL_BACKENDS, Case, build_series
from tests.support.exporter import Exporter
from tests.support.stand import TIMEOUT_S, Stand, build_config, check_reply, check_status

RealServer = Prometheus | VictoriaMetrics

PASSWORD_HASH = "$2b$04$abcdefghijklmnopqrstuu6pm/rlebxoItzDLHzGSqkl2bu7f0BFe"  # bcrypt of PASSWORD
PASSWORD = "scraper-pw"


@pytest.fixture(scope="module", params=REAL_BACKENDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which backend the stand has."""
    return str(request.param)


@pytest.fixture(scope="module")
def binary(kind: str, request: pytest.FixtureRequest) -> Path:
    """The server's program."""
    return Path(request.getfixturevalue(f"{kind}_binary"))


def build_server(kind: str, binary: Path, *, jobs: tuple[ScrapeJob, ...] = ()) -> RealServer:
    """Return a server of this kind, not yet started."""
    return (VictoriaMetrics if kind == "victoria" else Prometheus)(binary, jobs=jobs)


def build_locked(kind: str, binary: Path, folder: Path) -> RealServer:
    """Return a server that wants a password from everyone."""
    if kind == "victoria":
        return VictoriaMetrics(
            binary,
            extra_flags=["-httpAuth.username=someone", f"-httpAuth.password={PASSWORD}"],
        )
    web_config = folder / "web.yml"
    web_config.write_text(f"basic_auth_users: {{someone: '{PASSWORD_HASH}'}}\n")
    return Prometheus(
        binary,
        web_config_file=web_config,
        request_headers={"Authorization": "Basic " + base64.b64encode(f"someone:{PASSWORD}".encode()).decode()},
    )


@pytest.fixture(scope="module")
def stand(kind: str, binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """The adapter in front of a server with the series of all cases, and of its relatives in trouble."""
    with ExitStack() as stack:
        exporter = stack.enter_context(Exporter(build_series()))
        server = stack.enter_context(
            build_server(kind, binary, jobs=(ScrapeJob(name="cases", targets=(exporter.target,)),))
        )
        hung = stack.enter_context(build_server(kind, binary))
        hung.pause()
        locked = stack.enter_context(build_locked(kind, binary, tmp_path_factory.mktemp("locked")))
        others = {
            "hung": {"url": hung.url, "timeout": f"{TIMEOUT_S:g}s"},
            "gone": {"url": f"http://127.0.0.1:{find_free_port()}"},
            "elsewhere": {"url": f"{server.url}/nowhere"},
            "locked": {"url": locked.url},
        }
        params = dict(SHOW_NEWEST) if kind == "victoria" else {}
        server.wait_for("count_over_time(p2_depth[1m]) >= 4", timeout_s=60)
        adapter = stack.enter_context(AdapterServer(build_config(server.url, backends=others, params=params)))
        yield Stand(kind, adapter)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES if not case.only_fake])
def test_contract_holds_with_real(stand: Stand, case: Case) -> None:
    """Each case is answered as promised, by the same words as with the fake."""
    if stand.kind in case.not_on:
        pytest.skip(case.not_on[stand.kind])
    check_reply(stand.ask(case), case)


@pytest.mark.parametrize(
    ("backend", "reason", "code"),
    [
        pytest.param("hung", "DeadlineExceeded", 504, id="hung"),
        pytest.param("gone", "BackendUnavailable", 503, id="gone"),
        pytest.param("elsewhere", "BackendRefused", 500, id="wrong-path"),
        pytest.param("locked", "BackendRefused", 500, id="locked"),
    ],
)
def test_contract_names_the_failure_of_a_real_backend(stand: Stand, backend: str, reason: str, code: int) -> None:
    """A backend that cannot be asked is named as such, and never answered for with a number."""
    if (stand.kind, backend) == ("victoria", "elsewhere"):
        reason = "BadQuery"  # VictoriaMetrics says 400 of a path that it does not know
    check_status(stand.adapter.ask(f"ask-{backend}"), reason, code)
