"""Whatever is sent by whomever: nobody comes in unannounced, and every answer is a well-formed one of ours."""

import logging

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from adapter.domain.identity import User
from adapter.errors import Reason
from adapter.server.app import Application
from tests.support.asgi import ROOT, Metrics, Reply, call, check_status
from tests.support.certificates import SERVER, Pair
from tests.support.door import (
    ALICE,
    ALLOWED,
    CLIENT_CA,
    DENIED,
    FRONT_PROXY,
    FRONT_PROXY_CA,
    ScriptedCluster,
    build_door,
)
from tests.support.odd_requests import headers, methods, paths, queries
from tests.support.serving import NOW_S, ManualClock

Headers = tuple[tuple[bytes, bytes], ...]
OPEN = {"/healthz", "/livez", "/readyz"}
OPEN_TARGETS = {path.encode() for path in OPEN} | {b"/%72eadyz"}
METRIC = f"{ROOT}/namespaces/n/depth".encode()
NOBODIES = (
    (),
    (FRONT_PROXY_CA.issue("another", now_s=NOW_S),),
    (FRONT_PROXY_CA.issue("front-proxy-client", now_s=NOW_S, usages=(SERVER,)),),
    (FRONT_PROXY_CA.issue("front-proxy-client", now_s=NOW_S, ends_in_s=-1),),
    (Pair.authority("front-proxy-ca", now_s=NOW_S).issue("front-proxy-client", now_s=NOW_S),),
    (CLIENT_CA.issue(organizations=("system:masters",), now_s=NOW_S),),
    (ALICE.issue("admin", now_s=NOW_S), ALICE),
)
BODIES = ((FRONT_PROXY,), (ALICE,))
SPOOF = ((b"x-remote-user", b"admin"), (b"x-remote-group", b"system:masters"))


class Stage:
    """One application for all examples: building it costs more than asking it."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.cluster = ScriptedCluster()
        self._clock = ManualClock()
        self.application = Application(
            self.metrics, lambda: ["depth"], door=build_door(self.cluster, clock=self._clock)
        )

    def begin(self, *, is_allowed: bool = True) -> None:
        """Forget what was asked, and let what the cluster said before be too old."""
        self.metrics.questions.clear()
        self.cluster.reviewed_access.clear()
        self.cluster.access = ALLOWED if is_allowed else DENIED
        self._clock.elapsed_s += 11

    def ask(self, path: bytes, query: bytes, *, sent: Headers, method: str, chain: tuple[Pair, ...]) -> Reply:
        """Return the answer, which is well-formed."""
        target = path + (b"?" + query if query else b"")
        certificates = tuple(pair.der for pair in chain)
        reply = call(target, method=method, headers=sent, application=self.application, chain=certificates)
        check_form(reply, target, method)
        return reply


stage = Stage()
quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def check_form(reply: Reply, target: bytes, method: str) -> None:
    """Check what every answer has, whatever it says."""
    assert reply.code in {200, 304, 400, 401, 403, 404, 405}
    audit_id = reply.headers[b"audit-id"]
    assert 0 < len(audit_id) <= 64
    assert audit_id.isascii()
    assert audit_id.decode().isprintable()
    assert b"retry-after" not in reply.headers
    if reply.code == 304:
        assert reply.body == b""
    elif reply.code == 200 and target.partition(b"?")[0] in OPEN_TARGETS:
        assert reply.headers[b"content-type"].startswith(b"text/plain")
    else:
        assert reply.headers[b"content-type"].partition(b";")[0] == b"application/json"
        if reply.code == 200:
            assert method == "GET"
            assert b"%0" not in target.partition(b"?")[0] or b"/namespaces/" in target
            assert reply.document["kind"] if b"openapi" not in target and b"version" not in target else reply.document
        else:
            check_status(reply, reply.code)


@quiet
@given(paths, queries, headers, methods, st.sampled_from(NOBODIES))
@example(METRIC, b"", SPOOF, "GET", ())
@example(METRIC, b"", SPOOF, "GET", NOBODIES[1])
@example(METRIC, b"", SPOOF, "GET", NOBODIES[-1])
@example(b"/apis", b"", ((b"authorization", b"Bearer bad"), *SPOOF), "GET", ())
@example(b"/readyz", b"", (), "POST", ())
def test_nobody_is_let_in_whatever_is_sent(
    path: bytes, query: bytes, sent: Headers, method: str, chain: tuple[Pair, ...]
) -> None:
    """Without a certificate or token that the cluster accepts: 401, except for the three paths of the probes."""
    stage.begin()
    reply = stage.ask(path, query, sent=sent, method=method, chain=chain)
    if path in OPEN_TARGETS:
        assert reply.code == (200 if method == "GET" else 405)
    else:
        assert reply.code == 401
        assert reply.cause == Reason.UNAUTHENTICATED
    assert not stage.metrics.questions
    assert not stage.cluster.reviewed_access


@quiet
@given(paths, queries, headers, methods, st.sampled_from(BODIES), st.booleans())
@example(METRIC, b"labelSelector=%", SPOOF, "GET", BODIES[0], True)
@example(METRIC, b"", SPOOF, "GET", BODIES[1], False)
@example(b"/readyz%0a", b"", (), "GET", BODIES[1], True)
@example(b"/apis%0a", b"", (), "GET", BODIES[1], True)
@example(b"/apis", b"", ((b"audit-id", b"\x7f"),), "GET", BODIES[1], True)
@example(b"/apis", b"", ((b"audit-id", b"a\tb"),), "GET", BODIES[1], True)
def test_every_answer_is_well_formed_and_no_one_passes_the_authorizer(  # noqa: PLR0917 - hypothesis passes positions
    caplog: pytest.LogCaptureFixture,
    path: bytes,
    query: bytes,
    sent: Headers,
    method: str,
    chain: tuple[Pair, ...],
    is_allowed: bool,  # noqa: FBT001 - drawn
) -> None:
    """Never a 500, never a fault in the log; whoever is answered was asked about, but for a superuser."""
    caplog.clear()
    stage.begin(is_allowed=is_allowed)
    reply = stage.ask(path, query, sent=sent, method=method, chain=chain)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    is_proxied_superuser = chain == BODIES[0] and (b"x-remote-group", b"system:masters") in sent
    if path not in OPEN_TARGETS and not is_proxied_superuser:
        if not is_allowed:
            assert reply.code in {401, 403}
            assert not stage.metrics.questions
        if reply.code != 401:
            ((user, _question),) = stage.cluster.reviewed_access
            if chain == BODIES[1]:
                assert user == User("alice", groups=("team-a", "team-b", "system:authenticated"))
