"""The load generator: keep-alive connections that ask again as soon as they are answered.

A process of its own, so that neither server shares an interpreter with it. It reads a `Load` as JSON from standard
input and prints a `Measured` as JSON. Written here because the usual generators show no client certificate, or cost as
much as the server does.
"""

import asyncio
import itertools
import json
import os
import ssl
import sys
import time
from dataclasses import asdict, dataclass, field
from functools import partial

import uvloop

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to ask of whom. *heads* are whole requests but for the last header and the empty line.

    *pid* is the server's process, whose CPU time is read; *cpu* is where the generator itself runs, None for anywhere.
    """

    port: int
    ca_file: str
    cert_file: str
    key_file: str
    heads: list[str]
    status: int
    connections: int
    warm_up_s: float
    measure_s: float
    pid: int
    cpu: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was seen. Latencies are in seconds; *failures* are answers with another status than the wanted one."""

    requests: int
    failures: int
    first_failure: str
    elapsed_s: float
    server_cpu_s: float
    own_cpu_s: float
    p50_s: float
    p99_s: float

    @property
    def requests_per_s(self) -> float:
        """Return the throughput."""
        return self.requests / self.elapsed_s

    @property
    def cpu_ms_per_request(self) -> float:
        """Return what one request costs the server, user and system time."""
        return 1000 * self.server_cpu_s / self.requests


@dataclass(slots=True)
class Tally:
    """What all connections have seen in the window that is being measured."""

    latencies_s: list[float] = field(default_factory=list)
    failures: int = 0
    first_failure: str = ""
    lost: list[str] = field(default_factory=list)


class Connection(asyncio.Protocol):
    """One connection: one request at a time. Each has its own Audit-Id, as the aggregator's requests have."""

    def __init__(self, load: Load, tally: Tally, number: int) -> None:
        offset = number * len(load.heads) // load.connections
        self._heads = itertools.cycle([head.encode() for head in load.heads[offset:] + load.heads[:offset]])
        self._audit_ids = (b"Audit-Id: %08d-0000-4000-8000-%012d\r\n\r\n" % (number, n) for n in itertools.count())
        self._wanted = b"HTTP/1.1 %d " % load.status
        self._tally = tally
        self._received = b""
        self._sent_at_s = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ask the first question."""
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer; when it is whole, ask again."""
        received = self._received = self._received + data if self._received else data
        head_end = received.find(_HEAD_END)
        if head_end < 0:
            return
        begin = received.index(_LENGTH) + len(_LENGTH)
        body_bytes = int(received[begin : received.index(b"\r", begin)])
        if len(received) < head_end + len(_HEAD_END) + body_bytes:
            return
        self._tally.latencies_s.append(time.perf_counter() - self._sent_at_s)
        if not received.startswith(self._wanted):
            self._tally.failures += 1
            self._tally.first_failure = self._tally.first_failure or received.decode(errors="replace")
        self._received = b""
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember it: a server must not close these."""
        self._tally.lost.append(str(exc or "closed by the server"))

    def close(self) -> None:
        """End without waiting for the last answer."""
        if self._transport is not None:
            self._transport.abort()

    def _ask(self) -> None:
        assert self._transport is not None  # noqa: S101 - set when it was made
        self._sent_at_s = time.perf_counter()
        self._transport.write(next(self._heads) + next(self._audit_ids))


async def generate(load: Load) -> Measured:
    """Ask for as long as *load* says. Raises ConnectionError if the server closed a connection."""
    context = ssl.create_default_context(cafile=load.ca_file)
    context.load_cert_chain(load.cert_file, load.key_file)
    tally = Tally()
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(partial(Connection, load, tally, n), "127.0.0.1", load.port, ssl=context))[1]
        for n in range(load.connections)
    ]
    await asyncio.sleep(load.warm_up_s)
    tally.latencies_s.clear()
    tally.failures = 0
    own_began_s, server_began_s, began_s = time.process_time(), read_cpu_s(load.pid), time.perf_counter()
    await asyncio.sleep(load.measure_s)
    elapsed_s = time.perf_counter() - began_s
    server_cpu_s, own_cpu_s = read_cpu_s(load.pid) - server_began_s, time.process_time() - own_began_s
    latencies_s = sorted(tally.latencies_s)
    if tally.lost or not latencies_s:
        raise ConnectionError(f"{len(tally.lost)} connections lost, {len(latencies_s)} answers: {tally.lost[:1]}")
    measured = Measured(
        requests=len(latencies_s),
        failures=tally.failures,
        first_failure=tally.first_failure,
        elapsed_s=elapsed_s,
        server_cpu_s=server_cpu_s,
        own_cpu_s=own_cpu_s,
        p50_s=latencies_s[len(latencies_s) // 2],
        p99_s=latencies_s[len(latencies_s) * 99 // 100],
    )
    for connection in connections:
        connection.close()
    return measured


def read_cpu_s(pid: int) -> float:
    """Return the CPU time, user and system, that process *pid* has used.

    Source: proc(5), /proc/PID/stat, fields 14 and 15.
    """
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - as cheap as it gets, beside a running measurement
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run one load."""
    load = Load(**json.load(sys.stdin))
    if load.cpu is not None:
        os.sched_setaffinity(0, {load.cpu})
    json.dump(asdict(uvloop.run(generate(load))), sys.stdout)


if __name__ == "__main__":
    main()
