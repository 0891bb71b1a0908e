"""A real VictoriaMetrics, single node, 1.79 or later."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from loadgen.parts.process import LOOPBACK
from loadgen.parts.scrape import Sample, ScrapeJob, ScrapingServer, build_scrape_config, format_duration

__all__ = ["ScrapeJob", "VictoriaMetrics"]

SHOW_NEWEST = MappingProxyType({"nocache": "1", "latency_offset": "1ms"})
"""Query parameters that let it answer with the newest samples; without them it hides the last 30 seconds.

Tried on 1.79: `latency_offset` is not known there yet and changes nothing, `nocache` does it.
"""


class VictoriaMetrics(ScrapingServer):
    """A VictoriaMetrics server of its own, scraping the same jobs as a Prometheus would.

    Args:
        binary: the program; see `loadgen.parts.ensure_part`.
        jobs: what it scrapes.
        scrape_interval_s: how often; a second at least.
        extra_config: merged into the scrape configuration's top level.
        extra_flags: further command-line flags.
        ready_timeout_s: how long a start may take.
    """

    def __init__(  # noqa: PLR0913  # all but the first by keyword
        self,
        binary: Path,
        *,
        jobs: Sequence[ScrapeJob] = (),
        scrape_interval_s: float = 1.0,
        extra_config: Mapping[str, object] | None = None,
        extra_flags: Sequence[str] = (),
        ready_timeout_s: float = 30.0,
    ) -> None:
        super().__init__("victoria-metrics", binary, ready_path="/health", ready_timeout_s=ready_timeout_s)
        self._jobs = tuple(jobs)
        self._scrape_interval_s = scrape_interval_s
        self._extra_config = dict(extra_config or {})
        self._extra_flags = tuple(extra_flags)

    def build_config(self, jobs: Sequence[ScrapeJob]) -> dict[str, object]:
        """Return the scrape configuration for *jobs*; `refresh_interval` is a flag here, not a key."""
        interval = format_duration(self._scrape_interval_s)
        configs = [build_scrape_config(job) for job in jobs]
        for config in configs:
            files = config.get("file_sd_configs")
            if isinstance(files, list):
                config["file_sd_configs"] = [{"files": entry["files"]} for entry in files]
        return {
            "global": {"scrape_interval": interval, "scrape_timeout": interval},
            "scrape_configs": configs,
        } | self._extra_config

    def build_arguments(self, port: int) -> list[str]:
        """Return VictoriaMetrics' flags; writes its scrape configuration first."""
        self.write_config()
        return [
            f"-httpListenAddr={LOOPBACK}:{port}",
            f"-storageDataPath={self.folder / 'storage'}",
            f"-promscrape.config={self.config_path}",
            "-promscrape.fileSDCheckInterval=1s",
            "-retentionPeriod=1d",
            *self._extra_flags,
        ]

    def query(
        self, promql: str, *, time_s: float | None = None, params: Mapping[str, str] | None = None
    ) -> list[Sample]:
        """Return the vector of an instant query, the newest samples included unless *params* say otherwise."""
        return super().query(promql, time_s=time_s, params=SHOW_NEWEST if params is None else params)

    def wait_for(self, promql: str, *, timeout_s: float = 20.0) -> list[Sample]:
        """Return the first result of *promql* that is not empty; see `ScrapingServer.wait_for`.

        Each poll flushes: an empty search is otherwise remembered for up to ten seconds (measured on 1.79).
        """
        found: list[Sample] = []

        def is_found() -> bool:
            self.request("/internal/force_flush")
            found[:] = self.query(promql)
            return bool(found)

        self.wait_until(is_found, what=f"a result of {promql}", timeout_s=timeout_s)
        return found

    def import_text(self, exposition: str) -> None:
        """Store samples given in Prometheus' text format, searchable when this returns.

        Raises: OSError when the server refuses them.
        """
        self.request("/api/v1/import/prometheus", body=exposition.encode())
        self.request("/internal/force_flush")
