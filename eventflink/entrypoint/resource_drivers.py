"""Which resource driver a master has: by configuration, one of ours or a factory of the user's."""

from collections.abc import Sequence
from typing import Final, cast

from eventflink.entrypoint.factories import made_by_factory
from eventflink.entrypoint.process_driver import ProcessDriver
from eventflink.entrypoint.resource_driver import ResourceDriver
from eventflink.model.configuration import Configuration

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
    driver = made_by_factory("resourcemanager.driver", kind, "driver", DRIVER_MEMBERS, configuration, program)
    return cast("ResourceDriver", driver)
