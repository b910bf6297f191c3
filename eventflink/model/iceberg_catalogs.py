"""The catalogues of Iceberg that a TaskExecutor has by name: the keys below `iceberg.catalogs.`, each behind the name of its catalogue.

Behind the name stands what pyiceberg calls a property. Which ones a kind of catalogue needs is not checked here: pyiceberg says what is
missing. Loading a catalogue is `taskexecutor/iceberg_catalogs.py`'s. The rule it keeps: a secret is never a value here but a reference.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from eventflink.model.named_keys import by_name, read_named
from eventflink.model.references import check_reference
from eventflink.model.secret_values import has_credentials, holds_secret

MAX_CATALOGS: Final = 32
_MAX_PROPERTIES: Final = 100

_PROPERTY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SECRET_PROPERTIES: Final = ("credential", "secret-access-key")
"""How properties of pyiceberg end that are secrets, and that are not named as secrets are elsewhere."""


@dataclass(frozen=True, slots=True)
class IcebergCatalog:
    """A catalogue of Iceberg, as a TaskExecutor is told of it."""

    name: str
    """What jobs call it."""
    properties: dict[str, str] = field(default_factory=dict, hash=False)
    """What pyiceberg loads it by; secrets are references."""


def key_of_property(catalog: str, name: str) -> str:
    """Return the key of the configuration that has a property of a catalogue."""
    return f"iceberg.catalogs.{catalog}.{name}"


def parse_catalogs(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys below `iceberg.catalogs.` as texts; `catalogs_of` makes catalogues of them.

    Raises:
        ValueError: a name is none, a secret stands there in the clear, or there is too much.

    """
    texts = read_named("iceberg.catalogs", "a catalogue", values)
    for key, value in texts.items():
        _check_key(key, value)
    catalogs = catalogs_of(texts)
    if len(catalogs) > MAX_CATALOGS:
        raise ValueError(f"iceberg.catalogs: {len(catalogs)} catalogues; at most {MAX_CATALOGS} may be named")
    for catalog in catalogs:
        if len(catalog.properties) > _MAX_PROPERTIES:
            raise ValueError(f"iceberg.catalogs.{catalog.name}: more than {_MAX_PROPERTIES} keys")
        if not catalog.properties.keys() & {"uri", "type", "py-catalog-impl"}:
            raise ValueError(f"iceberg.catalogs.{catalog.name}: neither 'uri' nor 'type' says what catalogue it is")
    return texts


def catalogs_of(texts: Mapping[str, str]) -> tuple[IcebergCatalog, ...]:
    """Return the catalogues that the keys below `iceberg.catalogs.` name, in the order of their names."""
    return tuple([IcebergCatalog(name, said) for name, said in by_name(texts).items()])


def _check_key(key: str, value: str) -> None:
    of_catalog = key.partition(".")[2]
    if not _PROPERTY.fullmatch(of_catalog):
        raise ValueError(f"iceberg.catalogs.{key}: behind the name of the catalogue stands a property of pyiceberg, such as 'uri'")
    is_secret = holds_secret(of_catalog) or of_catalog.endswith(_SECRET_PROPERTIES) or has_credentials(value)
    check_reference(f"iceberg.catalogs.{key}", value, is_needed=bool(value) and is_secret)
