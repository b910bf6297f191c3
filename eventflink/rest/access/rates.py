"""How often something may happen, by key: so often at once, and then so often a second.

Bounded: the keys that were used longest ago are forgotten.
"""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_V6_NETWORK: Final = 64
"""Bits of an IPv6 address that one customer of a provider has to himself."""


class Rates:
    """A bucket of permits for each key, which fills again."""

    def __init__(self, per_s: float, at_once: int, most_keys: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._at_once = at_once
        self._most_keys = most_keys
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._buckets)

    def take(self, key: str) -> float:
        """Take a permit; return 0, or in how many seconds there will be one."""
        now = self._clock()
        permits, at = self._buckets.pop(key, (float(self._at_once), now))
        permits = min(float(self._at_once), permits + (now - at) * self._per_s)
        wait_s = 0.0 if permits >= 1 else (1 - permits) / self._per_s
        self._buckets[key] = (permits - 1 if wait_s == 0 else permits), now
        if len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)
        return wait_s

    def give_back(self, key: str) -> None:
        """Undo a `take`."""
        if (bucket := self._buckets.get(key)) is not None:
            self._buckets[key] = min(float(self._at_once), bucket[0] + 1), bucket[1]


def peer_of(client: tuple[str, int] | None) -> str:
    """Return by what a peer is counted: an IPv4 address, or the network of an IPv6 one; empty: it is of this machine."""
    if client is None:
        return ""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(address), _V6_NETWORK), strict=False))
    return str(address)
