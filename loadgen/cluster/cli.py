"""Commands that keep a control plane up in the background, to play with."""

import shlex
import shutil
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
from loadgen.cluster.errors import ClusterFailed, KubectlFailed
from loadgen.cluster.example import FIRST_DEPTH, MISTYPED_QUEUE, NAMESPACE, QUEUE, build_path
from loadgen.cluster.playground import PlaygroundPlaces, ensure_playground_programs
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
HasAdapter = Annotated[
    bool,
    typer.Option(
        "--adapter/--no-adapter",
        help="Register an adapter, with an exporter, Prometheus and an HPA around it to play with.",
    ),
]


@app.command()
def up(*, hpa_sync_period_s: HpaSyncPeriod = 2.0, adapter: HasAdapter = True) -> None:
    """Start a cluster with a registered adapter that stays up, and print how to play with it.

    Programs are built first where missing (minutes). Everything listens on 127.0.0.1; nodes are simulated by KWOK, so
    pods become ready without running.

    Example:
        loadgen cluster up
        export KUBECONFIG=~/.cache/depthgauge/cluster/admin.kubeconfig
        kubectl get hpa -n demo -w
    """
    begin_s = time.monotonic()

    def report(line: str) -> None:
        typer.echo(f"[{time.monotonic() - begin_s:6.1f} s] {line}")

    try:
        programs = ensure_programs(report)
        if adapter:
            ensure_playground_programs(report)
        state = start_background(
            locate_folder(), hpa_sync_period_s=hpa_sync_period_s, report=typer.echo, has_adapter=adapter
        )
    except (ClusterFailed, PartUnavailable) as exc:
        _fail(exc)
    typer.echo(build_hints(state, kubectl=None if shutil.which("kubectl") else programs["kubectl"]))


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
    if state.playground is not None:
        typer.echo(f"depth: {state.playground.depths}")
        typer.echo(f"rules: {state.playground.rules}")
        typer.echo(f"adapter's log: {state.playground.adapter_log}")
    if not all(mark.is_alive for mark in state.parts):
        typer.echo("a part has ended: loadgen cluster down, then up; its log is kept by down", err=True)
        raise typer.Exit(1)


@app.command(name="hold", hidden=True)
def hold_command(
    folder: Annotated[Path, typer.Option(help="Where state, kubeconfig and logs go.")],
    *,
    hpa_sync_period_s: HpaSyncPeriod = 2.0,
    adapter: HasAdapter = True,
) -> None:
    """Own the control plane until SIGTERM; what `up` starts."""
    try:
        hold(folder, hpa_sync_period_s=hpa_sync_period_s, has_adapter=adapter)
    except (ClusterFailed, KubectlFailed, PartUnavailable) as exc:
        _fail(exc)


def describe_process(mark: ProcessMark) -> str:
    """Return one line about a process."""
    if not mark.is_alive:
        return f"{mark.name:24} ENDED"
    return f"{mark.name:24} process {mark.pid}, {mark.memory_bytes / 2**20:.0f} MiB"


def build_hints(state: BackgroundState, *, kubectl: Path | None = None) -> str:
    """Return how to use a cluster that is up; *kubectl* is where it is when it is not on PATH."""
    lines = [f"export KUBECONFIG={shlex.quote(str(state.kubeconfig))}"]
    if kubectl is not None:
        lines.append(f"alias kubectl={shlex.quote(str(kubectl))}")
    if state.playground is None:
        lines += [
            "kubectl get namespaces",
            "kubectl get --raw '/readyz?verbose'",
            "kubectl api-resources --api-group=autoscaling",
        ]
        title = f"The control plane is up at {state.url}."
    else:
        lines += build_playing_hints(state.playground)
        title = f"The cluster is up at {state.url}, with a registered adapter."
    lines += [
        "",
        "scripts/cluster status",
        "    what runs, and its memory",
        "scripts/cluster down",
        "    end it; logs are kept, and the files edited beside them",
    ]
    return "\n".join(["", f"{title} Try:", "", *(f"  {line}" if line else "" for line in lines)])


def build_playing_hints(places: PlaygroundPlaces) -> list[str]:
    """Return the lines about the adapter and what is around it."""
    return [
        f"kubectl get --raw '{build_path()}'",
        "    the depth of a queue, as the HPA gets it",
        f"kubectl get --raw '{build_path(MISTYPED_QUEUE)}'",
        "    a mistyped selector: an error that names the cause, not 0",
        f"kubectl get hpa -n {NAMESPACE} -w",
        "    one replica for each 100 messages, between 1 and 10",
        "",
        f"{places.depths}",
        f"    the depth: make {FIRST_DEPTH} of the queue {QUEUE} another number, save, and the HPA follows in seconds;",
        "    remove its line, and the HPA holds its replicas",
        f"{places.rules}",
        "    the rules: loaded again when saved",
        f"{places.adapter_log}",
        "    what the adapter says, also about rules that cannot be loaded",
        f"{places.prometheus_url}/graph",
        "    Prometheus",
        f"{places.ops_url}/metrics",
        "    the adapter's own metrics",
    ]


def _fail(error: Exception) -> NoReturn:
    print(f"{ERROR_PREFIX}{error}", file=sys.stderr)  # noqa: T201  # as it is, without a box around it
    raise typer.Exit(1) from error
