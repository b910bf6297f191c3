"""What all shapes of Flink's REST API have in common: names as Flink writes them, times and durations in milliseconds, -1 for none.

A shape says what Flink's answer has, field by field; what fills it stands beside it. Fields that Flink has and this cluster has nothing
for are there with Flink's value for "none", and are named in docs/rest.md.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from pydantic import BaseModel, ConfigDict

from eventflink.model.statuses import ExecutionState

NONE: Final = -1
"""How Flink writes that there is no such time, number or limit."""


class Shape(BaseModel):
    """A document of Flink's API."""

    # Most shapes are parts of others, which are built with them: to build each by itself as well would take a tenth of the start.
    model_config = ConfigDict(frozen=True, defer_build=True)


class Empty(Shape):
    """What Flink answers with where there is nothing to say."""


def epoch_ms(time: str | None, none: int = NONE) -> int:
    """Return the milliseconds since 1970 of a time as views write it; `none` where there is none."""
    return round(datetime.fromisoformat(time).timestamp() * 1000) if time is not None else none


def count_of_tasks(states: Mapping[ExecutionState, int]) -> dict[str, int]:
    """Return how many tasks are in each of Flink's states, those without any as well, from the counts that a view has."""
    return {state.value: states.get(state, 0) for state in ExecutionState}
