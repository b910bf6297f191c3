"""The secrets of a task: found by their names where the TaskExecutor's configuration says, in the process of the task that names them.

Nothing here runs anywhere else, and nothing keeps a value: it is in what the task's function is given, and known to `secret_masks.py`. The
rule it keeps: what is raised names the secret, the TaskManager and where was looked, never a value, nor what a provider says of one.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from eventflink.model.secret_files import MAX_SECRET_BYTES, SecretUnreadable, read_secret
from eventflink.model.secret_masks import hide
from eventflink.model.secret_providers import ask_provider
from eventflink.model.secret_references import is_secret_name, with_secrets
from eventflink.taskexecutor.failure_causes import TaskUnusable

if TYPE_CHECKING:
    from eventflink.model.configuration import Configuration


class SecretUnavailable(TaskUnusable):
    """A secret that the job names is not to be had here."""


@dataclass(frozen=True, slots=True)
class SecretSettings:
    """Where a TaskExecutor finds secrets; they are looked for in this order."""

    task_manager_id: str = ""
    process_id: int = 0
    """Of the TaskExecutor: its variables are its own, and in no task's environment."""
    directory: str = ""
    """A file for each secret; empty: none."""
    environment_prefix: str = ""
    """Variables, behind it the name; empty: none."""
    provider: str = ""
    """`module:Provider`; empty: none."""

    @classmethod
    def of(cls, configuration: "Configuration") -> Self:
        """Return where the configuration has this process, the TaskExecutor, find them."""
        places = (configuration.secrets_directory, configuration.secrets_environment_prefix, configuration.secrets_provider)
        return cls(configuration.task_manager_id, os.getpid(), *places)


class TaskSecrets:
    """What one task may ask for."""

    def __init__(self, settings: SecretSettings) -> None:
        """Take where to look."""
        self._settings = settings
        self._found: dict[str, str] = {}

    def put_into(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a document of the job with the values of the secrets that it names.

        Raises:
            SecretUnavailable: one is missing, or cannot be read.

        """
        return with_secrets(values, self._resolve)

    def _resolve(self, name: str) -> str:
        if name not in self._found:
            value = self._look(name)
            hide(value)
            self._found[name] = value
        return self._found[name]

    def _look(self, name: str) -> str:
        where = f"'{name}' on TaskManager '{self._settings.task_manager_id}'"
        if not is_secret_name(name):  # A master has let it pass that is none of ours.
            raise SecretUnavailable("invalid name of a secret")
        places = self._places(name)
        try:
            for place, look in places.items():
                if (value := look()) is None:
                    continue
                if 0 < len(value) <= MAX_SECRET_BYTES:
                    return value
                raise SecretUnreadable(f"{place} {f'has more than {MAX_SECRET_BYTES} characters' if value else 'is empty'}")  # noqa: TRY301
        except SecretUnreadable as error:
            raise SecretUnavailable(f"secret unreadable: {where}: {error}") from None
        looked = f"looked for {', '.join(places)}" if places else "set one of the keys secrets.*, which say where secrets are"
        raise SecretUnavailable(f"secret not found: {where}; {looked}")

    def _places(self, name: str) -> dict[str, Callable[[], str | None]]:
        settings, places = self._settings, dict[str, Callable[[], str | None]]()
        if settings.directory:
            places[f"file '{name}' in {settings.directory}"] = partial(_from_directory, Path(settings.directory), name)
        if settings.environment_prefix:
            variable = settings.environment_prefix + name
            places[f"variable {variable} in its environment"] = partial(_from_environment, settings.process_id, variable)
        if settings.provider:
            places[f"the secret of {settings.provider}"] = partial(ask_provider, settings.provider, name)
        return places


def _from_directory(directory: Path, name: str) -> str | None:
    """Return what the file holds, without one line break at its end, which editors leave; links lead on within the directory only."""
    root, path = directory.resolve(), (directory / name).resolve()
    if not path.is_relative_to(root):
        raise SecretUnreadable(f"{directory / name} leads out of the directory")
    try:
        text = read_secret(path)
    except FileNotFoundError:
        return None
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _from_environment(process_id: int, variable: str) -> str | None:
    """Return what the TaskExecutor was started with: in the environment of tasks it is not, so that no other task has it."""
    try:
        entries = Path(f"/proc/{process_id}/environ").read_bytes().split(b"\0")
    except OSError as error:
        raise SecretUnreadable(f"the environment of the TaskExecutor cannot be read: {error.strerror}") from error
    beginning = f"{variable}=".encode()
    found = next((entry.removeprefix(beginning) for entry in entries if entry.startswith(beginning)), None)
    try:
        return found.decode() if found is not None else None
    except UnicodeDecodeError:
        raise SecretUnreadable(f"variable {variable} is not UTF-8 text") from None
