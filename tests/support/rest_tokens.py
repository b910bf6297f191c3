"""Tokens of three identities, one of each role, in a real file, as a REST process reads them."""

from pathlib import Path
from typing import NamedTuple

from eventflink.rest.access.identity import AccessRole
from eventflink.rest.access.tokens import mint_token

NAMES = {AccessRole.VIEWER: "vera", AccessRole.OPERATOR: "oscar", AccessRole.ADMIN: "ada"}


class TokensOfThree(NamedTuple):
    """The file, and the token of each role."""

    file: Path
    tokens: dict[AccessRole, str]

    @property
    def configuration(self) -> dict[str, str]:
        """The keys of a process that reads the file, and is in no hurry to send anybody away."""
        return {"rest.tokens-file": str(self.file), "rest.requests-per-second": "100000"}

    def headers(self, role: AccessRole) -> dict[str, str]:
        """The header that shows a token."""
        return {"Authorization": f"Bearer {self.tokens[role]}"}


def tokens_of_three(directory: Path) -> TokensOfThree:
    """Write the file."""
    file = directory / "tokens"
    return TokensOfThree(file, {role: mint_token(file, name, role) for role, name in NAMES.items()})
