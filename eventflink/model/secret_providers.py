"""Asks an operator's own class for a secret: `module:Provider`, which is made without arguments and has `get(name)`.

The rule it keeps: there is an answer or an error within 30 s. An error names the class, and never repeats what that said: it may hold a
value.
"""

import importlib
import threading
from typing import Final, Protocol

from eventflink.model.secret_files import SecretUnreadable

PROVIDER_TIMEOUT_S: Final = 30.0


class SecretProvider(Protocol):
    """What a provider is called without arguments for."""

    def get(self, name: str) -> str | None:
        """Return the value of a secret; None: it has none of that name."""


def ask_provider(provider: str, name: str) -> str | None:
    """Return the value of a secret; None: the provider has none of that name.

    It is asked in a thread that is given up when it does not answer.

    Raises:
        SecretUnreadable: there is no such class, it raised something, returned no text, or did not answer in time.

    """
    answers: list[object] = []

    def ask() -> None:
        try:
            module, _, factory = provider.partition(":")
            made: SecretProvider = getattr(importlib.import_module(module), factory)()
            answers.append(made.get(name))
        except BaseException as error:  # noqa: BLE001 - the operator's code may raise anything
            answers.append(SecretUnreadable(f"{provider} raised {type(error).__name__}"))

    thread = threading.Thread(target=ask, name="secret-provider", daemon=True)
    thread.start()
    thread.join(PROVIDER_TIMEOUT_S)
    match answers:
        case [SecretUnreadable() as error]:
            raise error
        case [str() | None as answer]:
            return answer
        case [other]:
            raise SecretUnreadable(f"{provider} returned a {type(other).__name__} for a str")
        case _:
            raise SecretUnreadable(f"{provider} gave no answer within {PROVIDER_TIMEOUT_S:g} s")
