"""The parameters of a window of a list."""

from typing import Annotated, Final

from fastapi import Query

MAX_LIMIT: Final = 1_000

First = Annotated[int, Query(ge=0, lt=2**31, description="How many to leave out before the first that is shown.")]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many to show, at most.")]
