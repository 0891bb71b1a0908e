"""Tokens, passwords, certificates and authorities towards a backend, changed while it is asked."""

import asyncio
import base64
import logging
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapter.domain.backends import BackendSettings, BasicAuth, TlsSettings
from adapter.domain.samples import QueryResult, Sample
from adapter.errors import BackendRefused, BackendUnavailable
from adapter.upstream.tls import TlsFiles
from tests.support.asking import NOW_S, Asker
from tests.support.fake_prometheus import Authority, FakePrometheus, page, vector

FIVE = vector([({"queue": "a"}, "5")])
FIVE_RESULT = QueryResult(samples=(Sample(labels={"queue": "a"}, value="5", timestamp_s=NOW_S),))
Serve = Callable[[ssl.SSLContext], FakePrometheus]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A certificate authority of the test's own."""
    return Authority(tmp_path)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts fake backends that answer 5 to q, over TLS."""
    servers = []

    def start(context: ssl.SSLContext) -> FakePrometheus:
        server = FakePrometheus(ssl_context=context).start()
        server.set("q", FIVE)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


def trusting(fake: FakePrometheus, **tls: object) -> BackendSettings:
    """Return settings for *fake* with these TLS settings."""
    return BackendSettings(name="default", url=fake.url, tls=TlsSettings(**tls))  # type: ignore[arg-type]


def catch_detail(asker: Asker) -> str:
    """Return the detail of a connection failure."""
    with pytest.raises(BackendUnavailable) as caught:
        asker.query()
    assert caught.value.is_connection
    return caught.value.detail


def test_b10_rotated_token_goes_with_the_next_query(tmp_path: Path) -> None:
    """A token rewritten on disk is used by the next query, without a restart."""
    token_file = tmp_path / "token"
    with FakePrometheus() as fake:
        fake.set("q", FIVE)
        with Asker(BackendSettings(name="b", url=fake.url, bearer_token_file=token_file)) as asker:
            for token in ("token-1", "token-2\n", "token-3"):
                token_file.write_text(token)
                asker.query()

        sent = [request.headers["authorization"] for request in fake.requests]
    assert sent == ["Bearer token-1", "Bearer token-2", "Bearer token-3"]


def test_basic_authentication_is_sent(tmp_path: Path) -> None:
    """User name and the password file's content make a Basic header."""
    (tmp_path / "password").write_text("pass:word\n")
    with FakePrometheus() as fake:
        fake.set("q", FIVE)
        settings = BackendSettings(name="b", url=fake.url, basic_auth=BasicAuth("user", tmp_path / "password"))
        with Asker(settings) as asker:
            asker.query()

        sent = fake.requests[0].headers["authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"user:pass:word"


def test_unreadable_token_asks_nothing(tmp_path: Path) -> None:
    """Without its token a query is not sent: an anonymous answer may be another tenant's."""
    with FakePrometheus() as fake:
        with (
            Asker(BackendSettings(name="b", url=fake.url, bearer_token_file=tmp_path / "none")) as asker,
            pytest.raises(BackendUnavailable) as caught,
        ):
            asker.query()

        assert "cannot read bearerTokenFile" in caught.value.detail
        assert not caught.value.is_connection
        assert not fake.requests


def test_echoed_token_is_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A backend that quotes our token in its refusal does not get it into an error or the log."""
    (tmp_path / "token").write_text("hunter2hunter2")
    with FakePrometheus() as fake, caplog.at_level(logging.INFO):
        fake.set("q", page(401, "invalid token hunter2hunter2"))
        with (
            Asker(BackendSettings(name="b", url=fake.url, bearer_token_file=tmp_path / "token")) as asker,
            pytest.raises(BackendRefused) as caught,
        ):
            asker.query()

    assert caught.value.detail == "401: invalid token [redacted]"
    assert "hunter2" not in caplog.text + repr(asker.backend) + repr(vars(asker.backend))


def test_healthy_queries_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """O6: no line per request at the default level, neither ours nor a library's."""
    with FakePrometheus() as fake, caplog.at_level(logging.INFO):
        fake.set("q", FIVE)
        with Asker(BackendSettings(name="b", url=fake.url)) as asker:
            asker.query()

    assert not [record for record in caplog.records if record.name != "asyncio"]


def test_tls_trusts_the_configured_authority(authority: Authority, serve: Serve) -> None:
    """A backend whose certificate is of the configured authority is asked over TLS, on a connection that is kept."""
    fake = serve(authority.build_server_context())
    with Asker(trusting(fake, ca_file=authority.ca_file)) as asker:
        assert [asker.query(), asker.query()] == [FIVE_RESULT] * 2

    assert fake.connections == 1


def test_tls_failure_names_an_unknown_authority(tmp_path: Path, authority: Authority, serve: Serve) -> None:
    """A certificate of another authority is a connection failure that says so."""
    fake = serve(authority.build_server_context())
    with Asker(trusting(fake, ca_file=Authority(tmp_path, "other").ca_file)) as asker:
        detail = catch_detail(asker)

    assert detail.startswith(f"cannot reach 127.0.0.1:{fake.port}: the server's certificate is not trusted: ")
    assert "unable to get local issuer certificate" in detail
    assert not fake.requests


def test_tls_failure_names_a_certificate_for_another_host(authority: Authority, serve: Serve) -> None:
    """A certificate that does not name the URL's host is a connection failure that says so."""
    fake = serve(authority.build_server_context("prometheus.example.org"))
    with Asker(trusting(fake, ca_file=authority.ca_file)) as asker:
        assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in catch_detail(asker)


def test_tls_system_authorities_do_not_trust_a_private_one(authority: Authority, serve: Serve) -> None:
    """Without caFile the system's authorities count, so a private one is refused."""
    fake = serve(authority.build_server_context())
    with Asker(trusting(fake)) as asker:
        assert "certificate is not trusted" in catch_detail(asker)


def test_tls_server_name_is_what_the_certificate_is_checked_for(authority: Authority, serve: Serve) -> None:
    """A serverName stands in for the URL's host in the check, for better and for worse."""
    fake = serve(authority.build_server_context("prometheus.example.org"))
    with Asker(trusting(fake, ca_file=authority.ca_file, server_name="prometheus.example.org")) as asker:
        assert asker.query() == FIVE_RESULT
    with Asker(trusting(fake, ca_file=authority.ca_file, server_name="other.example.org")) as asker:
        assert "Hostname mismatch" in catch_detail(asker)


def test_tls_verification_can_be_skipped(authority: Authority, serve: Serve) -> None:
    """With insecureSkipVerify any certificate is taken."""
    fake = serve(authority.build_server_context("prometheus.example.org"))
    with Asker(trusting(fake, insecure_skip_verify=True)) as asker:
        assert asker.query() == FIVE_RESULT


def test_tls_client_certificate_is_shown(authority: Authority, serve: Serve) -> None:
    """A backend that asks for a client certificate gets the configured one; without one the failure says what to do."""
    fake = serve(authority.build_server_context(is_client_required=True))
    cert_file, key_file = authority.issue_identity()
    with Asker(trusting(fake, ca_file=authority.ca_file, cert_file=cert_file, key_file=key_file)) as asker:
        assert asker.query() == FIVE_RESULT
    with Asker(trusting(fake, ca_file=authority.ca_file)) as asker:
        detail = catch_detail(asker)

    assert "may want a client certificate (tls.certFile)" in detail
    assert "handshake not completed" not in detail


def test_tls_to_a_plain_port_says_so() -> None:
    """TLS on a plain port is told as such."""
    with FakePrometheus() as fake, Asker(BackendSettings(name="b", url=fake.url.replace("http", "https"))) as asker:
        assert "does not speak TLS" in catch_detail(asker)


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        pytest.param("absent", "No such file or directory", id="absent"),
        pytest.param("garbage", "cannot use tls.caFile", id="no certificate"),
        pytest.param("empty", "cannot use tls.caFile", id="empty"),
    ],
)
def test_tls_file_unusable_from_the_start_is_named(
    tmp_path: Path, authority: Authority, serve: Serve, fault: str, named: str
) -> None:
    """A CA file that cannot be used is told by key, path and cause, and no query is sent without it."""
    ca_file = tmp_path / "given.pem"
    if fault != "absent":
        ca_file.write_text("garbage" if fault == "garbage" else "")
    fake = serve(authority.build_server_context())
    with Asker(trusting(fake, ca_file=ca_file)) as asker, pytest.raises(BackendUnavailable) as caught:
        asker.query()

    assert str(ca_file) in caught.value.detail
    assert named in caught.value.detail
    assert not caught.value.is_connection


def test_tls_key_that_does_not_fit_is_named(authority: Authority, serve: Serve) -> None:
    """A key of another certificate is told with both files."""
    fake = serve(authority.build_server_context(is_client_required=True))
    cert_file, _ = authority.issue_identity()
    _, key_file = authority.issue_identity()
    settings = trusting(fake, ca_file=authority.ca_file, cert_file=cert_file, key_file=key_file)
    with Asker(settings) as asker, pytest.raises(BackendUnavailable) as caught:
        asker.query()

    assert (
        caught.value.detail == f"cannot use tls.certFile {cert_file} with tls.keyFile {key_file}: key values mismatch"
    )


def test_tls_rotated_authority_is_trusted_without_a_restart(tmp_path: Path, serve: Serve) -> None:
    """A new CA in the file, and a server certificate of it, work with the next query."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    ca_file = tmp_path / "given.pem"
    ca_file.write_bytes(old.ca_pem)
    first, second = serve(old.build_server_context()), serve(new.build_server_context())
    port = first.port
    with Asker(trusting(first, ca_file=ca_file)) as asker:
        before = asker.query()
        first.stop()
        second.stop()
        second._port = port
        second.start()
        refused = catch_detail(asker)
        ca_file.write_bytes(new.ca_pem)

        assert (before, asker.query()) == (FIVE_RESULT, FIVE_RESULT)
    assert "certificate is not trusted" in refused


def test_tls_change_lets_queries_under_way_finish(tmp_path: Path, authority: Authority, serve: Serve) -> None:
    """Changed files mean new connections; the queries on the old ones end as if nothing had happened."""
    ca_file = tmp_path / "given.pem"
    ca_file.write_bytes(authority.ca_pem)
    fake = serve(authority.build_server_context())
    fake.set("later", FIVE.but(delay_s=0.3))
    with Asker(trusting(fake, ca_file=ca_file)) as asker:

        async def change_meanwhile() -> list[QueryResult]:
            fake.gate.close()
            asked = [asyncio.create_task(asker.backend.query("q", time_s=NOW_S, timeout_s=10))]
            await asyncio.to_thread(fake.wait_for_requests, 1)
            asked.append(asyncio.create_task(asker.backend.query("later", time_s=NOW_S, timeout_s=10)))
            await asyncio.to_thread(fake.wait_for_requests, 2)
            ca_file.write_bytes(authority.ca_pem + Authority(tmp_path, "more").ca_pem)
            asked.append(asyncio.create_task(asker.backend.query("q", time_s=NOW_S, timeout_s=10)))
            await asyncio.to_thread(fake.wait_for_requests, 3)
            fake.gate.open()
            return await asyncio.gather(*asked)

        assert asker.run(change_meanwhile()) == [FIVE_RESULT] * 3
        asker.query()

    assert [request.connection for request in fake.requests] == [1, 2, 3, 3]


def test_tls_files_that_are_broken_are_tried_once(
    authority: Authority, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken file is not loaded again with every query, only when it has changed."""
    loaded: list[None] = []
    build_context = TlsFiles.build_context

    def count(files: TlsFiles) -> ssl.SSLContext:
        loaded.append(None)
        return build_context(files)

    monkeypatch.setattr(TlsFiles, "build_context", count)
    fake = serve(authority.build_server_context())
    with Asker(trusting(fake, ca_file=authority.ca_file)) as asker:
        asker.query()
        authority.ca_file.write_text("spoilt")
        for _ in range(3):
            asker.query()

    assert len(loaded) == 2


@pytest.mark.parametrize("fault", ["removed", "spoilt"])
def test_tls_files_that_break_keep_the_old_connections_and_warn_once(
    authority: Authority, serve: Serve, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """A certificate that breaks on disk changes nothing for queries; one warning says so, and a repair is taken up."""
    fake = serve(authority.build_server_context(is_client_required=True))
    cert_file, key_file = authority.issue_identity()
    settings = trusting(fake, ca_file=authority.ca_file, cert_file=cert_file, key_file=key_file)
    with Asker(settings) as asker, caplog.at_level(logging.WARNING):
        asker.query()
        if fault == "removed":
            key_file.unlink()
        else:
            key_file.write_text("hunter2")
        kept = [asker.query() for _ in range(3)]
        new_cert_file, new_key_file = authority.issue_identity()
        new_cert_file.replace(cert_file)
        new_key_file.replace(key_file)
        repaired = asker.query()

    assert [*kept, repaired] == [FIVE_RESULT] * 4
    assert [request.connection for request in fake.requests] == [1, 1, 1, 1, 2]
    assert len(caplog.records) == 1
    assert str(key_file) in caplog.text
    assert "hunter2" not in caplog.text
