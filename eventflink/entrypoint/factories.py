"""Parts of a master that a user may bring: a key of the configuration names a factory as `module:name`."""

import importlib
from collections.abc import Sequence
from typing import Any

from eventflink.model.configuration import ConfigurationError


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
