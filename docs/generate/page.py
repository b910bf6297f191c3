"""What a generator of a page is: its file in docs/generated/, and the function that returns its text."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
"""The top of the checkout."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of docs/generated/."""

    file_name: str
    render: Callable[[], str]

    @property
    def path(self) -> Path:
        """Where the page stands."""
        return ROOT / "docs" / "generated" / self.file_name
