"""Sets the logging of a daemon up from `logging.yaml` of the configuration directory: Python's own dictConfig, and nothing besides.

`${daemon}` in a text stands for the daemon's id, `${env.log.dir}` for the directory of its cluster's logs. Loggers that the file does not
name keep their levels: some clients are silenced for good where they are made.
"""

import logging
import logging.config
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from eventflink.model.configuration import ConfigurationError
from eventflink.model.document_text import InvalidText, read_document

FILE_NAME: Final = "logging.yaml"


def read_logging_file(path: Path) -> dict[str, Any]:
    """Return what the file says.

    Raises:
        ConfigurationError: it cannot be read, or is not a mapping.

    """
    try:
        document = read_document(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, InvalidText) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: the document must be a mapping in the form of logging.config.dictConfig")
    return {"version": 1, "disable_existing_loggers": False, **document}


def apply_logging_file(path: Path, values: Mapping[str, str]) -> None:
    """Log as the file says from now on.

    Raises:
        ConfigurationError: it is not usable; the message has the reason that dictConfig gives.

    """
    document = _filled(read_logging_file(path), values)
    levels = {name: logger.level for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)}
    try:
        logging.config.dictConfig(document)
    except (ValueError, TypeError, AttributeError, ImportError, KeyError, OSError) as error:
        reason = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        raise ConfigurationError(f"{path}: {reason}") from error
    # dictConfig resets what lies below a logger that it configures.
    for name, level in levels.items():
        if name not in (document.get("loggers") or {}):
            logging.getLogger(name).setLevel(level)


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    if isinstance(value, str):
        for name, text in values.items():
            value = value.replace(f"${{{name}}}", text)
    return value
