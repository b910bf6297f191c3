"""Which election a master takes part in: by configuration, one of ours or a factory of the user's.

A factory is called with the configuration and the master's incarnation, and returns an `ElectionService`: the port that the
leadership room knows, with a start and an end around it for what has connections of its own.
"""

import importlib
from typing import TYPE_CHECKING, Final, Protocol, cast

from eventflink.leadership.election import Election, LogElection, SingleMaster
from eventflink.model.configuration import Configuration, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE_MEMBERS: Final = ("election", "start", "close")
ELECTION_MEMBERS: Final = ("heard", "granted", "said", "begin", "end", "advise", "may_lead")


class ElectionService(Protocol):
    """An election with connections of its own."""

    @property
    def election(self) -> Election:
        """The port; its calls never wait."""

    def start(self) -> None:
        """Connect; called once, from a thread that may wait.

        Raises:
            OSError, TimeoutError: the service cannot be reached.

        """

    def close(self) -> None:
        """Give everything back; called once, from a thread that may wait."""


class _Local:
    """An election that needs no connection of its own."""

    def __init__(self, election: Election) -> None:
        self.election = election

    def start(self) -> None:
        """Connect to nothing."""

    def close(self) -> None:
        """Hold nothing."""


def create_election(configuration: Configuration, incarnation: str) -> ElectionService:
    """Return the election that `high-availability.type` names.

    Raises:
        ConfigurationError: the factory cannot be imported, or returned no election.

    """
    kind = configuration.high_availability
    if kind == "kafka":
        return _Local(LogElection(configuration.master_id, incarnation, configuration.lease_timeout_ms))
    if kind == "none":
        return _Local(SingleMaster())
    if kind == "zookeeper":
        return _with_zookeeper(configuration, incarnation)
    return _from_factory(kind, configuration, incarnation)


def _with_zookeeper(configuration: Configuration, incarnation: str) -> ElectionService:
    try:
        from eventflink.entrypoint.zookeeper_election import ZooKeeperElection  # noqa: PLC0415 - kazoo is loaded only where it elects
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "kazoo":
            raise
        raise ConfigurationError("high-availability.type: zookeeper needs kazoo: pip install 'eventflink[zookeeper]'") from error
    return ZooKeeperElection(configuration, incarnation)


def _from_factory(kind: str, configuration: Configuration, incarnation: str) -> ElectionService:
    module_name, _, name = kind.partition(":")
    try:
        factory = cast("Callable[[Configuration, str], ElectionService]", getattr(importlib.import_module(module_name), name))
    except Exception as error:  # the user's module may raise anything
        raise ConfigurationError(f"high-availability.type: '{kind}' cannot be imported: {error!r}") from error
    try:
        service = factory(configuration, incarnation)
    except ConfigurationError:
        raise
    except Exception as error:  # the user's factory may raise anything
        raise ConfigurationError(f"high-availability.type: '{kind}' made no election: {error!r}") from error
    _check(service, SERVICE_MEMBERS, kind)
    _check(service.election, ELECTION_MEMBERS, f"{kind}' as its 'election")
    return service


def _check(returned: object, members: tuple[str, ...], name: str) -> None:
    missing = [member for member in members if not hasattr(returned, member)]
    if missing:
        raise ConfigurationError(f"high-availability.type: what '{name}' returned has no {', '.join(missing)}")
