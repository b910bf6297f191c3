"""Under which names a process may be asked. Any other name in a request may be one that another site pointed to this address."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from eventflink.model.loopback import LOOPBACK
from eventflink.rest.errors import RestError

_MAX_SHOWN: Final = 100


class Hosts:
    """The names of a process: this machine's own loopback, and those that were configured."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOOPBACK | {name.lower() for name in names}

    def check(self, hosts: list[str]) -> None:
        """Refuse a request that was sent to another name, or to none, or to several.

        Raises:
            RestError: 403.

        """
        name = _name_in(hosts[0]) if len(hosts) == 1 else None
        if name not in self._names:
            shown = str(name)[:_MAX_SHOWN]
            answers_for = "localhost alone" if self._names == LOOPBACK else "the names in rest.address alone"
            raise RestError(HTTPStatus.FORBIDDEN, f"the Host of the request is '{shown}': this process answers for {answers_for}")


def _name_in(host: str) -> str | None:
    try:
        place = urlsplit(f"//{host}")
    except ValueError:
        return None
    return place.hostname if place.username is None and not place.path else None
