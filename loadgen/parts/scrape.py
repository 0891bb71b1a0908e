"""What both Prometheus and VictoriaMetrics are told to scrape, and what they have in common as backends."""

import json
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from loadgen.parts.process import ServerProcess

Sample = dict[str, Any]
"""One entry of `data.result`: `{"metric": {label: value}, "value": [Unix seconds, "decimal string"]}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeJob:
    """One scrape job.

    Attributes:
        name: `job_name`.
        targets: addresses such as `127.0.0.1:9100`.
        labels: labels of those targets.
        file_sd: files with further targets, read again every second.
        metrics_path: the path to scrape.
        interval_s: how often; None takes the server's own interval.
        honor_labels: keep `job` and `instance` as the exporter sends them.
        extra: further keys of Prometheus' `scrape_config`.
    """

    name: str
    targets: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    file_sd: tuple[Path, ...] = ()
    metrics_path: str = "/metrics"
    interval_s: float | None = None
    honor_labels: bool = False
    extra: Mapping[str, object] = field(default_factory=dict)


def format_duration(duration_s: float) -> str:
    """Return a Prometheus duration, to the millisecond.

    Raises: ValueError when there would be nothing left of it.
    """
    duration_ms = round(duration_s * 1000)
    if duration_ms <= 0:
        raise ValueError(f"not a duration: {duration_s} s")
    return f"{duration_ms}ms" if duration_ms % 1000 else f"{duration_ms // 1000}s"


def build_scrape_config(job: ScrapeJob) -> dict[str, object]:
    """Return *job* as an entry of `scrape_configs`."""
    config: dict[str, object] = {
        "job_name": job.name,
        "metrics_path": job.metrics_path,
        "honor_labels": job.honor_labels,
    }
    if job.interval_s is not None:
        config |= {
            "scrape_interval": format_duration(job.interval_s),
            "scrape_timeout": format_duration(job.interval_s),
        }
    if job.targets:
        config["static_configs"] = [{"targets": list(job.targets), "labels": dict(job.labels)}]
    if job.file_sd:
        config["file_sd_configs"] = [{"files": [str(path) for path in job.file_sd], "refresh_interval": "1s"}]
    return config | dict(job.extra)


class ScrapingServer(ServerProcess):
    """A backend that scrapes, reloads its configuration over HTTP, and answers instant queries."""

    _jobs: tuple[ScrapeJob, ...] = ()

    @property
    def config_path(self) -> Path:
        """The scrape configuration, written before every start."""
        return self.folder / "config.yml"

    def build_config(self, jobs: Sequence[ScrapeJob]) -> dict[str, object]:
        """Return the whole configuration for *jobs*."""
        raise NotImplementedError

    def write_config(self) -> None:
        """Write the configuration that the next start or reload reads."""
        self.config_path.write_text(yaml.safe_dump(self.build_config(self._jobs), sort_keys=False))

    def set_jobs(self, jobs: Sequence[ScrapeJob]) -> None:
        """Scrape *jobs* from now on.

        Raises: OSError when the server does not take the new configuration.
        """
        self._jobs = tuple(jobs)
        self.write_config()
        if self.is_running:
            self.reload()

    def reload(self) -> None:
        """Have the server read its configuration again.

        Raises: OSError when it does not take it.
        """
        self.request("/-/reload", body=b"")

    def query(
        self, promql: str, *, time_s: float | None = None, params: Mapping[str, str] | None = None
    ) -> list[Sample]:
        """Return the vector that the instant query *promql* gives, at Unix time *time_s* or now.

        Raises: OSError for an answer that is not 2xx; ValueError for a result that is no vector.
        """
        fields = {"query": promql, **(params or {})}
        if time_s is not None:
            fields["time"] = f"{time_s:.3f}"
        answer = json.loads(self.request("/api/v1/query", body=urllib.parse.urlencode(fields).encode()))
        if answer["data"]["resultType"] != "vector":
            raise ValueError(f"{promql} gives a {answer['data']['resultType']}, not a vector")
        result: list[Sample] = answer["data"]["result"]
        return result

    def wait_for(self, promql: str, *, timeout_s: float = 20.0) -> list[Sample]:
        """Return the first result of *promql* that is not empty.

        Raises: ServerFailed when there is none within *timeout_s*.
        """
        found: list[Sample] = []

        def is_found() -> bool:
            found[:] = self.query(promql)
            return bool(found)

        self.wait_until(is_found, what=f"a result of {promql}", timeout_s=timeout_s)
        return found
