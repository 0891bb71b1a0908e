"""The exporter of a text file, as a process: what is scraped is what stands in the file now, or a failure."""

import urllib.error
from pathlib import Path

import pytest

from loadgen.servers import TextExporterProcess


def test_text_exporter_serves_what_stands_in_the_file_now(tmp_path: Path) -> None:
    """An edited file counts at the next scrape; a file that is gone is a failed scrape, never the last number."""
    path = tmp_path / "metrics.prom"
    path.write_text("depth 250\n")
    with TextExporterProcess(path) as exporter:
        assert exporter.request("/metrics") == b"depth 250\n"
        path.write_text("depth 7\n")
        assert exporter.request("/metrics") == b"depth 7\n"
        path.unlink()
        with pytest.raises(urllib.error.HTTPError) as caught:
            exporter.request("/metrics")
        assert caught.value.code == 500
        path.write_text("depth 8")
        assert exporter.request("/metrics") == b"depth 8\n"
