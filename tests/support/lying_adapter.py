"""An adapter as it must not be: takes `serve --config FILE --dev-http HOST:PORT`, and hides what it does not know.

LYING_ADAPTER chooses how: `always-zero`; `zero-when-empty`, where Prometheus has no sample; `last-when-empty`, the last
number there. For a mistyped selector or metric it does the same.
"""

import json
import os
import sys
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml


class _Handler(BaseHTTPRequestHandler):
    prometheus_url = ""
    last = "0"

    def do_GET(self) -> None:
        if self.path == "/readyz":
            self._send({"ready": True})
        else:
            item = {"metricName": "any", "metricLabels": {}, "timestamp": "2026-01-01T00:00:00Z", "value": self._lie()}
            self._send({"kind": "ExternalMetricValueList", "items": [item]})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        pass

    def _lie(self) -> str:
        kind = os.environ["LYING_ADAPTER"]
        if kind == "always-zero":
            return "0"
        query = urllib.parse.urlencode({"query": "sum by (queue) (myapp_queue_length)"})
        with urllib.request.urlopen(f"{self.prometheus_url}/api/v1/query?{query}", timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
        if result:
            type(self).last = result[0]["value"][1]
            return self.last
        return "0" if kind == "zero-when-empty" else self.last

    def _send(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until ended."""
    arguments = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
    config = yaml.safe_load(Path(arguments["--config"]).read_text())
    _Handler.prometheus_url = config["prometheus"]["url"]
    host, _, port = arguments["--dev-http"].rpartition(":")
    ThreadingHTTPServer((host, int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main()
