"""What Flink's asynchronous operations have in common: a trigger, under whose id one asks later what became of it."""

import re
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from eventflink.rest.flink.shapes import Shape

_LOCAL: Final = re.compile(r"^file:/(?!/)")


class Body(BaseModel):
    """What a client sends; as with Flink a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


TriggerId = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{32}$"), AfterValidator(str.lower)]
"""As Flink writes them; here it is the request id of the command."""

Place = Annotated[str, Field(max_length=4_096), AfterValidator(lambda place: _LOCAL.sub("file:///", place))]
"""A directory or a URL; Java writes `file:/directory` for one."""


class TriggerResponse(Shape):
    """Under which id one asks what became of an operation."""

    request_id: str = Field(serialization_alias="request-id")


class QueueStatusId(StrEnum):
    """Whether an operation has ended, in one way or the other."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"


class QueueStatus(Shape):
    """Whether an operation has ended."""

    id: QueueStatusId


class FailureCause(Shape):
    """Why an operation failed: what, and in one sentence why."""

    kind: str = Field(serialization_alias="class")
    stack_trace: str = Field(serialization_alias="stack-trace")


class FailedOperation(Shape):
    """An operation that failed; or, without a cause, one that gave nothing but that it was done."""

    failure_cause: FailureCause | None = Field(serialization_alias="failure-cause")


IN_PROGRESS: Final = QueueStatus(id=QueueStatusId.IN_PROGRESS)
COMPLETED: Final = QueueStatus(id=QueueStatusId.COMPLETED)
