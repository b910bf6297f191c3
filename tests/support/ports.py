"""Ports of this host that nobody listens on, for servers of tests that cannot take one by themselves."""

import socket


def find_free_ports(count: int) -> list[int]:
    """Return so many, each another; somebody else can take one before its server does."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()
