"""The catalogues of Iceberg that a sink of this TaskExecutor may name: found by name, and loaded with their secrets.

What a catalogue is, the configuration says (`model/iceberg_catalogs.py`). The rule it keeps: a secret is read where it is used, in the
process that asks the catalogue, and is told to who hides it before that.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from eventflink.model.backoff import Backoff
from eventflink.model.iceberg_catalogs import IcebergCatalog, key_of_property
from eventflink.model.packages import PackageMissing, needs
from eventflink.model.references import SecretMissing, reference_of, resolve
from eventflink.streams.failures import SinkUnavailable, TableUnusable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

logger = logging.getLogger(__name__)

R = TypeVar("R")

_TRIES: Final = 6
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0


def load_named_catalog(catalogs: Iterable[IcebergCatalog], name: str, hide: Callable[[str], None], who: str = "TaskExecutor") -> "Catalog":
    """Return the catalogue that a job, or a schedule, calls so.

    Args:
        catalogs: those of this process.
        name: what the job calls it.
        hide: called with each secret before it is used.
        who: what kind of process this is, for the message.

    Raises:
        TableUnusable: there is none, pyiceberg is not installed, or cannot make a catalogue of what the configuration says.
        SinkUnavailable: the catalogue does not answer.

    """
    return load_catalog(find_catalog(catalogs, name, who), hide, who)


def find_catalog(catalogs: Iterable[IcebergCatalog], name: str, who: str = "TaskExecutor") -> IcebergCatalog:
    """Return what is known of the catalogue that a job, or a schedule, calls so; raises `TableUnusable` if that is nothing."""
    known = {catalog.name: catalog for catalog in catalogs}
    if name not in known:
        names = ", ".join(known) or "none"
        raise TableUnusable(
            f"catalogue of Iceberg '{name}' not found: this {who} has {names}; name one of these, or add "
            f"iceberg.catalogs.{name}.uri to the configuration of every {who}"
        )
    return known[name]


def load_catalog(catalog: IcebergCatalog, hide: Callable[[str], None], who: str = "TaskExecutor") -> "Catalog":
    """Return a catalogue; arguments and errors are those of `load_named_catalog`."""
    name = catalog.name
    properties = {key: _resolve(name, key, value, hide) for key, value in catalog.properties.items()}
    try:
        with needs("iceberg", "a table of Iceberg"):
            from pyiceberg import catalog as catalogs  # noqa: PLC0415 - it takes long, and few tasks need it
    except PackageMissing as error:
        raise TableUnusable(f"{error}, where {who}s are installed") from error
    from pyiceberg.exceptions import NotInstalledError  # noqa: PLC0415 - likewise

    def load() -> "Catalog":
        try:
            return catalogs.load_catalog(name, **properties)
        except (ValueError, KeyError, ImportError, NotInstalledError) as error:
            raise TableUnusable(f"iceberg.catalogs.{name}: pyiceberg makes no catalogue of these keys: {error}") from error

    return ask(name, load)


def ask(name: str, operation: Callable[[], R]) -> R:
    """Return what a catalogue is asked for that may be asked for again without harm.

    It is asked several times, since what two make at one moment (its first use, a namespace, a table) fails for one of them in many ways.

    Raises:
        TableUnusable: the operation does.
        SinkUnavailable: the catalogue does not answer, or refuses.

    """
    pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    for remaining in reversed(range(_TRIES)):
        try:
            return operation()
        except TableUnusable:
            raise
        except Exception as error:  # a database, a web server, a cloud: each kind of catalogue has errors of its own
            if not remaining:
                raise SinkUnavailable(f"the catalogue of Iceberg '{name}' failed: {type(error).__name__}: {error}") from error
            logger.info("CatalogAskedAgain catalog=%s error=%s", name, type(error).__name__)
        time.sleep(pauses.next())
    raise AssertionError  # The last try returns or raises.


def _resolve(catalog: str, name: str, value: str, hide: Callable[[str], None]) -> str:
    if not reference_of(value)[0]:
        return value
    try:
        secret = resolve(key_of_property(catalog, name), value)
    except SecretMissing as error:
        raise TableUnusable(str(error)) from error
    if not secret:
        raise TableUnusable(f"{key_of_property(catalog, name)}: what it refers to is empty")
    hide(secret)
    return secret
