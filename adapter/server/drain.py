"""A server that ends without losing a request.

On SIGTERM, in this order: readiness fails; for *delay_s* everything is still answered, each answer closing its
connection, while the cluster takes this server out of its endpoints; then no new connection is accepted, and what is in
flight is finished.
"""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from types import FrameType

import uvicorn

from adapter.server.health import Health

FINISH_LIMIT_S = 60
"""How long requests in flight may take to finish."""

_log = logging.getLogger(__name__)


class DrainingServer(uvicorn.Server):
    """Ends by draining, with exit code 0. A second signal ends it at once."""

    def __init__(self, config: uvicorn.Config, health: Health, *, delay_s: float, url: str) -> None:
        super().__init__(config)
        self._health = health
        self._delay_s = delay_s
        self._url = url
        self._delay: asyncio.TimerHandle | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        _log.info("serving url=%s", self._url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; at the second signal, stop waiting."""
        if self._health.is_draining:
            super().handle_exit(sig, frame)
            return
        _log.info("draining delay_s=%g", self._delay_s)
        self._health.drain()
        self._delay = asyncio.get_running_loop().call_later(self._delay_s, super().handle_exit, sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals while serving, on the event loop, and do not raise them again afterwards."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            if self._delay is not None:
                self._delay.cancel()
            for number in numbers:
                loop.remove_signal_handler(number)


class SideServer(uvicorn.Server):
    """A second server in the same process, which takes no signals: it ends when it is told to."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the main server."""
        yield
