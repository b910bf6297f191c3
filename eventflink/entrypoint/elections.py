"""Which election a master takes part in: by configuration, one of ours or a factory of the user's.

A factory is called with the configuration and the master's incarnation, and returns an `ElectionService`: the port that the
leadership room knows, with a start and an end around it for what has connections of its own.
"""

from typing import Final, Protocol, cast

from eventflink.entrypoint.factories import check_members, made_by_factory
from eventflink.leadership.election import Election, LogElection, SingleMaster
from eventflink.leadership.peers import Peers
from eventflink.model.configuration import Configuration, ConfigurationError

_KEY: Final = "high-availability.type"
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


def create_election(configuration: Configuration, incarnation: str, peers: Peers) -> ElectionService:
    """Return the election that `high-availability.type` names; one on the log ranks this master among its `peers`.

    Raises:
        ConfigurationError: the factory cannot be imported, or returned no election.

    """
    kind = configuration.high_availability
    if kind == "kafka":
        return _Local(LogElection(configuration.master_id, incarnation, configuration.lease_timeout_ms, peers))
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
    made = made_by_factory(_KEY, kind, "election", SERVICE_MEMBERS, configuration, incarnation)
    service = cast("ElectionService", made)
    check_members(_KEY, f"'{kind}' as its 'election'", service.election, ELECTION_MEMBERS)
    return service
