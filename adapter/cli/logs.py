"""Logs: one line for each decision, on stderr, nothing per request."""

import logging
import sys
import time


class _LineFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")


def set_up_logs(level: int = logging.INFO) -> None:
    """Send the adapter's own log lines to stderr, and of the libraries' the warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("adapter").setLevel(level)


def silence_logs() -> None:
    """Keep the adapter's log lines off a command's screen: its own answer says what happened."""
    logging.getLogger("adapter").addHandler(logging.NullHandler())
