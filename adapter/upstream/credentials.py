"""Files that are read again when they change, and the Authorization header made of them."""

import logging
import stat
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path

from adapter.clock import Clock
from adapter.domain.backends import BackendSettings
from adapter.errors import BackendUnavailable

logger = logging.getLogger(__name__)

CREDENTIAL_LIMIT_BYTES = 64 * 1024
"""A token or a password is far smaller; whatever is larger is the wrong file."""

SETTLED_AFTER_S = 2.0
"""A file changed less than this ago may change again without a new mtime, which has the kernel's coarse clock."""

REDACTED_FROM_CHARS = 4
"""Shorter secrets would blot out half of any text, and tell less."""

_SECRET_HEADER_PARTS = ("auth", "cookie", "key", "secret", "token")


class WatchedFile:
    """A small file's content, read again whenever its inode, size or modification time differs.

    A swapped symlink (a ConfigMap's or Secret's `..data`) leads to another inode. Stat and read are done inline: they
    take microseconds on the tmpfs that Kubernetes mounts.
    """

    def __init__(self, path: Path, *, key: str, limit_bytes: int, clock: Clock) -> None:
        self.path = path
        self.key = key
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._signature: tuple[int, ...] | None = None
        self._content = b""

    def read(self) -> bytes:
        """Return the content as it is now.

        Raises: BackendUnavailable, naming the configuration key, the path and the cause.
        """
        try:
            status = self.path.stat()
            signature = (status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev)
            if signature == self._signature:
                return self._content
            if not stat.S_ISREG(status.st_mode):
                raise BackendUnavailable(detail=f"cannot read {self.key} {self.path}: not a regular file")
            with self.path.open("rb") as file:
                content = file.read(self._limit_bytes + 1)
        except OSError as exc:
            detail = f"cannot read {self.key} {self.path}: {exc.strerror or type(exc).__name__}"
            raise BackendUnavailable(detail=detail) from exc
        if len(content) > self._limit_bytes:
            limit_kib = self._limit_bytes // 1024
            raise BackendUnavailable(detail=f"cannot read {self.key} {self.path}: larger than {limit_kib} KiB")
        is_settled = self._clock.now_s() - status.st_mtime >= SETTLED_AFTER_S
        self._signature = signature if is_settled else None
        self._content = content
        return content


class Secret:
    """A token or password in a watched file; the last good one is kept while the file is unreadable or unfit."""

    def __init__(self, file: WatchedFile, *, backend: str, is_header_text: bool) -> None:
        self._file = file
        self._backend = backend
        self._is_header_text = is_header_text
        self._good: bytes | None = None
        self._complaint = ""

    def read(self) -> bytes:
        """Return the secret without the newline at its end.

        Raises: BackendUnavailable where there has never been a good one. Neither the error nor the log shows it.
        """
        try:
            secret = self._file.read().strip()
            self._check(secret)
        except BackendUnavailable as exc:
            if self._good is None:
                raise
            if exc.detail != self._complaint:
                self._complaint = exc.detail
                logger.warning(
                    'credential_unusable backend=%s detail="%s" kept="the last good one"', self._backend, exc.detail
                )
            return self._good
        self._complaint = ""
        self._good = secret
        return secret

    def _check(self, secret: bytes) -> None:
        where = f"{self._file.key} {self._file.path}"
        if not secret:
            raise BackendUnavailable(detail=f"{where} is empty")
        if self._is_header_text and not all(0x20 <= byte <= 0x7E for byte in secret):
            raise BackendUnavailable(
                detail=f"{where} holds something other than one line of printable ASCII: not a token"
            )


@dataclass(frozen=True, slots=True)
class Authorization:
    """What goes into the Authorization header, and the texts that no message may show."""

    header: bytes | None
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Authorization(header={'set' if self.header else None})"

    def redact(self, text: str) -> str:
        """Return *text* with every secret that a backend echoes replaced."""
        for secret in self.secrets:
            if len(secret) >= REDACTED_FROM_CHARS:
                text = text.replace(secret, "[redacted]")
        return text


class Credentials:
    """How one backend is told who asks: a bearer token, basic authentication, or only the configured headers."""

    def __init__(self, settings: BackendSettings, *, clock: Clock) -> None:
        self._token: Secret | None = None
        self._password: Secret | None = None
        self._username = b""
        if settings.bearer_token_file is not None:
            file = WatchedFile(
                settings.bearer_token_file, key="bearerTokenFile", limit_bytes=CREDENTIAL_LIMIT_BYTES, clock=clock
            )
            self._token = Secret(file, backend=settings.name, is_header_text=True)
        elif settings.basic_auth is not None:
            file = WatchedFile(
                settings.basic_auth.password_file,
                key="basicAuth.passwordFile",
                limit_bytes=CREDENTIAL_LIMIT_BYTES,
                clock=clock,
            )
            self._password = Secret(file, backend=settings.name, is_header_text=False)
            self._username = settings.basic_auth.username.encode()
        self._header_secrets = tuple(
            value
            for name, value in settings.headers.items()
            if value and any(part in name.lower() for part in _SECRET_HEADER_PARTS)
        )

    def read(self) -> Authorization:
        """Return the header as the files stand now.

        Raises: BackendUnavailable where a file cannot be used and never could.
        """
        if self._token is not None:
            token = self._token.read()
            return Authorization(header=b"Bearer " + token, secrets=(token.decode("ascii"), *self._header_secrets))
        if self._password is not None:
            password = self._password.read()
            encoded = b64encode(self._username + b":" + password)
            secrets = (encoded.decode("ascii"), password.decode("utf-8", "replace"), *self._header_secrets)
            return Authorization(header=b"Basic " + encoded, secrets=secrets)
        return Authorization(header=None, secrets=self._header_secrets)
