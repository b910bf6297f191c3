"""The protocol of a TaskExecutor as a sans-I/O machine: inputs with their time go in, actions come out.

No clock, no randomness, no I/O: `executor.py` drives it with Kafka and processes, a simulation drives it with a seed. It imports the
model, the events and `process_events` only. `main_loop.py` is what a driver drives, `machine.py` the life of the TaskExecutor
(registration, heartbeats, fences, leaders), `attempts.py` what it runs for one instance, `actions.py` what it wants done, `records.py` what
its records are as bytes.
"""

from eventflink.taskexecutor.protocol.actions import (
    Action,
    DriverAction,
    EndForkServer,
    Input,
    InstanceStarted,
    NewInstanceNeeded,
    ProtocolSettings,
    SendHeartbeat,
    SendReports,
    StartForkServer,
    Stopped,
    UploadFile,
)
from eventflink.taskexecutor.protocol.machine import Phase, TaskExecutorProtocol
from eventflink.taskexecutor.protocol.main_loop import MainLoop

__all__ = [
    "Action",
    "DriverAction",
    "EndForkServer",
    "Input",
    "InstanceStarted",
    "MainLoop",
    "NewInstanceNeeded",
    "Phase",
    "ProtocolSettings",
    "SendHeartbeat",
    "SendReports",
    "StartForkServer",
    "Stopped",
    "TaskExecutorProtocol",
    "UploadFile",
]
