"""`bench/run`."""

import contextlib
import datetime as dt
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from bench.load import Load
from bench.questions import RESOLUTION_S, Case, build_cases, build_config, build_head
from bench.report import build_document, format_table
from bench.rounds import CaseResult, measure_pairs
from bench.servers import Bare, Depthgauge, TlsFiles, pin, read_rss_mb
from bench.stage import Backend, Client, start_backend, start_cluster
from loadgen.parts.process import ServerProcess

ROOT = Path(__file__).resolve().parent.parent


def run(  # noqa: PLR0913, PLR0917 - a command's options
    quick: Annotated[bool, typer.Option("--quick", help="Few and short rounds: less than a minute.")] = False,  # noqa: FBT002
    rounds: Annotated[int, typer.Option(min=1, help="Pairs of measurements a case.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long one measurement takes; a whole tick by default.")
    ] = float(RESOLUTION_S),
    connections: Annotated[
        int, typer.Option(min=1, help="Keep-alive connections, each with one request at a time.")
    ] = 16,
    case: Annotated[str, typer.Option(metavar="TEXT", help="Only cases whose name contains TEXT.")] = "",
    cluster: Annotated[  # noqa: FBT002
        bool, typer.Option("--cluster", help="Reviews by a real control plane instead of a fake API.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Write bench/results/DATE.json too.")] = False,  # noqa: FBT002
    profile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a cProfile of depthgauge; its figures are slower then.")
    ] = None,
) -> None:
    """Measure depthgauge beside a bare ASGI app that answers the same bytes.

    Both run under the same uvicorn and TLS with a front-proxy client certificate, in alternating rounds; behind
    depthgauge are a Prometheus and a Kubernetes API for access reviews.
    """
    if quick:
        rounds, seconds = 3, 0.6
    cases = [found for found in build_cases() if case in found.name]
    if not cases:
        raise typer.BadParameter(f'no case\'s name contains "{case}"', param_hint="--case")
    server_cpu, load_cpu = _choose_cpus()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        backend = stack.enter_context(start_backend())
        api = stack.enter_context(start_cluster(folder, is_real=cluster))
        config = build_config(backend.url)
        adapter = Depthgauge(config, api.tls, kubeconfig=api.kubeconfig, profile_to=profile and profile.resolve())
        stack.enter_context(adapter)
        client = Client(adapter.port, api.tls)
        answers = {
            target if "?" in target else f"{target}?": client.fetch_wanted(target, found.status)
            for found in cases
            for target in found.targets
        }
        bare = stack.enter_context(Bare(answers, api.tls))
        for server in (adapter, bare):
            pin(server.pid, server_cpu)
        print(f"{backend.kind}, {api.kind}, {connections} connections, {rounds} pairs of {seconds:g} s a case")
        results = []
        for found in cases:
            results.append(
                _measure_case(
                    found, adapter, bare, backend=backend, tls=api.tls, cpu=load_cpu,
                    connections=connections, rounds=rounds, seconds=seconds,
                )
            )  # fmt: skip
            print(f"  {found.name}: {results[-1].ratio:.2f}", file=sys.stderr)
    print(format_table(results))
    if save:
        facts = _describe_run(backend.kind, api.kind, connections=connections, seconds=seconds)
        path = ROOT / "bench" / "results" / f"{str(facts['date']).replace(':', '')}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(build_document(results, facts), indent=1) + "\n")
        print(f"saved: {path.relative_to(ROOT)}")


def _measure_case(  # noqa: PLR0913 - all but three by keyword
    case: Case,
    adapter: ServerProcess,
    bare: ServerProcess,
    *,
    backend: Backend,
    tls: TlsFiles,
    cpu: int | None,
    connections: int,
    rounds: int,
    seconds: float,
) -> CaseResult:
    heads = [build_head(target) for target in case.targets]

    def load(server: ServerProcess) -> Load:
        return Load(
            port=server.port,
            ca_file=str(tls.server_ca),
            cert_file=str(tls.client_cert),
            key_file=str(tls.client_key),
            heads=heads,
            status=case.status,
            connections=connections,
            warm_up_s=0.2,
            measure_s=seconds,
            pid=server.pid,
            cpu=cpu,
        )

    queries, began_s = backend.count_queries(), time.monotonic()
    pairs = measure_pairs(load(adapter), load(bare), rounds=rounds)
    elapsed_s = time.monotonic() - began_s
    return CaseResult(
        name=case.name,
        pairs=pairs,
        adapter_rss_mb=read_rss_mb(adapter.pid),
        bare_rss_mb=read_rss_mb(bare.pid),
        queries=backend.count_queries() - queries,
        ticks=math.ceil(elapsed_s / RESOLUTION_S) + 1,
        rules=len({target.partition("?")[0] for target in case.targets}),
    )


def _choose_cpus() -> tuple[int | None, int | None]:
    """Return one CPU for the server under load and another for the generator, where there are two."""
    cpus = sorted(os.sched_getaffinity(0))
    return (cpus[0], cpus[1]) if len(cpus) > 1 else (None, None)


def _describe_run(backend: str, cluster: str, *, connections: int, seconds: float) -> dict[str, str | int | float]:
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "uvicorn": uvicorn.__version__,
        "cpus": os.cpu_count() or 0,
        "load_average_1min": round(os.getloadavg()[0], 2),
        "backend": backend,
        "cluster": cluster,
        "connections": connections,
        "seconds": seconds,
    }


if __name__ == "__main__":
    typer.run(run)
