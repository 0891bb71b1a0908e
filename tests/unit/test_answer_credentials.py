"""Credential files: read again when they change, kept while they are unusable, never shown."""

import base64
import logging
import os
from pathlib import Path

import pytest

from adapter.domain.backends import BackendSettings, BasicAuth
from adapter.errors import BackendUnavailable
from adapter.upstream.credentials import CREDENTIAL_LIMIT_BYTES, Credentials, WatchedFile

TOKEN = "s3cret-token"


class FixedClock:
    """A clock that stands where the test puts it."""

    def __init__(self, now_s: float) -> None:
        self.time_s = now_s

    def now_s(self) -> float:
        """Return the time set."""
        return self.time_s

    def monotonic_s(self) -> float:
        """Return the time set."""
        return self.time_s


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    """A file with a token and the newline that editors add."""
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


def build(path: Path, *, now_s: float | None = None) -> Credentials:
    """Return credentials with a bearer token file."""
    clock = FixedClock(path.stat().st_mtime if now_s is None else now_s)
    return Credentials(BackendSettings(name="b", url="http://h", bearer_token_file=path), clock=clock)


def test_credentials_have_no_header_when_none_is_configured() -> None:
    """Without a file there is no Authorization header."""
    assert Credentials(BackendSettings(name="b", url="http://h"), clock=FixedClock(0)).read().header is None


def test_credentials_strip_the_newline_of_a_token(token_file: Path) -> None:
    """The newline at the file's end is not part of the token."""
    assert build(token_file).read().header == b"Bearer s3cret-token"


def test_credentials_encode_basic_authentication_as_utf8(tmp_path: Path) -> None:
    """User and password are joined and encoded, beyond ASCII as UTF-8."""
    (tmp_path / "password").write_text("pässword\n", encoding="utf-8")
    settings = BackendSettings(name="b", url="http://h", basic_auth=BasicAuth("user", tmp_path / "password"))

    header = Credentials(settings, clock=FixedClock(0)).read().header

    assert header == b"Basic " + base64.b64encode("user:pässword".encode())


def test_b10_credentials_follow_a_token_rewritten_within_the_same_instant(token_file: Path) -> None:
    """A rewrite that leaves size, inode and mtime alike is seen, as long as the file has just changed."""
    status = token_file.stat()
    credentials = build(token_file)
    first = credentials.read().header
    token_file.write_text("S3CRET-TOKEN\n")
    os.utime(token_file, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert (first, credentials.read().header) == (b"Bearer s3cret-token", b"Bearer S3CRET-TOKEN")


def test_b10_credentials_follow_a_swapped_symlink(tmp_path: Path) -> None:
    """A Secret's `..data` symlink swapped to another folder is another token, also long after the files were made."""
    for name, token in (("v1", "token-one"), ("v2", "token-two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(token)
        os.utime(tmp_path / name / "token", (1000, 1000))
    (tmp_path / "..data").symlink_to("v1")
    credentials = build(tmp_path / "..data" / "token", now_s=5000)
    first = credentials.read().header
    (tmp_path / "..new").symlink_to("v2")
    (tmp_path / "..new").replace(tmp_path / "..data")

    assert (first, credentials.read().header) == (b"Bearer token-one", b"Bearer token-two")


def test_watched_file_is_not_read_again_while_it_has_not_changed(token_file: Path) -> None:
    """A file that settled long ago costs a stat and no more: what changes without a trace is not seen."""
    os.utime(token_file, (1000, 1000))
    file = WatchedFile(token_file, key="k", limit_bytes=100, clock=FixedClock(5000))
    first = file.read()
    token_file.write_text("S3CRET-TOKEN\n")
    os.utime(token_file, (1000, 1000))

    assert file.read() is first


@pytest.mark.parametrize(
    ("content", "named"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n", "is empty", id="blank"),
        pytest.param(b"s3cret\nHost: evil\n", "not a token", id="inner newline"),
        pytest.param(b"s3cret\rx", "not a token", id="inner carriage return"),
        pytest.param("s3crét".encode(), "not a token", id="not ASCII"),
        pytest.param(b"s3cret\x00", "not a token", id="binary"),
        pytest.param(b"s3cret" * CREDENTIAL_LIMIT_BYTES, "larger than 64 KiB", id="huge"),
    ],
)
def test_credentials_refuse_an_unfit_token_without_showing_it(tmp_path: Path, content: bytes, named: str) -> None:
    """A file that holds no token is named with its fault, and not a byte of it is shown."""
    path = tmp_path / "token"
    path.write_bytes(content)

    with pytest.raises(BackendUnavailable) as caught:
        build(path).read()

    assert str(path) in caught.value.detail
    assert named in caught.value.detail
    assert "bearerTokenFile" in caught.value.detail
    assert "s3cr" not in caught.value.detail


def test_credentials_name_a_file_that_does_not_exist(tmp_path: Path) -> None:
    """An unreadable file is told by its configuration key, path and cause; it is no connection failure."""
    credentials = Credentials(
        BackendSettings(name="b", url="http://h", bearer_token_file=tmp_path / "none"), clock=FixedClock(0)
    )

    with pytest.raises(BackendUnavailable) as caught:
        credentials.read()

    expected = f"cannot read bearerTokenFile {tmp_path / 'none'}: No such file or directory"
    assert (caught.value.detail, caught.value.is_connection) == (expected, False)


def test_credentials_refuse_a_pipe_instead_of_waiting_for_it(tmp_path: Path) -> None:
    """A path that is no regular file is refused at once: opening a pipe would block the whole server."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(BackendUnavailable) as caught:
        build(tmp_path / "pipe").read()

    assert "not a regular file" in caught.value.detail


@pytest.mark.parametrize("fault", ["removed", "emptied", "spoilt"])
def test_credentials_keep_the_last_good_token_and_warn_once(
    token_file: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """While the file is unusable the last good token is used; one warning a fault says so, and never shows it."""
    credentials = build(token_file)
    good = credentials.read().header
    if fault == "removed":
        token_file.unlink()
    else:
        token_file.write_text("" if fault == "emptied" else "s3cret\nx")

    with caplog.at_level(logging.WARNING):
        kept = {credentials.read().header for _ in range(5)}

    assert kept == {good}
    assert len(caplog.records) == 1
    assert str(token_file) in caplog.text
    assert "s3cret" not in caplog.text


def test_credentials_warn_again_after_the_token_had_recovered(
    token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each time that the file goes bad is worth one warning."""
    credentials = build(token_file)
    for _ in range(2):
        token_file.write_text(TOKEN)
        credentials.read()
        token_file.unlink()
        credentials.read()

    assert len(caplog.records) == 2


def test_credentials_are_redacted_from_what_a_backend_echoes(token_file: Path) -> None:
    """Token and secret headers are cut out of a text; a tenant's name stays."""
    settings = BackendSettings(
        name="b",
        url="http://h",
        bearer_token_file=token_file,
        headers={"X-Api-Key": "k-12345", "X-Scope-OrgID": "team"},
    )
    authorization = Credentials(settings, clock=FixedClock(0)).read()

    assert authorization.redact(f"{TOKEN} k-12345 team") == "[redacted] [redacted] team"
    assert TOKEN not in repr(authorization)
