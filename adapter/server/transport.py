"""TLS: which certificate the server shows, and which CAs may come in.

A handshake looks up the context in force through `sni_callback`, so certificates and CAs change for the next handshake
while connections go on.
"""

import asyncio
import logging
import ssl
from pathlib import Path

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from adapter.server.connection import SecureConnection

_RELOAD_EVERY_S = 5.0

_log = logging.getLogger(__name__)


class BadCertificate(Exception):
    """The serving certificate or its key cannot be used; the message says which file and why."""


class ServingTls:
    """The server's TLS context, replaced as a whole when the serving certificate or the trusted CAs change.

    *client_ca_pem* are all CAs from which a client certificate passes the handshake; whom it speaks for is judged later
    (`authn`), by the one CA that it claims. A client without a certificate passes too: probes, tokens.
    """

    def __init__(self, cert_file: Path, key_file: Path) -> None:
        self._cert_file = cert_file
        self._key_file = key_file
        self._client_ca_der = b""
        self._contents = self._read()
        self._current = self._build()

    def build_front(self) -> ssl.SSLContext:
        """Return the context to listen with: every handshake goes on in the one that is in force then."""
        front = self._build()
        front.sni_callback = self._choose
        return front

    def trust(self, client_ca_pem: bytes) -> None:
        """Let clients of these CAs pass the next handshakes.

        Raises BadCertificate, and changes nothing, if they cannot be read.
        """
        self._client_ca_der = _read_cas(client_ca_pem)
        try:
            self._current = self._build()
        except BadCertificate:
            # The files hold no usable pair just now. The pair in use stays; CAs can only be added to its context, and
            # those that it had before are refused by authentication.
            if self._client_ca_der:
                self._current.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
                self._current.load_verify_locations(cadata=self._client_ca_der)

    def reload_if_changed(self) -> bool:
        """Use the files' new contents for the next handshakes; return whether there were any.

        Raises BadCertificate if they cannot be used; the previous ones stay then.
        """
        contents = self._read()
        if contents == self._contents:
            return False
        self._contents = contents
        self._current = self._build()
        return True

    async def keep_fresh(self) -> None:
        """Reload for ever; a file that cannot be used is logged once, and the previous certificate stays."""
        complaint = ""
        while True:
            await asyncio.sleep(_RELOAD_EVERY_S)
            try:
                if self.reload_if_changed():
                    complaint = ""
                    _log.info("serving_certificate_reloaded cert_file=%s", self._cert_file)
            except BadCertificate as error:
                if str(error) != complaint:
                    complaint = str(error)
                    _log.error("serving_certificate_unusable kept=previous %s", error)

    def _choose(self, tls: ssl.SSLObject, _server_name: str | None, _initial: ssl.SSLContext) -> None:
        tls.context = self._current

    def _read(self) -> tuple[bytes, bytes]:
        try:
            return self._cert_file.read_bytes(), self._key_file.read_bytes()
        except OSError as error:
            raise BadCertificate(f"cannot read {error.filename}: {error.strerror}") from error

    def _build(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # No resumption: every handshake proves the client's certificate to the CAs in force.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        # Also without a CA: what a handshake asks of the client comes from the context that it began with.
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_cert_chain(self._cert_file, self._key_file)
        except (ssl.SSLError, OSError) as error:
            raise BadCertificate(f"{self._cert_file} and {self._key_file} are no usable pair: {error}") from error
        if self._client_ca_der:
            # An intermediate CA may stand alone in the bundle, as in Go.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_verify_locations(cadata=self._client_ca_der)
        return context


def _read_cas(pem: bytes) -> bytes:
    """Return the certificates of *pem*, DER, one after the other.

    Raises BadCertificate. OpenSSL's own reader refuses text beside the certificates that is not ASCII.
    """
    if not pem.strip():
        return b""
    try:
        return b"".join(ca.public_bytes(Encoding.DER) for ca in x509.load_pem_x509_certificates(pem))
    except ValueError as error:
        raise BadCertificate(f"the cluster's CAs for clients cannot be read: {error}") from error


def build_tls_config(app: object, tls: ServingTls, **settings: object) -> uvicorn.Config:
    """Return uvicorn's configuration for *app* behind *tls*."""
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=SecureConnection,
        ssl_context_factory=lambda _config, _default: tls.build_front(),
        **settings,  # type: ignore[arg-type]
    )
