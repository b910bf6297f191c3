"""The protocol of a TaskExecutor as a sans-I/O machine: inputs with their time go in, actions come out.

No clock, no randomness, no I/O: `executor.py` drives it with Kafka and processes, a simulation drives it with a seed. It imports the
model, the events and `process_events` only. `machine.py` is the life of the TaskExecutor (registration, beats, fences, leaders),
`attempts.py` what it runs for one instance, `actions.py` what it wants done.
"""

from eventflink.taskexecutor.protocol.actions import (
    Action,
    EndForkServer,
    NewInstanceNeeded,
    ProtocolSettings,
    SendHeartbeat,
    SendReports,
    StartForkServer,
    Stopped,
    SubmitOrder,
    UploadFile,
)
from eventflink.taskexecutor.protocol.machine import Phase, TaskExecutorProtocol

__all__ = [
    "Action",
    "EndForkServer",
    "NewInstanceNeeded",
    "Phase",
    "ProtocolSettings",
    "SendHeartbeat",
    "SendReports",
    "StartForkServer",
    "Stopped",
    "SubmitOrder",
    "TaskExecutorProtocol",
    "UploadFile",
]
