"""The ids that people choose on the command line, which are checked before anything is sent, or uploaded for them."""

from typing import Any, Final

import click

from eventflink.events.inputs import MAX_ID_LENGTH, MAX_SCHEDULE_ID_LENGTH
from eventflink.model.configuration import ID_PATTERN


class IdType(click.ParamType):
    """An id of at most so many characters; empty: none was chosen."""

    name = "id"

    def __init__(self, most: int) -> None:
        """Take how many characters it may have."""
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text, or tell what is allowed."""
        text = str(value)
        if text and (len(text) > self._most or not ID_PATTERN.fullmatch(text)):
            rule = f"only letters, digits, '.', '_' and '-', at most {self._most}, beginning with a letter or digit"
            self.fail(f"'{text[:128]}' is not a valid id: {rule}", param, ctx)
        return text


JOB_ID: Final = IdType(MAX_ID_LENGTH)
SCHEDULE_ID: Final = IdType(MAX_SCHEDULE_ID_LENGTH)
