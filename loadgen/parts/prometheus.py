"""A real Prometheus, 2.42 or later, 3.x included."""

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from loadgen.parts.process import LOOPBACK
from loadgen.parts.scrape import ScrapeJob, ScrapingServer, build_scrape_config, format_duration

__all__ = ["Prometheus", "ScrapeJob"]


class Prometheus(ScrapingServer):
    """A Prometheus server of its own.

    Args:
        binary: the program; see `loadgen.parts.ensure_part`.
        jobs: what it scrapes.
        scrape_interval_s: how often, and how often rules are evaluated.
        extra_config: merged into the configuration's top level, `global` key by key.
        rule_groups: recording rules, as under `groups` of a rule file.
        web_config_file: TLS or basic authentication of its own HTTP server.
        request_headers: what requests of this class need then.
        ssl_context: set for HTTPS.
        route_prefix: such as `/prom`; part of `url`.
        retention: such as `1h`.
        extra_flags: further command-line flags.
        ready_timeout_s: how long a start may take.
    """

    def __init__(  # noqa: PLR0913  # one for each thing that a test or a demonstration varies, by keyword
        self,
        binary: Path,
        *,
        jobs: Sequence[ScrapeJob] = (),
        scrape_interval_s: float = 1.0,
        extra_config: Mapping[str, object] | None = None,
        rule_groups: Sequence[Mapping[str, object]] = (),
        web_config_file: Path | None = None,
        request_headers: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        route_prefix: str = "",
        retention: str | None = None,
        extra_flags: Sequence[str] = (),
        ready_timeout_s: float = 30.0,
    ) -> None:
        prefix = "/" + route_prefix.strip("/") if route_prefix.strip("/") else ""
        super().__init__(
            "prometheus",
            binary,
            ready_path="/-/ready",
            ready_timeout_s=ready_timeout_s,
            url_path=prefix,
            request_headers=request_headers,
            ssl_context=ssl_context,
        )
        self._jobs = tuple(jobs)
        self._scrape_interval_s = scrape_interval_s
        self._extra_config = dict(extra_config or {})
        self._rule_groups = [dict(group) for group in rule_groups]
        self._web_config_file = web_config_file
        self._retention = retention
        self._extra_flags = tuple(extra_flags)

    def build_config(self, jobs: Sequence[ScrapeJob]) -> dict[str, object]:
        """Return prometheus.yml for *jobs*."""
        interval = format_duration(self._scrape_interval_s)
        global_keys: dict[str, object] = {
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "evaluation_interval": interval,
        }
        config: dict[str, object] = {"scrape_configs": [build_scrape_config(job) for job in jobs]}
        if self._rule_groups:
            config["rule_files"] = [str(self._rules_path)]
        extra_global = self._extra_config.get("global", {})
        if isinstance(extra_global, Mapping):
            global_keys |= extra_global
        return config | self._extra_config | {"global": global_keys}

    def build_arguments(self, port: int) -> list[str]:
        """Return Prometheus' flags; writes its files first."""
        self.write_config()
        if self._rule_groups:
            self._rules_path.write_text(yaml.safe_dump({"groups": self._rule_groups}, sort_keys=False))
        flags = [
            f"--config.file={self.config_path}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}",
            f"--web.listen-address={LOOPBACK}:{port}",
            "--web.enable-lifecycle",
            "--scrape.discovery-reload-interval=100ms",  # five seconds by default, for large fleets
        ]
        if self._url_path:
            flags += [f"--web.external-url=http://{LOOPBACK}:{port}{self._url_path}/"]
        if self._web_config_file is not None:
            flags += [f"--web.config.file={self._web_config_file}"]
        if self._retention is not None:
            flags += [f"--storage.tsdb.retention.time={self._retention}"]
        return [*flags, *self._extra_flags]

    @property
    def _rules_path(self) -> Path:
        return self.folder / "rules.yml"
