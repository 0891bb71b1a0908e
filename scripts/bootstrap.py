"""Makes .venv from uv.lock with nothing but Python's standard library; run by scripts/setup.

uv, the installer, is PATH's where that is recent enough; else its pinned wheel is fetched into the user's cache.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

# These import only the standard library: a test runs them without site-packages.
from loadgen.parts.cachefolder import find_cache_folder, hold_lock  # noqa: E402
from loadgen.parts.catalogue import parse_version  # noqa: E402
from loadgen.parts.errors import PartUnavailable  # noqa: E402
from loadgen.parts.wheel import DEFAULT_INDEX, PinnedWheel, WheelFile, fetch_wheel, select_index  # noqa: E402

MINIMUM_PYTHON = (3, 11)
COMMANDS = ("depthgauge", "loadgen")
# What uv is told by the caller's environment: where to fetch from and how. Everything else that could bend the result
# (UV_FIND_LINKS, UV_PROJECT_ENVIRONMENT, VIRTUAL_ENV, PIP_*, PYTHONPATH, …) stays outside.
KEPT_UV_SETTINGS = (
    "UV_CACHE_DIR",
    "UV_CONCURRENT_DOWNLOADS",
    "UV_HTTP_TIMEOUT",
    "UV_INSECURE_HOST",
    "UV_LINK_MODE",
    "UV_OFFLINE",
)
DROPPED_PREFIXES = ("UV_", "PIP_", "PYTHON", "VIRTUAL_ENV", "CONDA_")

UV_WHEEL = PinnedWheel(
    project="uv",
    version="0.13.9",
    files=MappingProxyType(
        {
            "x86_64": WheelFile(
                filename="uv-0.13.9-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
                sha256="d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
            ),
            "aarch64": WheelFile(
                filename="uv-0.13.9-py3-none-manylinux_2_28_aarch64.whl",
                sha256="ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
            ),
        }
    ),
)
MINIMUM_UV = parse_version(UV_WHEEL.version)
STARTED_S = time.monotonic()


def main() -> int:
    """Bring .venv up to date and return the exit code."""
    try:
        if compute_stamp() == read_stamp():
            return 0
        with hold_lock(CHECKOUT / "build" / "setup.lock", report):
            if compute_stamp() != read_stamp():
                set_up()
    except PartUnavailable as exc:
        print(f"setup: error: {exc}", file=sys.stderr)
        return 1
    except OSError as exc:
        print(f"setup: error: {exc}\n  next: make {CHECKOUT} writable, with some free space", file=sys.stderr)
        return 1
    return 0


def set_up() -> None:
    """Fetch what is missing and install everything that uv.lock names."""
    cache = find_cache_folder(os.environ, checkout=CHECKOUT)
    if cache.is_relative_to(CHECKOUT):
        report(f"HOME cannot be written: tools are kept in {cache}")
    uv = find_uv(os.environ) or fetch_uv(cache)
    report(f"installing what uv.lock names into {CHECKOUT / '.venv'} with {uv}")
    environ = build_environment(os.environ, cache=cache)
    index = select_index(os.environ)
    if index == DEFAULT_INDEX:
        run_uv(uv, ["sync", "--locked", "--python", choose_python()], environ=environ)
    else:
        sync_from_mirror(uv, index=index, environ=environ)
    missing = [command for command in COMMANDS if not (CHECKOUT / ".venv" / "bin" / command).exists()]
    if missing:
        raise PartUnavailable(
            part="setup",
            cause=f"uv ended well, but .venv/bin has no {' and no '.join(missing)}",
            next_step="remove .venv and run scripts/setup again",
        )
    stamp_path().write_text(compute_stamp())
    report("done")


def sync_from_mirror(uv: Path, *, index: str, environ: Mapping[str, str]) -> None:
    """Install the locked versions, by their locked digests, from another index than the one that uv.lock names."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        export = ["export", "--frozen", "--no-emit-project", "--output-file", str(requirements)]
        run_uv(uv, [*export, "--quiet"], environ=environ)
        if find_venv_python() is None:
            run_uv(uv, ["venv", "--clear", "--python", choose_python()], environ=environ)
        mirrored = {**environ, "UV_DEFAULT_INDEX": index}
        run_uv(uv, ["pip", "sync", "--require-hashes", str(requirements)], environ=mirrored)
        run_uv(uv, ["pip", "install", "--no-deps", "--editable", "."], environ=mirrored)


def find_uv(environ: Mapping[str, str]) -> Path | None:
    """Return PATH's uv if it runs and is recent enough to read uv.lock as it was written."""
    found = shutil.which("uv", path=environ.get("PATH", os.defpath))
    if found is None:
        return None
    try:
        answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=True, timeout=20)
        return Path(found) if parse_version(answer.stdout) >= MINIMUM_UV else None
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def fetch_uv(cache: Path) -> Path:
    """Return the pinned uv, fetched into the cache where it is not there yet."""
    folder = fetch_wheel(UV_WHEEL, cache=cache, environ=os.environ, report=report)
    return folder / f"uv-{UV_WHEEL.version}.data" / "scripts" / "uv"


def build_environment(environ: Mapping[str, str], *, cache: Path) -> dict[str, str]:
    """Return the environment for uv: network settings stay, everything that could change the outcome goes."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in KEPT_UV_SETTINGS or not name.startswith(DROPPED_PREFIXES)
    }
    if cache.is_relative_to(CHECKOUT):
        kept.setdefault("UV_CACHE_DIR", str(cache / "uv"))
    # The same certificate authorities that Python just used; uv would bring its own list.
    return kept | {"UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}


def choose_python() -> str:
    """Return the interpreter for .venv: the one that is in it if it still fits, else the one that runs this."""
    return str(find_venv_python() or sys.executable)


def find_venv_python() -> Path | None:
    """Return the interpreter of a .venv that works and is recent enough."""
    python = CHECKOUT / ".venv" / "bin" / "python"
    check = f"import sys; sys.exit(sys.version_info < {MINIMUM_PYTHON})"
    try:
        subprocess.run([python, "-I", "-S", "-c", check], capture_output=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return python


def run_uv(uv: Path, arguments: list[str], *, environ: Mapping[str, str]) -> None:
    """Run uv in the checkout with its output shown; PartUnavailable with what to do next when it fails."""
    try:
        code = subprocess.run(
            [uv, *arguments], check=False, cwd=CHECKOUT, env=dict(environ), stdin=subprocess.DEVNULL
        ).returncode
    except OSError as exc:
        raise PartUnavailable(part="uv", cause=f"cannot run {uv}: {exc}", next_step=f"remove {uv}") from exc
    if code != 0:
        raise PartUnavailable(
            part="uv",
            cause=f"`uv {arguments[0]}` ended with {code}; its own words are above",
            next_step="check the network (a proxy goes into HTTPS_PROXY, a mirror into UV_DEFAULT_INDEX),"
            " then run scripts/setup again",
        )


def compute_stamp() -> str:
    """Return a digest of all that .venv was made from; empty when .venv does not work as it stands."""
    venv = CHECKOUT / ".venv"
    if not all(os.access(venv / "bin" / name, os.X_OK) for name in ("python", *COMMANDS)):
        return ""
    sources = (CHECKOUT / "uv.lock", CHECKOUT / "pyproject.toml", venv / "pyvenv.cfg", Path(__file__))
    digest = hashlib.sha256(str(CHECKOUT).encode())
    for source in sources:
        digest.update(source.read_bytes() if source.exists() else b"-")
    return digest.hexdigest()


def read_stamp() -> str:
    """Return the digest of the last successful run; a space, which is no digest, when there was none."""
    return stamp_path().read_text() if stamp_path().is_file() else " "


def stamp_path() -> Path:
    """Where the digest of the last successful run is kept."""
    return CHECKOUT / ".venv" / "setup-stamp"


def report(line: str) -> None:
    """Print one line of progress."""
    print(f"[{time.monotonic() - STARTED_S:6.1f} s] setup: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
