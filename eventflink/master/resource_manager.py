"""The ResourceManager: which TaskManagers there are, under which instance, and which instances are gone for good.

An instance that was lost never comes back (P12): its tasks are failed, and only a new instance id is registered again. A
registration that comes late, of an instance whose successor is registered already, does not replace the successor: instances of one
TaskManager are ordered by when they began, by their own host's clock.
"""

from dataclasses import dataclass, field

from eventflink.events.inputs import Disconnection, SlotReport, TaskManagerDeath, TaskManagerRegistration
from eventflink.events.log_events import (
    InputsSkipped,
    LogEvent,
    SparkEnded,
    TaskManagerDisconnected,
    TaskManagerLost,
    TaskManagerRegistered,
    TaskManagerRegistrationRefused,
    TaskManagerReleased,
    WorkerRequested,
)
from eventflink.events.topics import MAX_DEPLOYMENT_PARTITIONS
from eventflink.master.canonical import require
from eventflink.master.inputs import HeartbeatTimeout
from eventflink.model.configuration import ID_PATTERN
from eventflink.model.resources import MAX_AMOUNT, Hardware, InvalidResources, ResourceProfile, checked_profile
from eventflink.model.spark_ends import SparkEnd
from eventflink.model.spark_engines import MAX_ADDRESS_LENGTH, MAX_ENGINES, SparkAddress
from eventflink.model.statuses import IllegalTransition
from eventflink.model.texts import cut_bytes

MAX_SLOTS = 1_024
MAX_GONE_INSTANCES = 10_000
MAX_HOST_LENGTH = 255
MAX_REASON_LENGTH = 1_024
"""Of what an instance, or its guardian, says of its end: every attempt that ends with it repeats that."""
MAX_METRICS_ADDRESS_LENGTH = 300


@dataclass(slots=True)
class TaskManager:
    """One registered TaskManager."""

    instance_id: str
    host: str
    process_id: int
    slot_count: int
    registered_at_ms: int
    begun_at_ms: int = 0
    """By the clock of its host; 0 where it was not said."""
    slot_profile: ResourceProfile | None = None
    """What each of its slots has; None: it was not said."""
    metrics_address: str = ""
    """Where it serves its metrics; empty: nowhere, or it was not said."""
    hardware: Hardware | None = None
    """What its host has; None: it was not said."""
    spark_ends: int = 0
    """How often the Spark of its host ended by itself."""
    spark_end: SparkEnd | None = None
    """The last of these ends."""
    deployment_partition: int = 0
    """Which partition of `deployments` it reads."""


@dataclass(slots=True)
class ResourceManager:
    """All registered TaskManagers."""

    task_managers: dict[str, TaskManager] = field(default_factory=dict)
    gone_instances: dict[str, str] = field(default_factory=dict)
    """Instances that ended, with the reason; the oldest are forgotten."""
    deployment_partitions: int = 0
    """So many partitions of `deployments` are read for all that is known: the last one that an instance has named, and those before."""

    def is_current(self, task_manager_id: str, instance_id: str) -> bool:
        """Tell whether the instance is the registered one."""
        known = self.task_managers.get(task_manager_id)
        return known is not None and known.instance_id == instance_id

    def partition_of(self, task_manager_id: str) -> int:
        """Return which partition of `deployments` the registered instance of a TaskManager reads; the first where none is registered."""
        known = self.task_managers.get(task_manager_id)
        return known.deployment_partition if known is not None else 0

    def decide_registration(self, registration: TaskManagerRegistration) -> list[LogEvent]:
        """Register an instance; an older one of the same TaskManager is lost first."""
        if reason := self.gone_instances.get(registration.instance_id) or _find_fault(registration):
            return [refused(registration, reason)]
        try:
            profile = checked_profile(registration.slot_profile)
        except InvalidResources as error:
            return [refused(registration, f"its slot profile: {error}")]
        name, instance_id = registration.task_manager_id, registration.instance_id
        known = self.task_managers.get(name)
        if known is not None and 0 < registration.begun_at_ms < known.begun_at_ms:
            later_ms = known.begun_at_ms - registration.begun_at_ms
            return [refused(registration, f"the instance {known.instance_id}, which began {later_ms} ms later, is registered")]
        place = (name, instance_id, registration.host, registration.process_id)
        if known is not None and known.instance_id == instance_id:
            said = (known.begun_at_ms, known.slot_profile, known.metrics_address, known.hardware)
            repeated = (registration.number, registration.spark_addresses, known.deployment_partition)
            return [TaskManagerRegistered(*place, known.slot_count, *said, *repeated)]
        address = registration.metrics_address[:MAX_METRICS_ADDRESS_LENGTH]
        said = (registration.begun_at_ms, profile, address, registration.hardware)
        more = (registration.number, registration.spark_addresses, registration.deployment_partition)
        registered = TaskManagerRegistered(*place, registration.slot_count, *said, *more)
        if known is None:
            return [registered]
        reason = f"replaced by its new instance {instance_id}"
        return [TaskManagerLost(name, known.instance_id, reason, known.deployment_partition), registered]

    def decide_disconnection(self, departure: Disconnection | TaskManagerDeath | HeartbeatTimeout) -> list[LogEvent]:
        """Remove an instance: it signed off, its guardian reported its death, or it was silent for too long."""
        if not self.is_current(departure.task_manager_id, departure.instance_id):
            name = departure.task_manager_id[:MAX_REASON_LENGTH]
            return [InputsSkipped(1, f"{type(departure).__name__} of {name}: that instance is not registered")]
        ids, partition = (departure.task_manager_id, departure.instance_id), self.partition_of(departure.task_manager_id)
        if isinstance(departure, HeartbeatTimeout):
            return [TaskManagerLost(*ids, f"no heartbeat for {departure.silence_ms} ms", partition)]
        reason = cut_bytes(departure.reason, MAX_REASON_LENGTH)
        is_in_order = isinstance(departure, Disconnection)
        return [TaskManagerDisconnected(*ids, reason) if is_in_order else TaskManagerLost(*ids, reason, partition)]

    decide_task_manager_death = decide_heartbeat_timeout = decide_disconnection

    def decide_foreign_report(self, report: SlotReport) -> list[LogEvent]:
        """Answer the report of an instance that is not registered: it has to come back as a new one."""
        return [refused(report, self.gone_instances.get(report.instance_id, "it is not registered"))]

    def judge_spark(self, report: SlotReport) -> list[LogEvent]:
        """Take note of an end of the host's Spark that a registered instance had not told before."""
        end = report.spark_end
        known = self.task_managers[report.task_manager_id].spark_end
        if end is None or not 0 <= end.ended_at_ms <= MAX_AMOUNT or (known is not None and end.ended_at_ms <= known.ended_at_ms):
            return []
        return [SparkEnded(report.task_manager_id, report.instance_id, end.ended_at_ms, cut_bytes(end.reason, MAX_REASON_LENGTH))]

    def apply_spark_ended(self, event: SparkEnded) -> None:
        """Remember the last one, and count them."""
        if not self.is_current(event.task_manager_id, event.instance_id):
            raise IllegalTransition(f"{event.task_manager_id}: the instance {event.instance_id} is not registered")
        known = self.task_managers[event.task_manager_id]
        known.spark_ends += 1
        known.spark_end = SparkEnd(event.ended_at_ms, event.reason)

    def apply_task_manager_registered(self, event: TaskManagerRegistered, at_ms: int) -> None:
        """Take note of an instance; registered again, nothing changes."""
        known = self.task_managers.get(event.task_manager_id)
        if known is not None and known.instance_id != event.instance_id:
            raise IllegalTransition(f"{event.task_manager_id} is registered as instance {known.instance_id}")
        if event.instance_id in self.gone_instances:
            raise IllegalTransition(f"{event.task_manager_id}: the instance {event.instance_id} is gone for good")
        if not 1 <= event.slot_count <= MAX_SLOTS:
            raise IllegalTransition(f"{event.task_manager_id} cannot have {event.slot_count} slots")
        if not _is_partition(event.deployment_partition):
            raise IllegalTransition(f"{event.task_manager_id} cannot read partition {event.deployment_partition} of deployments")
        if not self.is_current(event.task_manager_id, event.instance_id):
            self.task_managers[event.task_manager_id] = TaskManager(
                event.instance_id,
                event.host,
                event.process_id,
                event.slot_count,
                at_ms,
                event.begun_at_ms,
                event.slot_profile,
                event.metrics_address,
                event.hardware,
                deployment_partition=event.deployment_partition,
            )
            self.deployment_partitions = max(self.deployment_partitions, event.deployment_partition + 1)

    def check_worker_requested(self, event: WorkerRequested) -> None:
        """Raise `IllegalTransition` where a TaskManager is registered under the id of a new worker."""
        if event.worker_id in self.task_managers:
            raise IllegalTransition(f"{event.worker_id} is a registered TaskManager")

    def apply_task_manager_lost(self, event: TaskManagerLost | TaskManagerDisconnected | TaskManagerReleased) -> None:
        """Forget the TaskManager; remember that this instance is gone."""
        if not self.is_current(event.task_manager_id, event.instance_id):
            raise IllegalTransition(f"{event.task_manager_id}: the instance {event.instance_id} is not registered")
        del self.task_managers[event.task_manager_id]
        self.gone_instances[event.instance_id] = f"{type(event).__name__}: {event.reason}"
        while len(self.gone_instances) > MAX_GONE_INSTANCES:
            del self.gone_instances[next(iter(self.gone_instances))]

    apply_task_manager_disconnected = apply_task_manager_released = apply_task_manager_lost

    def validate(self) -> None:
        """Check that no registered instance is one that is gone."""
        for task_manager_id, task_manager in self.task_managers.items():
            require(task_manager.instance_id not in self.gone_instances, f"{task_manager_id} is registered under an instance that is gone")
            partition = task_manager.deployment_partition
            require(0 <= partition < self.deployment_partitions, f"{task_manager_id} reads partition {partition}, which is not known")


def refused(message: TaskManagerRegistration | SlotReport, reason: str) -> TaskManagerRegistrationRefused:
    """Return that an instance is not one of the cluster's."""
    partition = message.deployment_partition if _is_partition(message.deployment_partition) else 0
    return TaskManagerRegistrationRefused(message.task_manager_id, message.instance_id, reason, partition)


def _is_partition(number: int) -> bool:
    return 0 <= number < MAX_DEPLOYMENT_PARTITIONS


def _find_fault(registration: TaskManagerRegistration) -> str:
    """Return what is wrong with a registration, or nothing.

    Ids are bounded because events of the master's own repeat them, one for each slot: what those say has to fit into a decision.
    """
    for name, value in (("id", registration.task_manager_id), ("instance id", registration.instance_id)):
        if not ID_PATTERN.fullmatch(value):
            rule = "letters, digits, '.', '_' and '-', at most 128, beginning with a letter or digit"
            return f"a TaskManager needs an {name} of {rule}, not '{value[:200]}'"
    if len(registration.host) > MAX_HOST_LENGTH:
        return f"its host has {len(registration.host)} characters; it may have {MAX_HOST_LENGTH}"
    if not 1 <= registration.slot_count <= MAX_SLOTS:
        return f"a TaskManager needs 1 to {MAX_SLOTS} slots, not {registration.slot_count}"
    if not _is_partition(registration.deployment_partition):
        return f"its partition of deployments is {registration.deployment_partition}, not 0 to {MAX_DEPLOYMENT_PARTITIONS - 1}"
    hardware = registration.hardware
    for amount in (hardware.cpu_cores, hardware.physical_bytes, hardware.available_bytes) if hardware is not None else ():
        if not 0 <= amount <= MAX_AMOUNT:
            return f"its hardware: {amount} is not between 0 and {MAX_AMOUNT}"
    return _find_fault_of_addresses(registration.spark_addresses)


def _find_fault_of_addresses(addresses: tuple[SparkAddress, ...]) -> str:
    """Return what is wrong with where the Sparks of a TaskExecutor are, or nothing: each attempt that runs there repeats it."""
    if len(addresses) > MAX_ENGINES + 1:
        return f"it has {len(addresses)} Sparks elsewhere; it may have {MAX_ENGINES}, and one for tasks that name none"
    for each in addresses:
        if max(len(each.engine), len(each.address)) > MAX_ADDRESS_LENGTH:
            return f"the name or address of a Spark elsewhere has more than {MAX_ADDRESS_LENGTH} characters"
    return ""
