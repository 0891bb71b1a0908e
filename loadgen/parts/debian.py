"""Parts from Debian packages, unpacked into the cache: no package is installed, no service started, no root needed.

apt works here in folders of its own, below the cache. It reads the system's package sources, keys and status, and
writes nothing outside of the cache.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from loadgen.parts.cachefolder import Report, hold_lock
from loadgen.parts.catalogue import DebianPart, describe_platform
from loadgen.parts.command import run_tool
from loadgen.parts.errors import PartUnavailable

UPDATE_DEADLINE_S = 300.0
DOWNLOAD_DEADLINE_S = 900.0
LISTS_MAX_AGE_S = 12 * 3600.0

# Hooks of the system's own configuration would run after an update here and touch the system: `#clear` drops them.
# Indexes that no download needs are left out; a source that does not answer must not hold up the others for long.
APT_OVERRIDES = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
Acquire::Languages "none";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::CNF::DefaultEnabled "false";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
APT::Sandbox::User "root";
Debug::NoLocking "true";
"""


def locate_unpacked(part: DebianPart, cache: Path) -> Path:
    """Return where the program of *part* stands, or would."""
    return cache / "debian" / f"{part.name}-{describe_platform()}" / "bin" / part.executables[0]


def unpack_part(part: DebianPart, *, cache: Path, environ: Mapping[str, str], report: Report) -> Path:
    """Download and unpack *part*, unless another command just did, and return its program.

    Raises: PartUnavailable where there is no apt, no network, or no such package.
    """
    program = locate_unpacked(part, cache)
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool, path=environ.get("PATH", os.defpath)) is None:
            raise PartUnavailable(
                part=part.name,
                cause=f"{tool} is not on this machine, so Debian's package {part.package} cannot be unpacked",
                next_step=f"install {part.executables[0]} yourself and put it on PATH",
            )
    with hold_lock(cache / "debian" / "apt.lock", report):
        if program.is_file():
            return program
        apt = PrivateApt(cache / "debian" / "apt", part=part.name, environ=environ, report=report)
        with tempfile.TemporaryDirectory(dir=cache / "debian", prefix="partial-") as partial:
            folder = Path(partial)
            report(f"{part.name}: downloading Debian's package {part.package}")
            root = folder / "part" / "root"
            root.mkdir(parents=True)
            for archive in apt.download(part.package, with_libraries=part.needs_libraries):
                apt.run(["dpkg", "-x", archive, root], deadline_s=DOWNLOAD_DEADLINE_S)
            write_launcher(root, part=part, home=program.parent.parent, launcher=folder / "part" / "bin" / program.name)
            shutil.rmtree(program.parent.parent, ignore_errors=True)
            (folder / "part").rename(program.parent.parent)
    return program


def write_launcher(root: Path, *, part: DebianPart, home: Path, launcher: Path) -> None:
    """Make *launcher* start the program unpacked below *root*, as it will stand in *home*.

    A link where the program needs nothing else; a script that names the unpacked libraries where it does. Either way
    the started process is the program itself.

    Raises: PartUnavailable when the package holds no such program.
    """
    if not (root / part.binary).exists():
        raise PartUnavailable(
            part=part.name,
            cause=f"Debian's package {part.package} holds no {part.binary}",
            next_step=f"install {part.executables[0]} yourself and put it on PATH",
        )
    launcher.parent.mkdir(parents=True)
    libraries = sorted({path.parent.relative_to(root) for path in root.rglob("*.so.*")})
    if not libraries:
        launcher.symlink_to(Path("..") / "root" / part.binary)
        return
    search_path = ":".join(str(home / "root" / library) for library in libraries)
    launcher.write_text(
        "#!/bin/sh\n"
        f'export LD_LIBRARY_PATH="{search_path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"\n'
        f'exec "{home / "root" / part.binary}" "$@"\n'
    )
    launcher.chmod(0o755)


class PrivateApt:
    """apt-get with folders of its own below *folder*."""

    def __init__(self, folder: Path, *, part: str, environ: Mapping[str, str], report: Report) -> None:
        self._folder = folder
        self._part = part
        self._report = report
        self._lists = folder / "state" / "lists"
        self._archives = folder / "cache" / "archives"
        for created in (self._lists / "partial", self._archives / "partial", folder / "log"):
            created.mkdir(parents=True, exist_ok=True)
        self._environ = {**environ, "APT_CONFIG": str(self._write_configuration()), "LC_ALL": "C.UTF-8"}

    def run(self, arguments: list[str | Path], *, deadline_s: float, folder: Path | None = None) -> str:
        """Run one command; see `run_tool`."""
        return run_tool(
            arguments,
            part=self._part,
            folder=folder or self._folder,
            environ=self._environ,
            deadline_s=deadline_s,
            report=self._report,
            next_step="check the network and the sources in /etc/apt, or put the program on PATH",
        )

    def download(self, package: str, *, with_libraries: bool) -> list[Path]:
        """Return the archive of *package*, and of what it depends on that this machine lacks where asked for.

        The package lists are fetched first when they are missing or old, and once more when they name archives that
        are gone.
        """
        is_fresh = self._update_if_old()
        try:
            return self._download(package, with_libraries=with_libraries)
        except PartUnavailable:
            if is_fresh:
                raise
        self._update()
        return self._download(package, with_libraries=with_libraries)

    def _download(self, package: str, *, with_libraries: bool) -> list[Path]:
        shutil.rmtree(self._archives)
        (self._archives / "partial").mkdir(parents=True)
        if with_libraries:
            options = ["install", "--download-only", "--no-install-recommends", "--yes", "--reinstall"]
        else:
            options = ["download"]
        self.run(["apt-get", *options, package], deadline_s=DOWNLOAD_DEADLINE_S, folder=self._archives)
        return sorted(self._archives.glob("*.deb"))

    def _update_if_old(self) -> bool:
        stamp = self._folder / "updated"
        if stamp.is_file() and 0 <= time.time() - stamp.stat().st_mtime < LISTS_MAX_AGE_S:
            return False
        self._update()
        return True

    def _update(self) -> None:
        self._report(f"{self._part}: fetching package lists into {self._folder}")
        try:
            self.run(["apt-get", "update"], deadline_s=UPDATE_DEADLINE_S)
        except PartUnavailable as exc:
            # One broken source of several is no reason to give up: the download tells whether it mattered.
            self._report(f"{self._part}: some package lists could not be fetched: {exc.cause}")
            return
        (self._folder / "updated").touch()

    def _write_configuration(self) -> Path:
        parts = self._folder / "parts"
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir()
        system = Path("/etc/apt")
        sources = sorted((system / "apt.conf.d").glob("*")) if (system / "apt.conf.d").is_dir() else []
        for source in sources:
            if source.suffix in {"", ".conf"} and os.access(source, os.R_OK):
                (parts / f"10-{source.name}").symlink_to(source)
        if (system / "apt.conf").is_file():
            (parts / "20-main").symlink_to(system / "apt.conf")
        (parts / "90-depthgauge").write_text(APT_OVERRIDES)
        configuration = self._folder / "apt.conf"
        configuration.write_text(
            f'Dir::Etc::parts "{parts}";\n'
            'Dir::Etc::main "/dev/null";\n'
            f'Dir::State "{self._folder / "state"}";\n'
            f'Dir::State::lists "{self._lists}";\n'
            'Dir::State::status "/var/lib/dpkg/status";\n'
            f'Dir::Cache "{self._folder / "cache"}";\n'
            f'Dir::Cache::archives "{self._archives}";\n'
            f'Dir::Log "{self._folder / "log"}";\n'
        )
        return configuration
