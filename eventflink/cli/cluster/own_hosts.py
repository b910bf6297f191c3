"""Tells this host from others: by its names, and else by whether a name leads to one of its own addresses."""

import ipaddress
import socket
from functools import cache

import psutil


def is_here(host: str) -> bool:
    """Tell whether processes for this host are started here and not by ssh."""
    return host.lower() in _names() or any(address in _addresses() or _is_loopback(address) for address in _resolve(host))


def own_name(host: str) -> str:
    """Return how this host is named in ids: by its own name, where the line says no more than that it is this one."""
    if host.lower() == "localhost" or any(_is_loopback(address) for address in _resolve(host)):
        return socket.gethostname()
    return host


@cache
def _names() -> frozenset[str]:
    return frozenset({"localhost", socket.gethostname().lower(), socket.getfqdn().lower()})


@cache
def _addresses() -> frozenset[str]:
    return frozenset(address.address.partition("%")[0] for addresses in psutil.net_if_addrs().values() for address in addresses)


@cache
def _resolve(host: str) -> tuple[str, ...]:
    """Return the addresses of a host; none where it has none, as with an alias that only ssh knows."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple({str(entry[4][0]).partition("%")[0] for entry in found})


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback
