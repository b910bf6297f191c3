"""Reads a file that holds one secret. The rule it keeps: nothing that is raised says what the file holds."""

import os
import stat
from pathlib import Path
from typing import Final

MAX_SECRET_BYTES: Final = 64 * 1024


class SecretUnreadable(Exception):
    """The message says which file cannot be read as a secret, and why."""


def read_secret(path: Path) -> str:
    """Return what the file holds, all of it.

    Raises:
        FileNotFoundError: there is none.
        SecretUnreadable: it is no file, may not be read, is too long, or is no text.

    """
    try:
        # A pipe without a writer would be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SecretUnreadable(f"{path} is not a regular file")
            content = file.read(MAX_SECRET_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SecretUnreadable(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_SECRET_BYTES:
        raise SecretUnreadable(f"{path} has more than {MAX_SECRET_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:  # It holds the bytes, and must not be shown as the cause.
        raise SecretUnreadable(f"{path} cannot be read: it is not UTF-8 text") from None
