"""Back-pressure of a vertex, as of the last checkpoint: Flink's levels, of the ratio that `views/back_pressure.py` explains."""

from typing import Any, Final

from fastapi import APIRouter
from pydantic import Field

from eventflink.rest.flink.job_reads import ONE_JOB, JobReadsOfRequest
from eventflink.rest.flink.progress import AnsweredSubtask, answers_of
from eventflink.rest.flink.shapes import Shape, epoch_ms
from eventflink.views.back_pressure import level_of

NOT_MEASURED: Final = "deprecated"
"""Flink's word for a vertex that has no measurement."""

router = APIRouter(prefix=ONE_JOB)


def _is_none(value: Any) -> bool:
    return value is None


class SubtaskBackPressureInfo(Shape):
    """By how much a subtask does not keep up. How long it idles and works is not known: 0, as Flink has it then."""

    subtask: int
    level: str = Field(serialization_alias="backpressureLevel")
    deprecated_level: str = Field(serialization_alias="backpressure-level")
    """The same, as older clients call it."""
    ratio: float
    idle_ratio: float = Field(default=0.0, serialization_alias="idleRatio")
    busy_ratio: float = Field(default=0.0, serialization_alias="busyRatio")


class JobVertexBackPressureInfo(Shape):
    """By how much the subtasks of a vertex do not keep up: the worst of them, and each."""

    status: str
    level: str | None = Field(default=None, serialization_alias="backpressureLevel", exclude_if=_is_none)
    deprecated_level: str | None = Field(default=None, serialization_alias="backpressure-level", exclude_if=_is_none)
    end_timestamp: int | None = Field(default=None, serialization_alias="end-timestamp", exclude_if=_is_none)
    subtasks: list[SubtaskBackPressureInfo] | None = Field(default=None, exclude_if=_is_none)


@router.get("/vertices/{vertexid}/backpressure")
async def back_pressure(reads: JobReadsOfRequest, vertexid: str) -> JobVertexBackPressureInfo:
    """Return the back-pressure of a vertex; of one that is no stream, or was not asked yet, that there is none."""
    vertex, checkpoints = await reads.vertex_and_checkpoints(vertexid)
    rows = answers_of(checkpoints, vertex.vertex_id)
    if not rows:
        return JobVertexBackPressureInfo(status=NOT_MEASURED)
    level = level_of(max(row.back_pressure.ratio for row in rows)).lower()
    end = max(epoch_ms(row.answer.at) for row in rows)
    subtasks = [_of_subtask(row) for row in rows]
    return JobVertexBackPressureInfo(status="ok", level=level, deprecated_level=level, end_timestamp=end, subtasks=subtasks)


def _of_subtask(row: AnsweredSubtask) -> SubtaskBackPressureInfo:
    measured = row.back_pressure
    level = measured.level.lower()
    return SubtaskBackPressureInfo(subtask=row.subtask_index, level=level, deprecated_level=level, ratio=measured.ratio)
