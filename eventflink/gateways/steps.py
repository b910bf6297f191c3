"""What a gateway's method does, step by step, without doing it: the core of the blocking and of the `asyncio` gateways.

A method is a generator that yields steps (ask this master, send that request, pause) and is given what came of each, or its error.
Who drives it performs the steps: `blocking.py` in the calling thread, `async_gateways.py` in an event loop, and tests on a virtual clock.
So there is one place for every retry, deadline and back-off.
"""

import random
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from eventflink.gateways.errors import GatewayError

if TYPE_CHECKING:
    from eventflink.events.inputs import Command, Request
    from eventflink.gateways.request_channel import Accepted
    from eventflink.gateways.rest_process import RestProcess

FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 2.0
"""Between tries while nobody answers; of each, a random part of up to half is left out."""

T = TypeVar("T")
Steps = Generator["Step", Any, T]
Parameters = dict[str, str | int | list[str]]


@dataclass(frozen=True, slots=True)
class Get:
    """Read from one master; gives its JSON object. Errors: MasterSilent."""

    query_address: str
    path: str
    parameters: Parameters
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AskRest:
    """Ask a REST process for the state; gives its JSON object. Errors: RestSilent, NothingThere, QuestionInvalid, ArchiveUnusable."""

    rest: "RestProcess"
    path: str
    parameters: Parameters
    timeout_s: float


@dataclass(frozen=True, slots=True)
class FoldLog:
    """Fold the log here; gives what a REST process would. Errors: those of `StateReads.read`."""

    path: str
    parameters: Parameters
    timeout_s: float
    """How long Kafka is waited for."""
    wait_s: float
    """How long the question waits itself."""


@dataclass(frozen=True, slots=True)
class FindMasters:
    """Look on `leadership` for masters; gives a list of KnownMaster. Errors: ClusterUnreachable, ClusterNotFound."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class ListenForLeader:
    """Listen on `leadership` for a heartbeat; gives it, or None. Errors: ClusterUnreachable, ClusterNotFound."""

    timeout_s: float
    watch: Any = field(repr=False)
    """What earlier looks have seen (`leader.LeaderWatch`)."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a while; gives None."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request, again and again under the same id, until it is answered; gives Accepted. Errors: RequestRefused, RequestTimedOut."""

    request: "Request"


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a command that wants no answer; gives its request id once Kafka has it. Errors: GatewayError."""

    command: "Command"


@dataclass(frozen=True, slots=True)
class AwaitUpload:
    """Follow the log from an accepted RequestFileUpload on; gives `FileUploaded`, or None when the time is over."""

    accepted: "Accepted"
    timeout_s: float


@dataclass(frozen=True, slots=True)
class AwaitCheckpoint:
    """Follow the log from an accepted TriggerCheckpoint or TriggerSavepoint on.

    Gives `CheckpointCompleted`, `CheckpointAborted`, or None: the time is over.
    """

    accepted: "Accepted"
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Work:
    """Do what takes a while where the caller is, such as reading and writing files; gives what the call returns, its errors come out."""

    call: Callable[[], Any]


Step = AskRest | FoldLog | Get | FindMasters | ListenForLeader | Pause | Ask | Tell | AwaitUpload | AwaitCheckpoint | Work


def random_fraction() -> float:
    """Return a number from 0 to 1: it spreads load, and hides nothing."""
    return random.random()  # noqa: S311 - see above


def ask(request: "Request") -> "Steps[Accepted]":
    """Have a request done."""
    accepted: Accepted = yield Ask(request)
    return accepted


def tell(command: "Command") -> Steps[str]:
    """Send a command that wants no answer; give its request id."""
    request_id: str = yield Tell(command)
    return request_id


def work(call: Callable[[], T]) -> Steps[T]:
    """Have a call done that takes a while; give what it returns."""
    done: T = yield Work(call)
    return done


def drive(steps: Steps[T], perform: Callable[[Step], Any]) -> T:
    """Take every step, and return what the steps lead to; their errors come out."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = perform(step)
            except GatewayError as error:
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


async def drive_async(steps: Steps[T], perform: Callable[[Step], Awaitable[Any]]) -> T:
    """Take every step as `drive` does, in an event loop; cancelled, it leaves the step that is under way and takes no other."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = await perform(step)
            except GatewayError as error:
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()
