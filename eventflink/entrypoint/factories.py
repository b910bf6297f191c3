"""Parts of a master that its configuration names: one of ours, or what a factory of the user's makes.

Two there are, the election and the resource driver. A key of the configuration names a factory as `module:name`. One of an election is
called with the configuration and the master's incarnation, and returns an `ElectionService`: the port that the leadership room knows, with
a start and an end around it for what has connections of its own. One of a resource driver is called with the configuration and the command
line of an `eventflink` that has it, and returns a `ResourceDriver`.
"""

import importlib
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

from eventflink.entrypoint.process_driver import ProcessDriver
from eventflink.entrypoint.resource_driver import ResourceDriver
from eventflink.leadership.election import Election, LogElection, Peers, SingleMaster
from eventflink.model.configuration import Configuration, ConfigurationError
from eventflink.model.packages import needs


def made_by_factory(key: str, factory_name: str, product: str, members: Sequence[str], *arguments: object) -> object:
    """Return what the factory makes of the arguments, a `product` that has these members.

    Raises:
        ConfigurationError: the factory cannot be imported, raises, or returned something else; the message begins with the key.

    """
    module_name, _, name = factory_name.partition(":")
    try:
        factory: Any = getattr(importlib.import_module(module_name), name)
    except Exception as error:  # the user's module may raise anything
        raise ConfigurationError(f"{key}: '{factory_name}' cannot be imported: {error!r}") from error
    try:
        made: object = factory(*arguments)
    except ConfigurationError:
        raise
    except Exception as error:  # the user's factory may raise anything
        raise ConfigurationError(f"{key}: '{factory_name}' made no {product}: {error!r}") from error
    check_members(key, f"'{factory_name}'", made, members)
    return made


def check_members(key: str, origin: str, made: object, members: Sequence[str]) -> None:
    """Check that what a factory made has all that a port has.

    Raises:
        ConfigurationError: it has not.

    """
    if missing := [member for member in members if not hasattr(made, member)]:
        raise ConfigurationError(f"{key}: what {origin} returned has no {', '.join(missing)}")


_KEY: Final = "high-availability.type"
SERVICE_MEMBERS: Final = ("election", "start", "close")
ELECTION_MEMBERS: Final = ("heard", "granted", "never_granted", "said", "begin", "end", "advise", "may_lead")


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
        PackageMissing: what the kind needs is not installed.

    """
    kind = configuration.high_availability
    if kind == "kafka":
        return _Local(LogElection(configuration.master_id, incarnation, peers))
    if kind == "none":
        return _Local(SingleMaster())
    if kind == "zookeeper":
        return _with_zookeeper(configuration, incarnation)
    return _from_factory(kind, configuration, incarnation)


def listens(election: Election) -> bool:
    """Tell whether an election makes anything of what is said on `leadership`; where it does not, nobody needs to hear of a death there."""
    return type(election).heard is not Election.heard


def _with_zookeeper(configuration: Configuration, incarnation: str) -> ElectionService:
    with needs("zookeeper", "high-availability.type: zookeeper"):
        from eventflink.entrypoint.zookeeper_election import ZooKeeperElection  # noqa: PLC0415 - kazoo is loaded only where it elects
    return ZooKeeperElection(configuration, incarnation)


def _from_factory(kind: str, configuration: Configuration, incarnation: str) -> ElectionService:
    made = made_by_factory(_KEY, kind, "election", SERVICE_MEMBERS, configuration, incarnation)
    service = cast("ElectionService", made)
    check_members(_KEY, f"'{kind}' as its 'election'", service.election, ELECTION_MEMBERS)
    return service


DRIVER_MEMBERS: Final = ("lead", "list_workers", "request_worker", "stop_worker", "deregister_application", "close")


def create_driver(configuration: Configuration, program: Sequence[str]) -> ResourceDriver | None:
    """Return the driver that `resourcemanager.driver` names; None for `standalone`, and where a log is only rehearsed.

    `program` is the command line of an `eventflink` with this master's configuration, up to its command. A factory is called with the
    configuration and with it.

    Raises:
        ConfigurationError: the factory cannot be imported, or made no driver.

    """
    kind = configuration.resource_driver
    if kind == "standalone" or configuration.drills_rehearsal:
        return None
    if kind == "process":
        return ProcessDriver(configuration, program)
    if kind == "kubernetes":
        with needs("kubernetes", "resourcemanager.driver: kubernetes"):
            from eventflink.entrypoint.kubernetes_driver import KubernetesDriver  # noqa: PLC0415 - its client is loaded only where it is used
        return KubernetesDriver(configuration, program)
    driver = made_by_factory("resourcemanager.driver", kind, "driver", DRIVER_MEMBERS, configuration, program)
    return cast("ResourceDriver", driver)
