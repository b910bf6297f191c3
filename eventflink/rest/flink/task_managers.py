"""The TaskManagers and their slots, as Flink's TaskManagersHandler and TaskManagerDetailsHandler answer. Their files are elsewhere."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from pydantic import Field

from eventflink.documents.task_managers import CountedTaskManager
from eventflink.model.attempts import AttemptId
from eventflink.model.resources import ResourceProfile
from eventflink.reader.heartbeats import Heartbeats
from eventflink.rest.answers import note_state
from eventflink.rest.flink.shapes import NONE, Shape, epoch_ms
from eventflink.rest.reading import ReadsOfRequest, ServicesOfRequest
from eventflink.views.queries import task_manager, task_managers

_MEBIBYTE: Final = 1 << 20
_MILLI: Final = 1_000

router = APIRouter()


class ResourceProfileInfo(Shape):
    """What some slots have; -1 where nobody has said it. Memory in mebibytes."""

    cpu_cores: float = Field(default=NONE, serialization_alias="cpuCores")
    task_heap_memory: int = Field(default=NONE, serialization_alias="taskHeapMemory")
    task_off_heap_memory: int = Field(default=NONE, serialization_alias="taskOffHeapMemory")
    managed_memory: int = Field(default=NONE, serialization_alias="managedMemory")
    network_memory: int = Field(default=NONE, serialization_alias="networkMemory")
    extended_resources: dict[str, float] = Field(default={}, serialization_alias="extendedResources")


class HardwareDescription(Shape):
    """The machine of a TaskManager, as it found it when it started; -1 where it has not said it. Memory in bytes."""

    cpu_cores: int = Field(default=NONE, serialization_alias="cpuCores")
    physical_memory: int = Field(default=NONE, serialization_alias="physicalMemory")
    free_memory: int = Field(default=NONE, serialization_alias="freeMemory")
    """Flink has the size of a Java heap here; tasks here are processes of their own, which get what the machine has left."""
    managed_memory: int = Field(default=NONE, serialization_alias="managedMemory")


class TaskExecutorMemoryConfiguration(Shape):
    """How a Java process divides its memory: a TaskManager here is none."""

    framework_heap: int | None = Field(default=None, serialization_alias="frameworkHeap")
    task_heap: int | None = Field(default=None, serialization_alias="taskHeap")
    framework_off_heap: int | None = Field(default=None, serialization_alias="frameworkOffHeap")
    task_off_heap: int | None = Field(default=None, serialization_alias="taskOffHeap")
    network_memory: int | None = Field(default=None, serialization_alias="networkMemory")
    managed_memory: int | None = Field(default=None, serialization_alias="managedMemory")
    jvm_metaspace: int | None = Field(default=None, serialization_alias="jvmMetaspace")
    jvm_overhead: int | None = Field(default=None, serialization_alias="jvmOverhead")
    total_flink_memory: int | None = Field(default=None, serialization_alias="totalFlinkMemory")
    total_process_memory: int | None = Field(default=None, serialization_alias="totalProcessMemory")


class TaskManagerInfo(Shape):
    """A TaskManager as a row."""

    id: str
    path: str
    """Its host and process: it has no address."""
    data_port: int = Field(default=NONE, serialization_alias="dataPort")
    jmx_port: int = Field(default=NONE, serialization_alias="jmxPort")
    time_since_last_heartbeat: int = Field(serialization_alias="timeSinceLastHeartbeat")
    """As in Flink the time of the last heartbeat, not since when: the newest that this process has read, or that of its registration."""
    slots_number: int = Field(serialization_alias="slotsNumber")
    free_slots: int = Field(serialization_alias="freeSlots")
    assigned_tasks: int = Field(serialization_alias="assignedTasks")
    total_resource: ResourceProfileInfo = Field(serialization_alias="totalResource")
    free_resource: ResourceProfileInfo = Field(serialization_alias="freeResource")
    hardware: HardwareDescription
    memory_configuration: TaskExecutorMemoryConfiguration = Field(
        default=TaskExecutorMemoryConfiguration(), serialization_alias="memoryConfiguration"
    )
    blocked: bool


class TaskManagersInfo(Shape):
    """All that are registered."""

    taskmanagers: list[TaskManagerInfo]


class AllocatedSlotInfo(Shape):
    """A slot that a job has."""

    job_id: str = Field(serialization_alias="jobId")
    resource: ResourceProfileInfo
    assigned_tasks: int = Field(serialization_alias="assignedTasks")


class TaskManagerMetricsInfo(Shape):
    """The memory of a Java process: a TaskManager here is none."""

    heap_used: int = Field(default=0, serialization_alias="heapUsed")
    heap_committed: int = Field(default=0, serialization_alias="heapCommitted")
    heap_max: int = Field(default=0, serialization_alias="heapMax")
    non_heap_used: int = Field(default=0, serialization_alias="nonHeapUsed")
    non_heap_committed: int = Field(default=0, serialization_alias="nonHeapCommitted")
    non_heap_max: int = Field(default=0, serialization_alias="nonHeapMax")
    direct_count: int = Field(default=0, serialization_alias="directCount")
    direct_used: int = Field(default=0, serialization_alias="directUsed")
    direct_max: int = Field(default=0, serialization_alias="directMax")
    mapped_count: int = Field(default=0, serialization_alias="mappedCount")
    mapped_used: int = Field(default=0, serialization_alias="mappedUsed")
    mapped_max: int = Field(default=0, serialization_alias="mappedMax")
    segments_available: int = Field(default=0, serialization_alias="nettyShuffleMemorySegmentsAvailable")
    segments_used: int = Field(default=0, serialization_alias="nettyShuffleMemorySegmentsUsed")
    segments_total: int = Field(default=0, serialization_alias="nettyShuffleMemorySegmentsTotal")
    shuffle_memory_available: int = Field(default=0, serialization_alias="nettyShuffleMemoryAvailable")
    shuffle_memory_used: int = Field(default=0, serialization_alias="nettyShuffleMemoryUsed")
    shuffle_memory_total: int = Field(default=0, serialization_alias="nettyShuffleMemoryTotal")
    garbage_collectors: list[Any] = Field(default=[], serialization_alias="garbageCollectors")


class TaskManagerDetailsInfo(TaskManagerInfo):
    """A TaskManager with the slots that jobs have."""

    allocated_slots: list[AllocatedSlotInfo] = Field(serialization_alias="allocatedSlots")
    metrics: TaskManagerMetricsInfo = Field(default=TaskManagerMetricsInfo())


async def _heartbeats_of(request: Request, services: ServicesOfRequest) -> Heartbeats:
    """Return what was heard; an answer that has it is not of a state alone."""
    note_state(request, None)
    return services.heartbeats


HeartbeatsOfRequest = Annotated[Heartbeats, Depends(_heartbeats_of)]


@router.get("/taskmanagers")
async def task_managers_info(reads: ReadsOfRequest, heartbeats: HeartbeatsOfRequest) -> TaskManagersInfo:
    """Return every registered TaskManager."""
    rows = (await reads.state(task_managers)).task_managers
    return TaskManagersInfo(taskmanagers=[TaskManagerInfo(**_fields_of(row, heartbeats)) for row in rows])


@router.get("/taskmanagers/{taskmanagerid}")
async def task_manager_details(taskmanagerid: str, reads: ReadsOfRequest, heartbeats: HeartbeatsOfRequest) -> TaskManagerDetailsInfo:
    """Return one TaskManager."""
    row = await reads.state(lambda fold: task_manager(fold, taskmanagerid))
    slots = [_slot_info(slot.attempts, row.slot_profile) for slot in row.slot_states if slot.attempts]
    return TaskManagerDetailsInfo(**_fields_of(row, heartbeats), allocated_slots=slots)


def resource_info(profile: ResourceProfile | None, slots: int) -> ResourceProfileInfo:
    """Return what so many slots of a profile have together; network memory is none of its parts."""
    if profile is None:
        return ResourceProfileInfo()
    extended: Counter[str] = Counter()
    for each in profile.extended_resources:
        extended[each.name] += slots * each.amount
    return ResourceProfileInfo(
        cpu_cores=slots * profile.cpu_millicores / _MILLI,
        task_heap_memory=slots * profile.task_heap_bytes // _MEBIBYTE,
        task_off_heap_memory=slots * profile.task_off_heap_bytes // _MEBIBYTE,
        managed_memory=slots * profile.managed_bytes // _MEBIBYTE,
        network_memory=0,
        extended_resources={name: float(amount) for name, amount in extended.items()},
    )


def _hardware_of(row: CountedTaskManager) -> HardwareDescription:
    known, profile = row.hardware, row.slot_profile
    managed = row.slots * profile.managed_bytes if profile is not None else NONE
    if known is None:
        return HardwareDescription(managed_memory=managed)
    return HardwareDescription(
        cpu_cores=known.cpu_cores,
        physical_memory=known.physical_bytes,
        free_memory=known.available_bytes,
        managed_memory=managed,
    )


def _fields_of(row: CountedTaskManager, heartbeats: Heartbeats) -> dict[str, Any]:
    """Return the fields of a row from that of a view."""
    heard_ms = heartbeats.newest_of(row.instance_id) or 0
    return {
        "id": row.task_manager_id,
        "path": f"{row.host}:{row.process_id}",
        "time_since_last_heartbeat": max(heard_ms, epoch_ms(row.registered_at)),
        "slots_number": row.slots,
        "free_slots": row.slots_free,
        "assigned_tasks": row.tasks,
        "total_resource": resource_info(row.slot_profile, row.slots),
        "free_resource": resource_info(row.slot_profile, row.slots_free),
        "hardware": _hardware_of(row),
        "blocked": row.blocked,
    }


def _slot_info(attempts: Sequence[AttemptId], profile: ResourceProfile | None) -> AllocatedSlotInfo:
    return AllocatedSlotInfo(job_id=attempts[0].job_id, resource=resource_info(profile, 1), assigned_tasks=len(attempts))
