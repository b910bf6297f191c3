"""The Master: the state of a cluster, and every rule of how it changes.

    decide(input, now)      reads the state, returns events, changes nothing
    apply(event, at)        changes the state by one event, decides nothing
    apply_causes(causes)    moves the cursors behind the inputs that an accepted decision answers

The state is the fold of `apply` over the accepted decisions of the log, and nothing else. No I/O, no clock, no randomness: times
and ids come with the input and are written into the events.

Methods are found by name. An input `CancelJob` is decided by the one method or function `decide_cancel_job`, of a component or of a module
of `RULES`. A name may be an alias of another method (`decide_heartbeat_timeout = decide_disconnection`): search for it without `def`.

An event `JobEvicted` is first checked by every `check_job_evicted` of the components, and then replayed by every `apply_job_evicted`, in
the order of the components: so that one that is refused has changed nothing. A component that is not the first to replay an event may
refuse it only in the check. An event with a `job_id` is replayed by the JobMaster of that job as well, before the Dispatcher.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from eventflink.events import log_events as e
from eventflink.events.decision import Cause, InputCause
from eventflink.events.inputs import Request
from eventflink.events.log_events import LogEvent
from eventflink.master import (
    active_resource_manager,
    adaptive_scheduler,
    checkpoint_coordinator,
    failover,
    follow_up_rules,
    parking,
    reclaiming,
    request_guards,
    rescaling,
    schedule_firing,
    shutdown_steps,
    slot_failures,
    suspend_resume,
    task_executor_reports,
    time_limits,
    timers,
)
from eventflink.master.inputs import INPUT_CLASSES, MasterInput
from eventflink.master.job_master import JobMaster
from eventflink.master.settings import Context, MasterSettings
from eventflink.master.state import ClusterState

RULES: Final = (
    active_resource_manager,
    adaptive_scheduler,
    checkpoint_coordinator,
    failover,
    follow_up_rules,
    parking,
    reclaiming,
    rescaling,
    schedule_firing,
    shutdown_steps,
    slot_failures,
    suspend_resume,
    task_executor_reports,
    time_limits,
    timers,
)
"""Where inputs are decided that concern more than one component: functions of the state, the input and the context."""

FOR_THE_RECORD: Final = (e.InputsSkipped, e.RequestRepeated, e.TaskManagerRegistrationRefused, e.DrillStepOrdered)
"""Events that change nothing: they are in the log for its readers, or for their effects."""

Decider = Callable[[Any, Context], list[LogEvent]]
Replay = Callable[[Any, int], None]


class Master(ClusterState):
    """A state with its rules."""

    __slots__ = ("_deciders", "replays", "settings")

    def __init__(self, settings: MasterSettings) -> None:
        """Start from nothing: the state before the first record of the log."""
        super().__init__()
        self.settings = settings
        self._deciders = {cls: self._decider_of(name) for cls, name in names_of(INPUT_CLASSES)}
        self.replays: Mapping[type[LogEvent], tuple[Replay, ...]] = {
            cls: self._replays_of(cls, name) for cls, name in names_of(e.EVENTS.values())
        }
        """What `apply` calls for an event, one after the other."""

    # -- decide ---------------------------------------------------------------------------------------------------

    def decide(self, value: MasterInput, now_ms: int, leader_id: str = "") -> list[LogEvent]:
        """Return what the input leads to, under the leader with this fencing token. The state stays as it is.

        Every input from a topic leads to at least one event (P7); an internal input may lead to none.
        """
        context = Context(self.settings, now_ms, leader_id)
        if isinstance(value, Request) and (refused := request_guards.refuse(self, value, context)):
            return refused
        return self._deciders[type(value)](value, context)

    def due(
        self,
        now_ms: int,
        leading_since_ms: int,
        decided: timers.DecidedUntil | None = None,
        may_ask: Callable[[str], bool] = lambda _name: True,
    ) -> Iterator[MasterInput]:
        """Yield the internal inputs that are due: by the state, the settings, the time, and since when this master leads.

        Until `decided` all inputs that were there are decided; None: until now. Before it is asked whether one is due, `may_ask`
        is called with its name; where that may not be asked, it is yielded.
        """
        until = timers.DecidedUntil(now_ms, now_ms) if decided is None else decided
        context = Context(self.settings, now_ms)
        return timers.due(self, context, leading_since_ms, until, lambda value: self.decide(value, now_ms), may_ask)

    def _decider_of(self, name: str) -> Decider:
        method = f"decide_{name}"
        found = [_decider(getattr(getattr(self, part), method)) for part in _parts_with(method)]
        found += [_decider(getattr(module, method), self) for module in RULES if method in vars(module)]
        if len(found) != 1:
            raise TypeError(f"{method}: an input is decided in one place, not in {len(found)}")
        return found[0]

    # -- apply ----------------------------------------------------------------------------------------------------

    def apply(self, event: LogEvent, at_ms: int) -> None:
        """Change the state by one event of an accepted decision, made at `at_ms` of the log's clock.

        Raises:
            IllegalTransition: the event does not fit the state, which stays as it was.

        """
        for replay in self.replays[type(event)]:
            replay(event, at_ms)

    def apply_causes(self, causes: Iterable[Cause]) -> None:
        """Move the cursors behind the inputs that a decision answers (P6)."""
        for cause in causes:
            if type(cause) is InputCause:
                self.requests.advance(cause.topic, cause.first_offset, cause.last_offset)

    def _replays_of(self, cls: type[Any], name: str) -> tuple[Replay, ...]:
        """Return what checks an event and then what replays it, each in the order of the components."""
        check, apply = f"check_{name}", f"apply_{name}"
        steps = [_replay(getattr(getattr(self, part), check)) for part in _parts_with(check)]
        for part in _parts_with(apply):
            if part == "dispatcher" and (in_job := getattr(JobMaster, apply, None)) is not None:
                steps.append(self._replay_in_job(in_job))
            if (replay := getattr(getattr(self, part), apply, None)) is not None:
                steps.append(_replay(replay))
        if not steps and cls not in FOR_THE_RECORD:
            raise TypeError(f"no component replays {cls.__name__}")
        return tuple(steps)

    def _replay_in_job(self, method: Callable[..., None]) -> Replay:
        dispatcher = self.dispatcher

        def at_a_time(event: Any, at_ms: int) -> None:
            method(dispatcher.jobs.get(event.job_id) or dispatcher.job(event.job_id), event, at_ms)

        def at_any_time(event: Any, _at_ms: int) -> None:
            method(dispatcher.jobs.get(event.job_id) or dispatcher.job(event.job_id), event)

        return at_a_time if _parameter_count(method) == _WITH_THE_LAST else at_any_time


_WITH_THE_LAST: Final = 3
"""Parameters of a method or rule that takes the time or the context: the component or the state, the event or the input, and that."""


_PARTS: Final = {part: type(component) for part, component in ClusterState().components().items()}


@functools.cache
def _parts_with(method: str) -> tuple[str, ...]:
    """Return the components that have a method, in their order; what JobMasters have, the Dispatcher has. Classes stay as they are."""
    in_jobs = {"dispatcher"} if method.startswith("apply_") and hasattr(JobMaster, method) else set()
    return tuple(part for part, cls in _PARTS.items() if part in in_jobs or hasattr(cls, method))


def names_of(classes: Iterable[type[Any]]) -> Iterator[tuple[type[Any], str]]:
    """Yield the classes, each with the name that its methods go by: `JobEvicted`, `job_evicted`."""
    for cls in classes:
        yield cls, _name_of(cls.__name__)


@functools.cache
def _name_of(class_name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


def _decider(function: Callable[..., list[LogEvent]], *state: ClusterState) -> Decider:
    if _parameter_count(function) == _WITH_THE_LAST:
        return functools.partial(function, *state)
    return lambda value, _context: function(*state, value)


def _replay(method: Callable[..., None]) -> Replay:
    if _parameter_count(method) == _WITH_THE_LAST:
        return method
    return lambda event, _at_ms: method(event)


def _parameter_count(function: Any) -> int:
    """Return how many parameters a function or a bound method has; `self` counts."""
    count: int = function.__code__.co_argcount
    return count
