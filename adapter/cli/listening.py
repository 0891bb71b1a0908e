"""Addresses to listen on, from the command line."""

import ipaddress
import socket

import typer


def listen(address: str, *, is_loopback_only: bool = False) -> socket.socket:
    """Return a socket bound to *address*, `HOST:PORT` with an IP address or `localhost`; port 0 picks a free one.

    Raises: typer.BadParameter.
    """
    host, _, port = address.rpartition(":")
    try:
        ip = ipaddress.ip_address(host.strip("[]").replace("localhost", "127.0.0.1"))
        number = int(port)
    except ValueError:
        raise typer.BadParameter(f'"{address}" is not HOST:PORT, such as 127.0.0.1:8080') from None
    if is_loopback_only and not ip.is_loopback:
        raise typer.BadParameter(
            f"{ip} is not a loopback address; plain HTTP has no authentication and is served to this machine only"
        )
    family = socket.AF_INET if ip.version == 4 else socket.AF_INET6
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(ip), number))
    except (OSError, OverflowError) as error:
        listener.close()
        raise typer.BadParameter(f"cannot listen on {address}: {error}") from None
    return listener


def describe(listener: socket.socket, scheme: str) -> str:
    """Return the URL of *listener*."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
