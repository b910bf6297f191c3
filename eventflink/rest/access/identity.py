"""Who asks a REST process, and what they may do: a name, which commands carry into the log as their actor, and one of three roles.

How a token becomes an identity is the business of `tokens.py`, or of a provider of the user's.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")


class AccessRole(StrEnum):
    """What somebody may do; each role may do what those before it may."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def covers(self, needed: "AccessRole") -> bool:
        """Tell whether who has this role may do what needs the other one."""
        roles = list(AccessRole)
        return roles.index(self) >= roles.index(needed)

    @classmethod
    def _missing_(cls, value: object) -> "AccessRole":
        raise ValueError(f"unknown role: '{value}'; known: {', '.join(cls)}")


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who may ask.

    Raises:
        ValueError: the name is none that a log and a header can hold, or there is no such role.

    """

    name: str
    role: AccessRole

    def __post_init__(self) -> None:
        """Check what a file or a provider says."""
        if not NAME_PATTERN.fullmatch(self.name):
            raise ValueError(f"invalid name '{self.name[:128]}': use 1-128 letters, digits or . _ @ + -, starting with a letter or digit")
        object.__setattr__(self, "role", AccessRole(self.role))


class TokenProvider(Protocol):
    """Tells whose token it is; `rest.token-provider` names what makes one, called with the configuration."""

    def identity_of(self, token: str) -> Identity | None:
        """Return who has this token now; None: nobody. It is called in threads, and may wait for a few seconds.

        Whatever it raises means that nobody can be let in right now.
        """


UNAUTHENTICATED: Final = Identity("rest", AccessRole.ADMIN)
"""Who asks where no tokens are configured: whoever may open connections to this machine."""
