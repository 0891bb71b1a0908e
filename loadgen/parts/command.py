"""Runs a tool that takes long: its output is kept, a line every half minute tells that it goes on."""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from loadgen.parts.cachefolder import Report
from loadgen.parts.errors import PartUnavailable

HEARTBEAT_S = 30.0
TAIL_LINES = 15


def run_tool(  # noqa: PLR0913  # all but the first by keyword
    arguments: Sequence[str | Path],
    *,
    part: str,
    folder: Path,
    environ: Mapping[str, str],
    deadline_s: float,
    report: Report,
    next_step: str,
) -> str:
    """Run *arguments* in *folder* and return what they printed.

    Raises: PartUnavailable when the command fails, is not there, or takes longer than *deadline_s*.
    """
    command = " ".join(str(argument) for argument in arguments[:3])
    log_path = folder / f"{Path(arguments[0]).name}.log"
    started_s = time.monotonic()
    with log_path.open("w+") as log:
        try:
            process = subprocess.Popen(
                [str(argument) for argument in arguments],
                cwd=folder,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        except OSError as exc:
            raise PartUnavailable(part=part, cause=f"cannot run {command}: {exc}", next_step=next_step) from exc
        with process:
            try:
                _wait(process, part=part, started_s=started_s, deadline_s=deadline_s, report=report)
            except BaseException:
                process.kill()
                raise
        log.seek(0)
        output = log.read()
    if process.returncode != 0:
        took_s = time.monotonic() - started_s
        tail = "\n    ".join(output.splitlines()[-TAIL_LINES:])
        cause = f"`{command} …` ended with {process.returncode} after {took_s:.0f} s:\n    {tail}"
        raise PartUnavailable(part=part, cause=cause, next_step=next_step)
    return output


def _wait(process: subprocess.Popen[bytes], *, part: str, started_s: float, deadline_s: float, report: Report) -> None:
    while True:
        left_s = deadline_s - (time.monotonic() - started_s)
        try:
            process.wait(timeout=max(0.1, min(HEARTBEAT_S, left_s)))
        except subprocess.TimeoutExpired:
            if left_s <= 0:
                process.kill()  # its exit code then tells the caller
                process.wait()
                return
            report(f"{part}: still at it, {deadline_s - left_s + HEARTBEAT_S:.0f} s")
        else:
            return
