"""The programs that a control plane consists of: found, or provided."""

from collections.abc import Callable
from pathlib import Path

from loadgen.parts import PartUnavailable, ensure_part, find_part

PROGRAMS = ("etcd-server", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
"""The parts that a control plane needs; see `loadgen.parts`."""


def find_programs() -> dict[str, Path]:
    """Return the program of each part that a control plane needs. No network.

    Raises: PartUnavailable naming all that are missing, and the command that provides them.
    """
    found = {name: find_part(name) for name in PROGRAMS}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise PartUnavailable(
            part="control plane",
            cause=f"{', '.join(missing)} missing",
            next_step=f"run: loadgen parts ensure {' '.join(missing)}   (minutes, the first time)",
        )
    return {name: path for name, path in found.items() if path is not None}


def ensure_programs(report: Callable[[str], None]) -> dict[str, Path]:
    """Return the program of each part that a control plane needs, provided where missing: minutes, the first time.

    Raises: PartUnavailable with what to do next.
    """
    return {name: ensure_part(name, report=report) for name in PROGRAMS}
