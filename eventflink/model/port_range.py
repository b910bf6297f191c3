"""Ports as Flink writes them: `50100`, `50100-50200`, or several of these with commas between; 0 is any free port.

Only the text lives here; a server tries the ports in the order in which they stand.
"""

from collections.abc import Iterator
from typing import Final

MAX_PORT: Final = 65_535


def parse_ports(text: str) -> tuple[range, ...]:
    """Return the ranges of ports that a text names.

    Raises:
        ValueError: it names none; the message says what is wrong.

    """
    return tuple(_parse_one(part.strip(), text) for part in text.split(","))


def _parse_one(part: str, text: str) -> range:
    first, dash, last = part.partition("-")
    numbers = [first.strip(), last.strip()] if dash else [first]
    if not all(number.isascii() and number.isdigit() and len(number) <= len(str(MAX_PORT)) for number in numbers):
        raise ValueError(
            f"invalid ports: '{text[:80]}'; give a port (50100), a range (50100-50200), or several of them with commas between"
        )
    low, high = int(numbers[0]), int(numbers[-1])
    if high > MAX_PORT or (dash and low == 0):
        raise ValueError(f"'{part}' is not a port from {'1' if dash else '0'} to {MAX_PORT}")
    if low > high:
        raise ValueError(f"'{part}' is an empty range of ports")
    return range(low, high + 1)


def ports_of(text: str) -> Iterator[int]:
    """Yield the ports that a text names, in order.

    Raises:
        ValueError: it names none.

    """
    for ports in parse_ports(text):
        yield from ports
