"""What Flink's asynchronous operations have in common: a trigger, under whose id one asks later what became of it."""

import base64
import re
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, computed_field
from pydantic_core import PydanticKnownError

from eventflink.rest.flink.java_throwables import serialized_throwable
from eventflink.rest.flink.shapes import Shape

_LOCAL: Final = re.compile(r"^file:/(?!/)")


class Body(BaseModel):
    """What a client sends; as with Flink a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


TriggerId = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{32}$"), AfterValidator(str.lower)]
"""As Flink writes them; here it is the request id of the command."""


def _refuse_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return value


Count = Annotated[int, Field(ge=1, le=2**31 - 1), BeforeValidator(_refuse_boolean)]
"""How many subtasks are wanted; pydantic would take true for 1."""

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


class ThrowableInfo(Shape):
    """Why an operation or a job failed: what, why, and where if that is known. Flink's clients read the serialized form."""

    kind: str = Field(serialization_alias="class")
    message: str = Field(exclude=True)
    stack_trace: str = Field(serialization_alias="stack-trace")

    @computed_field(alias="serialized-throwable")  # type: ignore[prop-decorator]
    @property
    def serialized(self) -> str:
        """As Java serializes it, in base 64."""
        return base64.b64encode(serialized_throwable(self.kind, self.message, self.stack_trace)).decode()


def failure_cause(kind: str, message: str, stack_trace: str = "") -> ThrowableInfo:
    """Return a cause; without a stack trace the message stands for it."""
    return ThrowableInfo(kind=kind, message=message, stack_trace=stack_trace or f"{kind}: {message}")


class FailedOperation(Shape):
    """An operation that failed; or, without a cause, one that gave nothing but that it was done."""

    failure_cause: ThrowableInfo | None = Field(serialization_alias="failure-cause")


IN_PROGRESS: Final = QueueStatus(id=QueueStatusId.IN_PROGRESS)
COMPLETED: Final = QueueStatus(id=QueueStatusId.COMPLETED)
