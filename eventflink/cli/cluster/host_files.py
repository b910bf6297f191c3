"""Reads conf/masters and conf/workers: one host a line, comments with #, errors with file and line.

A line is one process; a host that stands in several lines gets several. A master's line may name the port where it answers reads
(`host:port`, IPv6 as `[::1]:port`), as Flink's names that of its web interface. Nothing is resolved here.
"""

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from eventflink.model.configuration import ConfigurationError

MAX_LINES: Final = 1_000
_MAX_PORT: Final = 65_535
_MAX_NAME: Final = 253
# No host begins with a dash: ssh would take it for an option.
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class HostLine(NamedTuple):
    """One line: where a process is to run."""

    host: str
    port: int
    """0: none is named."""
    place: str
    """File and line, for errors."""


def read_masters(directory: Path) -> list[HostLine]:
    """Return the lines of `masters`, at least one.

    Raises:
        ConfigurationError: the file cannot be read, names nothing, or has a line that is wrong.

    """
    path = directory / "masters"
    lines = [_parse(text, place, allow_port=True) for text, place in _lines(path)]
    if not lines:
        raise ConfigurationError(f"{path}: no host is named; name at least one for a master")
    seen: dict[tuple[str, int], str] = {}
    for line in lines:
        if line.port and (first := seen.setdefault((line.host.lower(), line.port), line.place)) != line.place:
            raise ConfigurationError(f"{line.place}: {line.host}:{line.port} stands in {first} already; two masters cannot share a port")
    return lines


def read_workers(directory: Path) -> list[HostLine]:
    """Return the lines of `workers`; a cluster may have none.

    Raises:
        ConfigurationError: the file cannot be read, or has a line that is wrong.

    """
    return [_parse(text, place, allow_port=False) for text, place in _lines(directory / "workers")]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    found = 0
    for number, line in enumerate(content.splitlines(), start=1):
        if text := line.partition("#")[0].strip():
            found += 1
            if found > MAX_LINES:
                raise ConfigurationError(f"{path}:{number}: more than {MAX_LINES} hosts")
            yield text, f"{path}:{number}"


def _parse(text: str, place: str, *, allow_port: bool) -> HostLine:
    if " " in text or "\t" in text:
        raise ConfigurationError(f"{place}: '{text}': one host a line")
    if "@" in text:
        raise ConfigurationError(
            f"{place}: '{text}': a host alone; the user belongs into env.ssh.opts (-l USER) or ssh's own configuration"
        )
    host, port = _split(text, place)
    if port and not allow_port:
        raise ConfigurationError(f"{place}: '{text}': a worker is a host without a port")
    if not _is_address(host) and (len(host) > _MAX_NAME or not _NAME.fullmatch(host)):
        raise ConfigurationError(f"{place}: '{host}' is not a valid host: letters, digits, '.', '_' and '-', or an IP address")
    return HostLine(host, _port(port, text, place), place)


def _split(text: str, place: str) -> tuple[str, str]:
    """Return host and port, "" where there is none; an IPv6 address with a port is in brackets."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ConfigurationError(f"{place}: '{text}': an IPv6 address with a port is written [address]:port")
        return host, _named(rest, text, place)
    if _is_address(text):
        return text, ""
    host, separator, port = text.partition(":")
    return host, _named(separator + port, text, place)


def _named(rest: str, text: str, place: str) -> str:
    if rest == ":":
        raise ConfigurationError(f"{place}: '{text}': no port follows the colon")
    return rest[1:]


def _port(port: str, text: str, place: str) -> int:
    if not port:
        return 0
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= _MAX_PORT):
        raise ConfigurationError(f"{place}: '{text}': '{port}' is not a port from 1 to {_MAX_PORT}")
    return int(port)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
