"""Commands that keep a control plane up in the background, to play with."""

import sys
import time
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from loadgen.cluster.background import (
    ERROR_PREFIX,
    BackgroundState,
    ProcessMark,
    hold,
    load_state,
    locate_folder,
    start_background,
    stop_background,
)
from loadgen.cluster.errors import ClusterFailed
from loadgen.cluster.programs import ensure_programs
from loadgen.parts.errors import PartUnavailable

NOT_UP_EXIT_CODE = 3
"""As `systemctl status` has it for a service that does not run."""

app = typer.Typer(
    no_args_is_help=True, help="A real Kubernetes control plane on this machine: API server, HPA controller, scheduler."
)
HpaSyncPeriod = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="How often HPAs are evaluated; Kubernetes' default is 15.")
]


@app.command()
def up(
    *,
    hpa_sync_period_s: HpaSyncPeriod = 2.0,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Also register the adapter for external metrics. Not served yet.")
    ] = False,
) -> None:
    """Start a control plane that stays up, and print how to use it. Programs are built first where missing (minutes).

    Everything listens on 127.0.0.1; nodes are simulated by KWOK, so pods become ready without running.

    Example:
        loadgen cluster up
        export KUBECONFIG=~/.cache/depthgauge/cluster/admin.kubeconfig
        kubectl get --raw /readyz
    """
    if adapter:
        raise typer.BadParameter(
            "the adapter does not serve TLS yet, and the API server registers nothing else", param_hint="--adapter"
        )
    begin_s = time.monotonic()
    try:
        ensure_programs(lambda line: typer.echo(f"[{time.monotonic() - begin_s:6.1f} s] {line}"))
        state = start_background(locate_folder(), hpa_sync_period_s=hpa_sync_period_s, report=typer.echo)
    except (ClusterFailed, PartUnavailable) as exc:
        _fail(exc)
    typer.echo(build_hints(state))


@app.command()
def down() -> None:
    """End the control plane and remove all that it kept."""
    try:
        was_up = stop_background(locate_folder(), report=typer.echo)
    except PartUnavailable as exc:
        _fail(exc)
    typer.echo("the control plane is down" if was_up else "no control plane was up")


@app.command()
def status() -> None:
    """Tell whether the control plane is up, part by part. Exit code 0: up; 1: a part is missing; 3: not up."""
    try:
        state = load_state(locate_folder())
    except PartUnavailable as exc:
        _fail(exc)
    if state is None or not state.holder.is_alive:
        typer.echo("no control plane is up; start one: loadgen cluster up")
        raise typer.Exit(NOT_UP_EXIT_CODE)
    for mark in (*state.parts, state.holder):
        typer.echo(describe_process(mark))
    typer.echo(f"memory: {sum(mark.memory_bytes for mark in (*state.parts, state.holder)) / 2**20:.0f} MiB")
    typer.echo(f"{state.url}, KUBECONFIG={state.kubeconfig}")
    if not all(mark.is_alive for mark in state.parts):
        typer.echo("a part has ended: loadgen cluster down, then up; its log is kept by down", err=True)
        raise typer.Exit(1)


@app.command(name="hold", hidden=True)
def hold_command(
    folder: Annotated[Path, typer.Option(help="Where state, kubeconfig and logs go.")],
    hpa_sync_period_s: HpaSyncPeriod = 2.0,
) -> None:
    """Own the control plane until SIGTERM; what `up` starts."""
    try:
        hold(folder, hpa_sync_period_s=hpa_sync_period_s)
    except (ClusterFailed, PartUnavailable) as exc:
        _fail(exc)


def describe_process(mark: ProcessMark) -> str:
    """Return one line about a process."""
    if not mark.is_alive:
        return f"{mark.name:24} ENDED"
    return f"{mark.name:24} process {mark.pid}, {mark.memory_bytes / 2**20:.0f} MiB"


def build_hints(state: BackgroundState) -> str:
    """Return how to use a control plane that is up."""
    return f"""
The control plane is up at {state.url}. Try:

  export KUBECONFIG={state.kubeconfig}
  kubectl get namespaces
  kubectl get --raw /readyz?verbose
  kubectl api-resources --api-group=autoscaling

  loadgen cluster status      what runs, and its memory
  loadgen cluster down        end it and remove all that it kept"""


def _fail(error: Exception) -> NoReturn:
    print(f"{ERROR_PREFIX}{error}", file=sys.stderr)  # noqa: T201  # as it is, without a box around it
    raise typer.Exit(1) from error
