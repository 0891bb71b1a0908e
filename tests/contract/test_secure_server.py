"""The secure server over real TLS, as its real command runs it, in front of a cluster that can be made to fail."""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from loadgen.cluster import CertificateAuthority, Credential
from loadgen.parts.process import LOOPBACK
from tests.support.adapter import API, Reply
from tests.support.certificates import Pair
from tests.support.fake_kube import FakeKube, Fault
from tests.support.secure_server import SecureServer
from tests.support.secure_stage import DEPTH, RULES, SERVER_NAME, SLOW, Stage, connect, read_answer, stage
from tests.support.stand import check_status

PROGRAM = Path(sys.executable).parent / "depthgauge"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage for tests that change nothing."""
    with stage(tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Stage]:
    """A stage of the test's own."""
    with stage(tmp_path) as running:
        yield running


class TestDoor:
    """Who is let in, over real TLS."""

    def test_a10_probes_need_no_certificate_and_everything_else_does(self, shared: Stage) -> None:
        """A10: a kubelet is answered; discovery, OpenAPI, metrics and what does not exist are not."""
        for path in ("/livez", "/readyz", "/healthz", "/readyz?verbose"):
            assert shared.server.get(path).code == 200
        for path in ("/apis", API, DEPTH, "/openapi/v2", "/openapi/v3", "/version", "/metrics", "/nothing", "/readyz/"):
            check_status(shared.server.get(path), "Unauthenticated", 401)

    def test_users_certificate_is_its_user(self, shared: Stage) -> None:
        """CN and O reach the cluster's authorizer, with verb, resource and namespace."""
        assert shared.get(DEPTH).values == ["5"]
        assert {
            "user": "alice",
            "groups": ["team-a", "system:authenticated"],
            "resourceAttributes": {
                "verb": "list",
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "resource": "depth",
                "namespace": "default",
            },
        } in shared.kube.reviewed

    def test_front_proxys_user_reaches_the_authorizer_whole(self, shared: Stage) -> None:
        """User, uid, groups and extra, as the API server named them."""
        headers = [
            ("X-Remote-User", "bob"),
            ("X-Remote-Uid", "42"),
            ("X-Remote-Group", "a"),
            ("X-Remote-Group", "b"),
            ("X-Remote-Extra-Example.com%2FScope", "read"),
        ]
        assert shared.server.get(DEPTH, credential=shared.proxy, headers=headers).code == 200
        (spec,) = [spec for spec in shared.kube.reviewed if spec["user"] == "bob"]
        assert (spec["uid"], spec["groups"]) == ("42", ["a", "b", "system:authenticated"])
        assert spec["extra"] == {"example.com/scope": ["read"]}

    def test_certificate_that_does_not_verify_gets_no_connection(self, shared: Stage) -> None:
        """Of an unknown authority, expired, or for servers: refused in the handshake, and nothing else suffers."""
        for credential in (
            CertificateAuthority.create("cluster-ca").issue_client("alice"),
            shared.kube.ca.issue_client("alice", lifetime_s=-60.0),
            shared.kube.ca.issue_server("alice"),
        ):
            with pytest.raises(httpx.TransportError):
                shared.server.get(DEPTH, credential=credential)
        assert shared.get(DEPTH).code == 200

    def test_chain_through_an_intermediate_authority_is_followed(self, shared: Stage) -> None:
        """A client may send the certificate of the authority between; without it, nothing is proven."""
        middle = Pair(shared.kube.ca._certificate, shared.kube.ca._key).issue("middle", is_ca=True, usages=None)
        client = middle.issue("carol")
        assert shared.server.get(DEPTH, credential=Credential(client.pem + middle.pem, client.key_pem)).code == 200
        assert "carol" in {spec["user"] for spec in shared.kube.reviewed}
        with pytest.raises(httpx.TransportError):
            shared.server.get(DEPTH, credential=Credential(client.pem, client.key_pem))

    def test_bearer_token_is_reviewed(self, own: Stage) -> None:
        """Good: its user; bad: 401. Each is reviewed once."""
        own.kube.tokens["good"] = {"username": "bob", "groups": ["team-b"]}
        for _ in range(3):
            assert own.server.get(DEPTH, headers={"Authorization": "Bearer good"}).code == 200
            check_status(own.server.get(DEPTH, headers={"Authorization": "Bearer bad"}), "Unauthenticated", 401)
        assert own.kube.count("token") == 2
        assert own.kube.reviewed[0]["user"] == "bob"

    def test_a5_denied_user_is_told_user_verb_and_resource(self, own: Stage) -> None:
        """A5: with the authorizer's reason."""
        own.kube.may = lambda spec: spec["user"] != "alice"
        reply = own.get(DEPTH)
        check_status(reply, "Forbidden", 403)
        assert 'User "alice" cannot list resource "depth" in API group "external.metrics.k8s.io"' in reply.message
        assert 'in the namespace "default": the fake says no' in reply.message

    @pytest.mark.parametrize(
        ("fault", "at_most_s"),
        [pytest.param(Fault(is_hung=True), 5.0, id="silent"), pytest.param(Fault(status=500), 3.0, id="error")],
    )
    def test_cluster_that_does_not_decide_lets_nobody_in(self, own: Stage, fault: Fault, at_most_s: float) -> None:
        """Fails closed before the caller's patience ends; superusers and probes pass; it mends by itself."""
        own.kube.fail("access", fault)
        own.kube.fail("token", fault)
        reply = own.get(DEPTH)
        check_status(reply, "Forbidden", 403)
        assert reply.took_s < at_most_s
        reply = own.server.get(DEPTH, headers={"Authorization": "Bearer good"})
        check_status(reply, "Unauthenticated", 401)
        assert reply.took_s < at_most_s + 2
        masters = own.kube.ca.issue_client("admin", organizations=("system:masters",))
        assert own.get(DEPTH, credential=masters).code == 200
        assert own.server.get("/readyz").code == 200
        own.kube.mend()
        own.wait_until(lambda: own.get(DEPTH).code == 200)


class TestTls:
    """Protocol versions, and certificates and authorities that change while it serves."""

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_modern_tls_is_spoken(self, shared: Stage, version: ssl.TLSVersion) -> None:
        """TLS 1.2 and 1.3, also with a client certificate, and without a server name."""
        for credential, name in ((None, SERVER_NAME), (shared.alice, SERVER_NAME), (shared.alice, None)):
            context = shared.server.build_context(credential)
            context.minimum_version = context.maximum_version = version
            context.check_hostname = name is not None
            with (
                socket.create_connection((LOOPBACK, shared.server.port), timeout=10) as plain,
                context.wrap_socket(plain, server_hostname=name) as tls,
            ):
                tls.sendall(b"GET /apis HTTP/1.1\r\nHost: x\r\n\r\n")
                expected = b"HTTP/1.1 401" if credential is None else b"HTTP/1.1 200"
                assert read_answer(tls)[0].startswith(expected)

    def test_old_tls_is_refused(self, shared: Stage) -> None:
        """Nothing before 1.2."""
        context = shared.server.build_context()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
            context.minimum_version = ssl.TLSVersion.TLSv1
        with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with (
            socket.create_connection((LOOPBACK, shared.server.port), timeout=10) as plain,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            context.wrap_socket(plain, server_hostname=SERVER_NAME)

    def test_plain_http_gets_no_answer(self, shared: Stage) -> None:
        """The port speaks TLS alone."""
        with socket.create_connection((LOOPBACK, shared.server.port), timeout=10) as plain:
            plain.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"HTTP/" not in plain.recv(1024)

    def test_a7_swapped_certificate_is_shown_and_connections_go_on(self, own: Stage) -> None:
        """A7: a new serial for new handshakes within seconds; connected clients notice nothing."""
        before = own.server.fetch_serving_serial()
        with connect(own.server, own.alice) as tls:
            renewed = own.kube.ca.issue_server(SERVER_NAME, "localhost", LOOPBACK)
            own.server.write_serving_certificate(renewed)
            own.wait_until(lambda: own.server.fetch_serving_serial() == renewed.serial_number)
            assert renewed.serial_number != before
            for _ in range(2):
                tls.sendall(f"GET {DEPTH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                head, body = read_answer(tls)
                assert head.startswith(b"HTTP/1.1 200")
                assert json.loads(body)["items"][0]["value"] == "5"
        own.server.wait_for_log("serving_certificate_reloaded")

    def test_a7_broken_pair_is_logged_once_and_the_previous_one_stays(self, own: Stage) -> None:
        """A7: a half-written rotation does no harm, and keeps no rotated authority out; mended, it is taken."""
        before = own.server.fetch_serving_serial()
        other = own.kube.ca.issue_server(SERVER_NAME, "localhost", LOOPBACK)
        own.server.cert_path.write_bytes(other.certificate_pem)
        own.server.wait_for_log("serving_certificate_unusable kept=previous")
        assert own.server.fetch_serving_serial() == before
        rotated = CertificateAuthority.create("front-proxy-ca")
        own.kube.publish(own.kube.build_trust(requestheader_client_ca_file=rotated.certificate_pem.decode()))
        own.wait_until(lambda: own.ask_as_proxy(proxy=rotated.issue_client("front-proxy-client")) == 200)
        assert own.ask_as_proxy() in {0, 401}
        own.server.cert_path.unlink()
        own.server.wait_for_log("cannot read")
        own.server.write_serving_certificate(other)
        own.wait_until(lambda: own.server.fetch_serving_serial() == other.serial_number)
        assert own.server.read_log().count("are no usable pair") == 1

    def test_a2_rotated_authorities_arrive_through_the_watch(self, own: Stage) -> None:
        """A2: the new ones are believed within seconds, the old ones no longer, also on a connection there was."""
        assert own.ask_as_proxy() == 200
        with connect(own.server, own.alice) as tls:
            tls.sendall(f"GET {DEPTH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert read_answer(tls)[0].startswith(b"HTTP/1.1 200")
            proxies = CertificateAuthority.create("front-proxy-ca")
            users = CertificateAuthority.create("users")
            own.kube.publish(
                own.kube.build_trust(
                    requestheader_client_ca_file=proxies.certificate_pem.decode(),
                    client_ca_file=users.certificate_pem.decode(),
                )
            )
            own.server.wait_for_log("authentication_settings_loaded", times=2, timeout_s=10)
            tls.sendall(f"GET {DEPTH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert read_answer(tls)[0].startswith(b"HTTP/1.1 401")
        assert own.ask_as_proxy(proxy=proxies.issue_client("front-proxy-client")) == 200
        assert own.ask_as_proxy() in {0, 401}
        assert own.get(DEPTH, credential=users.issue_client("dora")).code == 200

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"requestheader_client_ca_file": "garbage"}, id="authority"),
            pytest.param(
                {"client_ca_file": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, id="certificate"
            ),
            pytest.param({"requestheader_allowed_names": "front-proxy-client"}, id="names"),
        ],
    )
    def test_trust_that_cannot_be_read_keeps_the_previous_one(self, own: Stage, changes: dict[str, str]) -> None:
        """Logged; nobody new is believed and nobody is thrown out; the next readable one is taken."""
        own.kube.publish(own.kube.build_trust(**changes))
        own.server.wait_for_log("kept=previous", timeout_s=10)
        assert own.ask_as_proxy() == 200
        assert own.get(DEPTH).code == 200
        assert own.ask_as_proxy(proxy=own.kube.front_proxy_ca.issue_client("another")) == 401
        own.kube.publish(own.kube.build_trust(requestheader_allowed_names='["another"]'))
        own.wait_until(lambda: own.ask_as_proxy(proxy=own.kube.front_proxy_ca.issue_client("another")) == 200)
        assert own.ask_as_proxy() == 401

    def test_broken_watch_is_begun_again(self, own: Stage) -> None:
        """What changes afterwards arrives."""
        own.kube.wait_for("watch", 1)
        own.kube.break_watches()
        own.kube.wait_for("watch", 2)
        own.kube.publish(own.kube.build_trust(requestheader_allowed_names="[]"))
        own.wait_until(lambda: own.ask_as_proxy(proxy=own.kube.front_proxy_ca.issue_client("another")) == 200)

    @pytest.mark.parametrize(
        "fault",
        [pytest.param(Fault(is_cut=True), id="ended-at-once"), pytest.param(Fault(status=500), id="refused")],
    )
    def test_watch_that_never_holds_is_no_storm(self, own: Stage, fault: Fault) -> None:
        """A proxy that cuts watches is asked every two seconds, not without a pause; changes arrive by reading."""
        own.kube.wait_for("watch", 1)
        own.kube.fail("watch", fault)
        own.kube.break_watches()
        begun, began_s = own.kube.count("watch"), time.monotonic()
        own.kube.wait_for("watch", begun + 3)
        assert time.monotonic() - began_s > 3.0
        own.kube.publish(own.kube.build_trust(requestheader_allowed_names="[]"))
        own.wait_until(lambda: own.ask_as_proxy(proxy=own.kube.front_proxy_ca.issue_client("another")) == 200)

    def test_cluster_that_is_away_keeps_the_trust_there_was(self, own: Stage) -> None:
        """Each cause is said once; believed as before."""
        own.kube.fail("configmap", Fault(status=500))
        own.kube.fail("watch", Fault(status=500))
        own.kube.break_watches()
        own.server.wait_for_log("authentication_settings_unread kept=previous")
        own.kube.wait_for("configmap", own.kube.count("configmap") + 2)
        assert own.ask_as_proxy() == 200
        said = [line.partition("kept=previous")[2] for line in own.server.read_log().splitlines()]
        causes = [cause for cause in said if cause]
        assert len(set(causes)) == len(causes) <= 2, "the watch's end, and then the refusals"


class TestAnswers:
    """What comes back over HTTPS, whoever asks for what."""

    def test_d2_discovery_and_readiness_do_not_need_the_backend(self, own: Stage) -> None:
        """D2: an outage of Prometheus is not one of the cluster's."""
        own.backend.stop()
        check_status(own.get(DEPTH), "BackendUnavailable", 503)
        for path in ("/apis", "/apis/external.metrics.k8s.io", API, "/openapi/v2", "/openapi/v3", "/version"):
            assert own.get(path).code == 200
        assert own.server.get("/readyz").code == 200

    def test_d1_d7_server_without_rules_is_a_group_still(self, tmp_path: Path) -> None:
        """D1, D7: one entry, in plain and aggregated discovery."""
        with stage(tmp_path, rules=()) as empty:
            assert len(empty.get(API).document["resources"]) == 1
            assert empty.get("/apis").document["groups"][0]["name"] == "external.metrics.k8s.io"
            assert empty.get("/apis/external.metrics.k8s.io").code == 200

    @pytest.mark.parametrize("version", ["v2", "v2beta1"])
    def test_d4_aggregated_discovery_is_negotiated(self, shared: Stage, version: str) -> None:
        """D4: content type and ETag, and 304 for who has it."""
        accept = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
        reply = shared.get("/apis", headers={"Accept": f"{accept},application/json"})
        assert reply.headers["content-type"] == accept
        resources = reply.document["items"][0]["versions"][0]["resources"]
        assert [resource["resource"] for resource in resources] == ["depth", "slow"]
        assert all(resource["responseKind"]["kind"] == "ExternalMetricValueList" for resource in resources)
        headers = {"Accept": f"{accept},application/json", "If-None-Match": reply.headers["etag"]}
        assert shared.get("/apis", headers=headers).code == 304

    def test_d5_openapi_is_kubernetes_own_kind(self, shared: Stage) -> None:
        """D5: never the web framework's."""
        assert shared.get("/openapi/v2").document["swagger"] == "2.0"
        (entry,) = shared.get("/openapi/v3").document["paths"].values()
        assert shared.get(entry["serverRelativeURL"]).document["openapi"].startswith("3.")
        assert shared.get("/openapi.json").code == 404

    def test_d6_foreign_metric_is_told_who_answered(self, shared: Stage) -> None:
        """D6: KEDA's request that reaches us."""
        reply = shared.get(f"{API}/namespaces/default/s0-prometheus?labelSelector=scaledobject.keda.sh%2Fname%3Dx")
        check_status(reply, "UnknownMetric", 404)
        assert "depthgauge" in reply.message

    @pytest.mark.parametrize(
        "accept",
        [
            pytest.param("application/vnd.kubernetes.protobuf,application/json", id="D9"),
            pytest.param("application/vnd.kubernetes.protobuf, */*", id="hpa"),
            pytest.param("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", id="D10"),
        ],
    )
    def test_d9_d10_value_is_json(self, shared: Stage, accept: str) -> None:
        """D9, D10: whatever Accept prefers."""
        reply = shared.get(DEPTH, headers={"Accept": accept})
        assert reply.headers["content-type"] == "application/json"
        assert reply.values == ["5"]

    def test_d11_every_error_is_a_status(self, shared: Stage) -> None:
        """D11: wrong path, wrong verb, wrong selector."""
        for path, method, code in (
            ("/nothing", "GET", 404),
            (f"{API}/depth", "GET", 404),
            ("/apis/", "POST", 405),
            (DEPTH, "DELETE", 405),
            (f"{DEPTH}?watch=true", "GET", 405),
            (f"{DEPTH}?labelSelector=queue+in+(a", "GET", 400),
        ):
            reply = shared.get(path, method=method)
            assert reply.code == code, path
            assert reply.headers["content-type"] == "application/json"
            assert (reply.document["kind"], reply.document["code"]) == ("Status", code)
            assert "retry-after" not in reply.headers

    def test_audit_id_is_the_callers_or_a_new_one(self, shared: Stage) -> None:
        """Echoed where usable, on errors and probes too; else invented, another each time."""
        for path in (DEPTH, "/apis", "/nothing", "/livez"):
            assert shared.get(path, headers={"Audit-ID": "a-1"}).headers["audit-id"] == "a-1"
        invented = {shared.get(DEPTH, headers={"Audit-ID": bad}).headers["audit-id"] for bad in ("", "x" * 65, "é")}
        assert len(invented) == 3
        assert all(len(audit_id) == 36 for audit_id in invented)

    def test_head_without_end_is_refused(self, shared: Stage) -> None:
        """Nobody fills the memory, with a certificate or without; the refusal is a Status, and the connection ends."""
        with connect(shared.server) as tls:
            tls.sendall(b"GET /apis HTTP/1.1\r\nHost: x\r\n" + (b"X-Filler: " + b"x" * 8000 + b"\r\n") * 200)
            head, body = read_answer(tls)
            assert head.startswith(b"HTTP/1.1 431")
            assert json.loads(body)["kind"] == "Status"
            assert tls.recv(1) == b""
        assert shared.get(DEPTH).code == 200

    @pytest.mark.parametrize(
        "request_line",
        [b"GARBAGE\r\n\r\n", b"GET /apis HTTP/9.9\r\n\r\n", b"GET /apis HTTP/1.1\r\nBad Header: x\r\n\r\n"],
    )
    def test_d11_what_is_not_http_is_refused_as_a_status(self, shared: Stage, request_line: bytes) -> None:
        """Also a broken client reads JSON, and its connection ends."""
        with connect(shared.server) as tls:
            tls.sendall(request_line)
            head, body = read_answer(tls)
            assert head.startswith(b"HTTP/1.1 400")
            assert json.loads(body)["kind"] == "Status"
            assert tls.recv(1) == b""

    def test_o6_nothing_is_logged_for_requests_and_odd_clients(self, shared: Stage) -> None:
        """O6: healthy traffic, errors, refused handshakes and broken requests leave no line."""
        before = shared.server.read_log()
        for path in (DEPTH, "/nothing", "/readyz"):
            shared.get(path)
            shared.server.get(path)
        with connect(shared.server) as tls:
            tls.sendall(b"GARBAGE\r\n\r\n")
            read_answer(tls)
        with socket.create_connection((LOOPBACK, shared.server.port), timeout=10) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            plain.recv(1024)
        with pytest.raises(httpx.TransportError):
            shared.server.get(DEPTH, credential=CertificateAuthority.create("x").issue_client("alice"))
        assert shared.server.read_log() == before


class TestOperations:
    """In flight, at the end, and beside."""

    def test_requests_beyond_the_limit_are_refused_quickly(self, tmp_path: Path) -> None:
        """503 Overloaded at once, without Retry-After; probes pass; afterwards all is well."""
        with stage(tmp_path, flags=["--max-requests-in-flight=2"]) as busy:
            answers: list[int] = []
            clients = [httpx.Client(verify=busy.server.build_context(busy.alice), trust_env=False) for _ in range(2)]
            threads = [
                threading.Thread(
                    target=lambda client=client: answers.append(client.get(busy.server.url + SLOW).status_code)
                )
                for client in clients
            ]
            busy.get(DEPTH)  # the review is done
            for thread in threads:
                thread.start()
            busy.wait_until(lambda: "requests_in_flight 2.0" in busy.server.get_ops("/metrics").text)
            reply = busy.get(DEPTH)
            check_status(reply, "Overloaded", 503)
            assert reply.took_s < 0.5
            assert busy.server.get("/readyz").code == 200
            assert busy.server.get("/livez").code == 200
            for thread in threads:
                thread.join(20)
            assert answers == [200, 200]
            assert busy.get(DEPTH).code == 200
            for client in clients:
                client.close()

    def test_sigterm_fails_readiness_finishes_what_is_in_flight_and_ends_with_0(self, tmp_path: Path) -> None:
        """In this order: not ready, all answered for the delay with `Connection: close`, the last answer, exit 0."""
        with stage(tmp_path, shutdown_delay_s=2.0) as ending:
            server = ending.server
            assert "connection" not in ending.get(DEPTH).headers
            began_s = time.monotonic()
            server.terminate()
            ending.wait_until(lambda: server.get("/readyz").code == 503, timeout_s=1.0)
            assert server.get_ops("/readyz").status_code == 503
            assert server.get_ops("/livez").status_code == 200
            reply = ending.get(DEPTH)
            assert (reply.code, reply.headers["connection"]) == (200, "close")
            assert server.is_running
            last: list[Reply] = []
            ending.wait_until(lambda: time.monotonic() - began_s > 1.2)
            client = threading.Thread(target=lambda: last.append(ending.get(SLOW)))  # takes longer than the delay
            client.start()
            client.join(20)
            assert last[0].values == ["7"]
            assert time.monotonic() - began_s > 2.0
            assert server.wait_for_end(timeout_s=15) == 0
            events = [line.split()[2] for line in server.read_log().splitlines()]
            assert events[-2:] == ["draining", "stopped"]

    @pytest.mark.parametrize("kind", ["idle", "before-the-handshake", "half-a-request"])
    def test_silent_client_does_not_keep_the_process(self, tmp_path: Path, kind: str) -> None:
        """A client that neither asks nor leaves is waited for some seconds, not for half a minute."""
        with stage(tmp_path, shutdown_delay_s=0.0) as ending, ExitStack() as stack:
            if kind == "before-the-handshake":
                stack.enter_context(socket.create_connection((LOOPBACK, ending.server.port), timeout=10))
            else:
                tls = stack.enter_context(connect(ending.server, ending.alice))
                tls.sendall(b"GET /apis HTTP/1.1\r\nHost: x\r\n\r\n")
                read_answer(tls)
                if kind == "half-a-request":
                    tls.sendall(b"GET /apis HTT")
            began_s = time.monotonic()
            ending.server.terminate()
            assert ending.server.wait_for_end(timeout_s=20) == 0
            assert time.monotonic() - began_s < 12

    def test_operations_port_serves_metrics_and_probes(self, shared: Stage) -> None:
        """Plain HTTP: what was asked is counted; no metric of a user's is there."""
        shared.get(DEPTH)
        answer = shared.server.get_ops("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        for series in (
            'depthgauge_requests_total{metric="depth",reason="OK"}',
            'depthgauge_request_seconds_count{metric="depth"}',
            'depthgauge_backend_queries_total{backend="default",outcome="OK"}',
            'depthgauge_backend_query_seconds_count{backend="default"}',
            'depthgauge_rule_tick_age_seconds{metric="depth"}',
            'depthgauge_rule_series{metric="depth"}',
            'depthgauge_rule_last_success_timestamp_seconds{metric="depth"}',
            'depthgauge_config_reloads_total{outcome="ok"}',
            "depthgauge_config_last_reload_failed",
            'depthgauge_reviews_total{kind="access",source="cluster"}',
            "depthgauge_requests_in_flight",
        ):
            assert series in answer.text, series
        assert shared.server.get_ops("/livez").text == "ok"
        assert shared.server.get_ops("/readyz").status_code == 200
        for path in ("/apis", DEPTH, "/docs"):
            assert shared.server.get_ops(path).status_code == 404

    def test_a9_proxy_variables_are_not_followed(self, tmp_path: Path) -> None:
        """A9: neither to the cluster nor to the backend."""
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy"), "http://127.0.0.1:1")
        with stage(tmp_path, environment={**nowhere, "http_proxy": "http://127.0.0.1:1", "NO_PROXY": ""}) as proxied:
            assert proxied.get(DEPTH).values == ["5"]
            assert proxied.kube.count("access") == 1

    def test_json_logs_are_objects_line_by_line(self, tmp_path: Path) -> None:
        """From the first line to the last."""
        with stage(tmp_path, flags=["--log-format=json"], shutdown_delay_s=0.0) as logged:
            logged.server.terminate()
            logged.server.wait_for_end()
            lines = [json.loads(line) for line in logged.server.read_log().splitlines()]
        assert [line["event"] for line in lines] == [
            "authentication_settings_loaded",
            "config_loaded",
            "operations",
            "serving",
            "draining",
            "stopped",
        ]
        assert lines[0]["fields"]["allowed_names"] == "front-proxy-client"


def serve(
    *arguments: str | Path, folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `depthgauge serve` with a good configuration until it ends by itself."""
    config = folder / "depthgauge.yaml"
    config.write_text("prometheus: {url: 'http://127.0.0.1:1'}\nmetrics: [{name: depth, query: sum(q)}]\n")
    return subprocess.run(
        [PROGRAM, "serve", "--config", config, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "200", **(environment or {})},
    )


ANYWHERE = f"{LOOPBACK}:0"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param((), "give --listen HOST:PORT to serve a cluster, or --dev-http", id="neither"),
        pytest.param(("--listen", ANYWHERE, "--dev-http", ANYWHERE), "give --listen HOST:PORT", id="both"),
        pytest.param(("--listen", ANYWHERE), "--listen needs --tls-cert-file and --tls-key-file", id="no-certificate"),
        pytest.param(("--listen", ANYWHERE, "--tls-cert-file", "x"), "--listen needs --tls-cert-file", id="no-key"),
        pytest.param(
            ("--listen", ANYWHERE, "--tls-self-signed", "a", "--tls-cert-file", "x"),
            "give either --tls-self-signed, or",
            id="two-certificates",
        ),
        pytest.param(
            ("--listen", ANYWHERE, "--tls-self-signed", "bücher.example"), "--tls-self-signed:", id="bad-name"
        ),
        pytest.param(("--listen", "somewhere"), '"somewhere" is not HOST:PORT', id="bad-address"),
        pytest.param(("--listen", "203.0.113.1:0"), "cannot listen on 203.0.113.1:0", id="not-our-address"),
        pytest.param(("--dev-http", "0.0.0.0:0"), "is not a loopback address", id="open-plain-http"),
        pytest.param(
            ("--listen", ANYWHERE, "--max-requests-in-flight", "0"), "--max-requests-in-flight", id="no-places"
        ),
        pytest.param(("--listen", ANYWHERE, "--shutdown-delay", "-1"), "--shutdown-delay", id="negative-delay"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_to_give(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    """Before anything is served, and without a traceback."""
    done = serve(*arguments, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert sentence in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


class TestBadStart:
    """What cannot be used at the start ends the process with 1 and a sentence that helps."""

    @pytest.fixture
    def kube(self) -> Iterator[FakeKube]:
        """A cluster."""
        with FakeKube() as running:
            yield running

    def start(self, folder: Path, kubeconfig: Path | None, **environment: str) -> str:
        """Return what the failing start says."""
        arguments = ["--listen", ANYWHERE, "--tls-self-signed", "localhost"]
        if kubeconfig is not None:
            arguments += ["--kubeconfig", str(kubeconfig)]
        done = serve(*arguments, folder=folder, environment=environment)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def test_a1_forbidden_configmap_names_the_command(self, kube: FakeKube, tmp_path: Path) -> None:
        """A1: the one command that an administrator has to run."""
        kube.fail("configmap", Fault(status=403))
        said = self.start(tmp_path, kube.write_kubeconfig(tmp_path))
        assert "cannot read ConfigMap kube-system/extension-apiserver-authentication" in said
        assert "kubectl create rolebinding -n kube-system depthgauge-auth-reader" in said
        assert "--role=extension-apiserver-authentication-reader --serviceaccount=NAMESPACE:SERVICEACCOUNT" in said

    def test_cluster_that_fails_is_named_without_the_command(self, kube: FakeKube, tmp_path: Path) -> None:
        """The command would not help."""
        kube.fail("configmap", Fault(status=500))
        said = self.start(tmp_path, kube.write_kubeconfig(tmp_path))
        assert "cannot read ConfigMap kube-system/extension-apiserver-authentication: the fake fails" in said
        assert "rolebinding" not in said

    def test_cluster_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        """Nobody listens."""
        with FakeKube() as gone:
            kubeconfig = gone.write_kubeconfig(tmp_path)
        assert "cannot read ConfigMap" in self.start(tmp_path, kubeconfig)

    def test_trust_that_cannot_be_read_is_named(self, kube: FakeKube, tmp_path: Path) -> None:
        """The key is said."""
        kube.publish(kube.build_trust(requestheader_allowed_names="5"))
        assert "requestheader-allowed-names is not a list" in self.start(tmp_path, kube.write_kubeconfig(tmp_path))

    @pytest.mark.parametrize("text", ["", "junk: [", "a", "clusters: 5", "[]"])
    def test_kubeconfig_that_is_none_is_named(self, text: str, tmp_path: Path) -> None:
        """Whatever the file holds."""
        kubeconfig = tmp_path / "broken-kubeconfig"
        kubeconfig.write_text(text)
        assert f"cannot read the kubeconfig {kubeconfig}" in self.start(tmp_path, kubeconfig)

    def test_missing_kubeconfig_and_missing_pod_are_told_apart(self, tmp_path: Path) -> None:
        """Outside a cluster the option is named."""
        assert "cannot read the kubeconfig" in self.start(tmp_path, tmp_path / "none")
        assert "outside a cluster, give --kubeconfig FILE" in self.start(tmp_path, None)

    @pytest.mark.parametrize("content", [b"junk", None])
    def test_unusable_serving_certificate_is_named(self, content: bytes | None, tmp_path: Path) -> None:
        """Both files are said."""
        certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        if content is not None:
            certificate.write_bytes(content)
            key.write_bytes(content)
        done = serve("--listen", ANYWHERE, "--tls-cert-file", certificate, "--tls-key-file", key, folder=tmp_path)
        assert done.returncode == 1
        assert str(certificate) in done.stderr
        assert "Traceback" not in done.stderr


def test_self_signed_certificate_is_for_the_given_names(tmp_path: Path) -> None:
    """Verified by nothing but itself, for trying out; the key is its owner's alone."""
    with stage(tmp_path) as with_files:
        kubeconfig = with_files.kube.write_kubeconfig(tmp_path)

        class SelfSigned(SecureServer):
            def build_arguments(self, port: int) -> list[str]:
                kept = [argument for argument in super().build_arguments(port) if not argument.startswith("--tls-")]
                return [*kept, "--tls-self-signed=adapter.example", f"--tls-self-signed={LOOPBACK}"]

            def build_context(self, credential: Credential | None = None) -> ssl.SSLContext:
                context = super().build_context(credential)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                return context

        with SelfSigned(
            {"prometheus": {"url": with_files.backend.url}, "metrics": RULES},
            authority=with_files.kube.ca,
            server_name=SERVER_NAME,
            kubeconfig=kubeconfig,
            environment={"TMPDIR": str(tmp_path)},
        ) as server:
            assert server.get(DEPTH, credential=with_files.alice).values == ["5"]
            with connect(server) as tls:
                certificate = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["adapter.example"]
        assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == [LOOPBACK]
