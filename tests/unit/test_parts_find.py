"""Where parts are looked for, and where what is provided is kept."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loadgen.parts import PARTS, DebianPart, GoPart, PartUnavailable, find_part, golang
from loadgen.parts.cachefolder import find_cache_folder, hold_lock
from loadgen.parts.catalogue import parse_version
from loadgen.parts.command import run_tool
from loadgen.parts.debian import locate_unpacked, write_launcher

CHECKOUT = Path(__file__).parents[2]


def write_program(path: Path, output: str) -> Path:
    """Write an executable that prints *output*."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("prometheus, version 2.42.0+ds (branch: debian/sid)", (2, 42, 0), id="prometheus"),
        pytest.param("go1.26.8", (1, 26, 8), id="go"),
        pytest.param("uv 0.13.9 (x86_64-unknown-linux-gnu)", (0, 13, 9), id="uv"),
        pytest.param("go version devel go1.30-abc 2027", (1, 30), id="development build"),
    ],
)
def test_version_is_the_first_dotted_number(text: str, expected: tuple[int, ...]) -> None:
    """What programs print of their version is read, whatever stands around it."""
    assert parse_version(text) == expected


def test_version_without_a_number_is_refused() -> None:
    """A program that prints no version is not taken for version 0."""
    with pytest.raises(ValueError, match="no version number"):
        parse_version("prometheus, version  (branch: , revision: unknown)")


def test_part_is_found_in_the_assets_folder_before_path(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS wins over PATH."""
    assets = write_program(tmp_path / "assets" / "etcd", "x")
    write_program(tmp_path / "path" / "etcd", "x")
    environ = {
        "HOME": str(tmp_path),
        "KUBEBUILDER_ASSETS": str(tmp_path / "assets"),
        "PATH": str(tmp_path / "path"),
    }
    assert find_part("etcd-server", environ=environ) == assets


def test_part_of_another_major_version_is_passed_over(tmp_path: Path) -> None:
    """A Prometheus 3 on PATH is prometheus3 and not prometheus, and the other way round."""
    new = write_program(tmp_path / "new" / "prometheus", "prometheus, version 3.4.1 (branch: HEAD)")
    old = write_program(tmp_path / "old" / "prometheus", "prometheus, version 2.53.0 (branch: HEAD)")
    environ = {"HOME": str(tmp_path), "PATH": str(new.parent)}
    assert find_part("prometheus", environ=environ) is None
    assert find_part("prometheus3", environ=environ) == new
    assert find_part("prometheus", environ={**environ, "PATH": str(old.parent)}) == old


def test_part_is_found_in_the_cache_where_neither_folder_has_it(tmp_path: Path) -> None:
    """What was provided once is found again, from XDG_CACHE_HOME as from HOME."""
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path / "empty")}
    part = PARTS["etcd-server"]
    assert isinstance(part, DebianPart)
    assert find_part("etcd-server", environ=environ) is None
    cached = write_program(locate_unpacked(part, tmp_path / "depthgauge"), "x")
    assert find_part("etcd-server", environ=environ) == cached


def test_part_of_an_unknown_name_lists_those_that_exist(tmp_path: Path) -> None:
    """A typo is told what there is."""
    with pytest.raises(PartUnavailable) as caught:
        find_part("promtheus", environ={"HOME": str(tmp_path)})
    assert caught.value.part == "promtheus"
    assert "prometheus3" in caught.value.next_step


def test_built_part_has_another_place_for_other_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed go.sum is built anew, never served from what was built before."""
    part = PARTS["prometheus3"]
    assert isinstance(part, GoPart)
    before = golang.locate_built(part, tmp_path)
    changed = tmp_path / "module"
    changed.mkdir()
    (changed / "go.sum").write_text("another")
    monkeypatch.setattr(golang, "_module_folder", lambda _part: changed)
    after = golang.locate_built(part, tmp_path)
    assert before != after
    assert before.name == after.name


def test_built_part_ships_the_module_that_it_is_built_from() -> None:
    """go.mod names the package and the Go version that the build asks for."""
    part = PARTS["prometheus3"]
    assert isinstance(part, GoPart)
    module = (golang._module_folder(part) / "go.mod").read_text()
    assert f"tool {part.package}" in module
    assert golang._required_go(part) >= (1, 26)


def test_go_is_taken_from_path_only_when_recent_enough(tmp_path: Path) -> None:
    """An older Go, or one that does not run, is as good as none."""
    go = write_program(tmp_path / "go", "go1.26.7")
    environ = {"PATH": str(tmp_path)}
    assert golang.find_go(environ, minimum=(1, 26, 7)) == go
    assert golang.find_go(environ, minimum=(1, 26, 8)) is None
    go.write_text("not a program")
    assert golang.find_go(environ, minimum=(1, 26, 7)) is None
    assert golang.find_go({"PATH": str(tmp_path / "empty")}, minimum=(1, 26, 7)) is None


def test_build_environment_drops_the_callers_build_settings_and_keeps_the_proxy(tmp_path: Path) -> None:
    """Flags, target and toolchain are the project's; where modules come from is the caller's."""
    caller = {
        "HOME": str(tmp_path),
        "GOOS": "plan9",
        "GOFLAGS": "-tags=x",
        "GOPROXY": "https://p.example",
        "GOROOT": "/x",
    }
    environ = golang.build_environment(caller, cache=tmp_path / "cache")
    assert environ["GOPROXY"] == "https://p.example"
    assert environ["GOFLAGS"] == "-mod=readonly -modcacherw"
    assert environ["GOTOOLCHAIN"] == "local"
    assert environ["CGO_ENABLED"] == "0"
    assert {"GOOS", "GOROOT", "GOCACHE"}.isdisjoint(environ)


def test_build_environment_without_a_home_keeps_gos_caches_in_ours(tmp_path: Path) -> None:
    """Go refuses to build without a cache folder, so it is given one."""
    environ = golang.build_environment({}, cache=tmp_path)
    assert Path(environ["GOCACHE"]).is_relative_to(tmp_path)
    assert Path(environ["GOPATH"]).is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({"XDG_CACHE_HOME": "{tmp}/xdg", "HOME": "{tmp}/home"}, "xdg/depthgauge", id="XDG first"),
        pytest.param({"XDG_CACHE_HOME": "relative", "HOME": "{tmp}/home"}, "home/.cache/depthgauge", id="relative XDG"),
        pytest.param({"HOME": ""}, "checkout/build/cache", id="empty HOME"),
        pytest.param({}, "checkout/build/cache", id="no HOME"),
        pytest.param({"HOME": "/proc/none"}, "checkout/build/cache", id="HOME cannot be written"),
    ],
)
def test_cache_folder_is_the_first_that_can_be_written(environ: dict[str, str], expected: str, tmp_path: Path) -> None:
    """The user's cache where there is one, the checkout's build folder otherwise; created."""
    filled = {name: value.format(tmp=tmp_path) for name, value in environ.items()}
    folder = find_cache_folder(filled, checkout=tmp_path / "checkout")
    assert folder == tmp_path / expected
    assert folder.is_dir()


def test_cache_folder_that_does_not_exist_anywhere_names_the_variable_to_set() -> None:
    """An installed wheel without a home folder has no place of its own, and says so."""
    with pytest.raises(PartUnavailable) as caught:
        find_cache_folder({"HOME": "/proc/none"}, checkout=None)
    assert "XDG_CACHE_HOME" in caught.value.next_step


def test_lock_lets_the_second_in_when_the_first_has_left_and_says_that_it_waits(tmp_path: Path) -> None:
    """Two commands do not work on the cache at once; the waiting one tells its user."""
    path = tmp_path / "some.lock"
    is_waiting, has_entered = threading.Event(), threading.Event()

    def enter() -> None:
        with hold_lock(path, lambda _line: is_waiting.set()):
            has_entered.set()

    second = threading.Thread(target=enter)
    with hold_lock(path, lambda _line: None):
        second.start()
        assert is_waiting.wait(10)
        assert not has_entered.is_set()
    assert has_entered.wait(10)
    second.join(10)


def test_launcher_of_a_program_with_libraries_names_them_and_becomes_the_program(tmp_path: Path) -> None:
    """The program sees its unpacked libraries first, gets its arguments, and keeps the process that was started."""
    part = PARTS["redis-server"]
    assert isinstance(part, DebianPart)
    home = tmp_path / "home"
    write_program(home / "root" / part.binary, "").write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH" "$1" $$\n')
    (home / "root" / "usr" / "lib" / "x").mkdir(parents=True)
    (home / "root" / "usr" / "lib" / "x" / "libx.so.1").touch()
    launcher = home / "bin" / "redis-server"
    write_launcher(home / "root", part=part, home=home, launcher=launcher)
    with subprocess.Popen(
        [launcher, "a b"], stdout=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin"}
    ) as process:
        output, _ = process.communicate(timeout=10)
    assert output == f"{home}/root/usr/lib/x a b {process.pid}\n"


def test_launcher_of_a_package_without_the_program_is_refused(tmp_path: Path) -> None:
    """A package that changed its layout is an error that names the missing file."""
    part = PARTS["prometheus"]
    assert isinstance(part, DebianPart)
    with pytest.raises(PartUnavailable, match="holds no usr/bin/prometheus"):
        write_launcher(tmp_path, part=part, home=tmp_path, launcher=tmp_path / "bin" / "prometheus")


@pytest.mark.parametrize(
    ("arguments", "deadline_s", "expected"),
    [
        pytest.param(["sh", "-c", "echo broken pipe dream; exit 3"], 30.0, "broken pipe dream", id="fails"),
        pytest.param(["sh", "-c", "exec sleep 30"], 0.2, "ended with -9", id="takes too long"),
        pytest.param(["/nonexistent/tool"], 30.0, "cannot run", id="is not there"),
    ],
)
def test_tool_that_fails_is_reported_with_its_own_words(
    arguments: list[str], deadline_s: float, expected: str, tmp_path: Path
) -> None:
    """The error carries what the tool printed and what the reader can do."""
    with pytest.raises(PartUnavailable) as caught:
        run_tool(
            arguments,
            part="etcd-server",
            folder=tmp_path,
            environ={"PATH": "/usr/bin:/bin"},
            deadline_s=deadline_s,
            report=lambda _line: None,
            next_step="try again",
        )
    assert caught.value.part == "etcd-server"
    assert expected in caught.value.cause
    assert caught.value.next_step == "try again"


@pytest.mark.parametrize(
    ("fakes", "expected"),
    [
        pytest.param({"uname": "Darwin", "python3": "x"}, ["Linux", "Debian 12"], id="another system"),
        pytest.param({"uname": "Linux"}, ["apt-get install python3", "3.11"], id="no Python"),
    ],
)
def test_setup_names_what_to_install_where_it_cannot_work(
    fakes: dict[str, str], expected: list[str], tmp_path: Path
) -> None:
    """On another system, or without Python, the set-up ends with 1 and says what it needs."""
    for name, output in fakes.items():
        write_program(tmp_path / name, output)
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    answer = subprocess.run(
        ["/bin/bash", CHECKOUT / "scripts" / "setup"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert answer.returncode == 1
    for part in expected:
        assert part in answer.stderr


def test_setup_imports_nothing_but_the_standard_library() -> None:
    """The set-up's Python runs without site-packages, as on a machine where nothing is installed."""
    script = f"""
import runpy, sys
runpy.run_path({str(CHECKOUT / "scripts" / "bootstrap.py")!r}, run_name="bootstrap")
roots = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(sorted(roots - {{"__main__", "__mp_main__", "loadgen", "sitecustomize"}}))
"""
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    assert answer.stdout == "[]\n"
