"""What can go wrong with a cluster, and what to do about it.

ClusterFailed       a part did not start or ended, or what was waited for did not come
KubectlFailed       a kubectl command was refused
"""

from collections.abc import Sequence

from loadgen.parts.process import ServerFailed

STDERR_CHARS = 2000
OWN_SERVERS = frozenset({"depthgauge", "exporter"})
"""Servers that come with this program, and are no part to provide."""


class ClusterFailed(Exception):
    """The control plane is not as it should be.

    Attributes:
        part: which part, such as `kube-apiserver`; `cluster` where it is no single one.
        cause: what was expected and did not happen.
        log_tail: the last lines of that part's log; may be empty.
        next_step: what the reader can do.
    """

    def __init__(self, *, part: str, cause: str, log_tail: str = "", next_step: str = "") -> None:
        lines = [f"{part}: {cause}"]
        if log_tail:
            lines.append("  the end of its log:")
            lines += [f"    {line}" for line in log_tail.splitlines()]
        if next_step:
            lines.append(f"  next: {next_step}")
        super().__init__("\n".join(lines))
        self.part = part
        self.cause = cause
        self.log_tail = log_tail
        self.next_step = next_step


class KubectlFailed(Exception):
    """kubectl ended with an error.

    Attributes:
        arguments: its command line, without the options that this package adds.
        exit_code: what it ended with; None when it was ended for taking too long.
        stderr: what it said, shortened.
    """

    def __init__(self, *, arguments: Sequence[str], exit_code: int | None, stderr: str) -> None:
        self.arguments = tuple(arguments)
        self.exit_code = exit_code
        self.stderr = stderr.strip()[:STDERR_CHARS]
        ended = "took too long" if exit_code is None else f"ended with {exit_code}"
        super().__init__(f"`kubectl {' '.join(arguments)}` {ended}: {self.stderr}")


def explain_failure(failure: ServerFailed) -> ClusterFailed:
    """Return *failure* of a part with what to do about it, as far as its log tells."""
    said = f"{failure.cause}\n{failure.log_tail}"
    if "address already in use" in said:
        next_step = "another program took its port meanwhile: try again"
    elif "no space left on device" in said:
        next_step = "free some space where temporary files are kept (TMPDIR)"
    elif "too many open files" in said:
        next_step = "raise the limits: ulimit -n 65536; sysctl fs.inotify.max_user_instances=1024 (as root)"
    elif "cannot run" in failure.cause and failure.name in OWN_SERVERS:
        next_step = "run scripts/setup, which puts it into the environment that loadgen runs in"
    elif "cannot run" in failure.cause:
        next_step = "remove that file and provide it anew: loadgen parts ensure " + failure.name
    elif "it ended while waiting" in failure.cause:
        next_step = "its log says why; without a word there, the memory may be short (1 GB is needed)"
    elif "not within" in failure.cause:
        next_step = "the machine may be busy: try again when it is not, or allow more time"
    else:
        next_step = "its log says why"
    return ClusterFailed(part=failure.name, cause=failure.cause, log_tail=failure.log_tail, next_step=next_step)
