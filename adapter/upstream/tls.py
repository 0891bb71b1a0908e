"""The TLS context towards one backend, made again when its files change."""

import ssl
from pathlib import Path

from adapter.clock import Clock
from adapter.domain.backends import TlsSettings
from adapter.errors import BackendUnavailable
from adapter.upstream.credentials import WatchedFile

TLS_FILE_LIMIT_BYTES = 4 * 1024 * 1024
"""The whole of Mozilla's bundle has about 250 KiB."""


class TlsFiles:
    """The CA bundle, certificate and key of a backend, as far as configured."""

    def __init__(self, settings: TlsSettings, *, clock: Clock) -> None:
        self._settings = settings
        paths = {
            "tls.caFile": settings.ca_file,
            "tls.certFile": settings.cert_file,
            "tls.keyFile": settings.key_file,
        }
        self._files = tuple(
            WatchedFile(path, key=key, limit_bytes=TLS_FILE_LIMIT_BYTES, clock=clock)
            for key, path in paths.items()
            if path is not None
        )

    def read(self) -> tuple[bytes, ...]:
        """Return the files' contents; they differ when a new context is due.

        Raises: BackendUnavailable, naming the file that cannot be read.
        """
        return tuple(file.read() for file in self._files)

    def build_context(self) -> ssl.SSLContext:
        """Return a context from the files as they are now. Blocking: reads the system's CA bundle where no CA is given.

        Raises: BackendUnavailable, naming the file that OpenSSL refuses.
        Source: Prometheus' tls_config: a CA file replaces the system's bundle.
        """
        settings = self._settings
        if settings.insecure_skip_verify:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context = _build_verifying_context(settings.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if settings.cert_file is not None:
            _load_identity(context, settings.cert_file, settings.key_file)
        return context


def _build_verifying_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as exc:
        raise BackendUnavailable(detail=f"cannot use tls.caFile {ca_file}: {_cause_of(exc)}") from exc
    # Python 3.13 and later refuse CAs without key identifiers, which Go (so Prometheus, Thanos, curl) accepts and
    # in-cluster tools still issue. Chain, validity and host name are checked all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _load_identity(context: ssl.SSLContext, cert_file: Path, key_file: Path | None) -> None:
    def refuse_password() -> str:
        raise ValueError("the key is encrypted, which is not supported")

    try:
        context.load_cert_chain(cert_file, key_file, password=refuse_password)
    except (OSError, ValueError) as exc:
        files = f"tls.certFile {cert_file}" + (f" with tls.keyFile {key_file}" if key_file is not None else "")
        raise BackendUnavailable(detail=f"cannot use {files}: {_cause_of(exc)}") from exc


def _cause_of(exc: Exception) -> str:
    if isinstance(exc, ssl.SSLError):
        return (exc.reason or "not PEM").replace("_", " ").lower()
    if isinstance(exc, OSError):
        return exc.strerror or type(exc).__name__
    return str(exc)
