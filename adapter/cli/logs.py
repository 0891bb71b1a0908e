"""Logs: one line for each decision, on stderr, nothing per request."""

import logging
import re
import sys
import time
from typing import Final

import orjson

_FIELD: Final = re.compile(r'(\w+)=("[^"]*"|\S+)')


class _TextFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")


class _JsonFormatter(_TextFormatter):
    """One JSON object a line: time, level, event, the event's fields as text, and the whole message."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        line = {
            "time": f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "event": message.partition(" ")[0],
            "fields": {name: value.strip('"') for name, value in _FIELD.findall(message)},
            "message": message,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


def set_up_logs(log_format: str = "text", level: int = logging.INFO) -> None:
    """Send the adapter's own log lines to stderr as `text` or `json`, and of the libraries' the warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # its warnings are one for each odd request
    logging.getLogger("adapter").setLevel(level)


def silence_logs() -> None:
    """Keep the adapter's log lines off a command's screen: its own answer says what happened."""
    logging.getLogger("adapter").addHandler(logging.NullHandler())
