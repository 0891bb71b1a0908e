"""How to reach one Prometheus-compatible server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """HTTP basic credentials; the file is read again when it changes."""

    username: str
    password_file: Path


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Trust and client identity towards the backend; files are read again when they change. None: the default."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """One backend of the configuration.

    *url* has no trailing slash and may have a path prefix; *timeout_s* is the deadline of one query in seconds;
    *max_concurrency* the queries under way at once; *headers* and *params* go with every query.
    """

    name: str
    url: str
    timeout_s: float = 5.0
    max_concurrency: int = 16
    bearer_token_file: Path | None = None
    basic_auth: BasicAuth | None = None
    tls: TlsSettings = field(default_factory=TlsSettings)
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
