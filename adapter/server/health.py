"""What the probes are told. Nothing here depends on a backend: its outage must not take the adapter down too.

Source: k8s.io/apiserver pkg/server/healthz, whose text format this is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

Check = Callable[[], str]
"""Returns why it fails; nothing while all is well."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One probe's answer."""

    is_well: bool
    text: str


@dataclass(slots=True)
class Health:
    """The checks of this process. `drain` makes readiness fail first, while everything else goes on."""

    readiness: dict[str, Check] = field(default_factory=dict)
    is_draining: bool = False

    def drain(self) -> None:
        """Say from now on that no new requests should come."""
        self.is_draining = True

    def judge_liveness(self, name: str, *, is_verbose: bool) -> Verdict:
        """Return the answer of `/livez` and `/healthz`."""
        return _judge({"ping": _is_well}, name, is_verbose=is_verbose)

    def judge_readiness(self, name: str, *, is_verbose: bool) -> Verdict:
        """Return the answer of `/readyz`."""
        checks = {"ping": _is_well, **self.readiness, "shutdown": self._check_shutdown}
        return _judge(checks, name, is_verbose=is_verbose)

    def _check_shutdown(self) -> str:
        return "the process is shutting down" if self.is_draining else ""


def _is_well() -> str:
    return ""


def _judge(checks: dict[str, Check], name: str, *, is_verbose: bool) -> Verdict:
    failures = {check: reason for check, find_failure in checks.items() if (reason := find_failure())}
    if not failures and not is_verbose:
        return Verdict(is_well=True, text="ok")
    lines = [f"[-]{check} failed: {failures[check]}" if check in failures else f"[+]{check} ok" for check in checks]
    return Verdict(not failures, "\n".join([*lines, f"{name} check {'failed' if failures else 'passed'}", ""]))
