"""A real Pushgateway, and a producer that pushes to it."""

from pathlib import Path

from loadgen.parts.process import LOOPBACK, ServerProcess


class Pushgateway(ServerProcess):
    """A Pushgateway of its own; it forgets what was pushed when it ends."""

    def __init__(self, binary: Path) -> None:
        super().__init__("pushgateway", binary, ready_path="/-/ready")

    def build_arguments(self, port: int) -> list[str]:
        """Return its flags."""
        return [f"--web.listen-address={LOOPBACK}:{port}", "--persistence.file="]

    @property
    def target(self) -> str:
        """Address for a scrape job."""
        return f"{LOOPBACK}:{self.port}"

    def push(self, job: str, text: str) -> None:
        """Push *text*, in Prometheus' text format, as the metrics of *job*, in place of what it pushed before."""
        self.request(f"/metrics/job/{job}", body=text.encode())
