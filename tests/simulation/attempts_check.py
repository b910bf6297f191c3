"""Counts the attempts that are really alive (P15, P17): from the launch of a process until it is reaped and runs nothing on Spark."""

from eventflink.events.effects import TaskDeployment
from eventflink.model.attempts import AttemptId, SubtaskId
from eventflink.testing.simulation.observers import AttemptHost, AttemptObserver
from eventflink.testing.simulation.transcript import Transcript
from eventflink.testing.simulation.violations import Invariant, ViolationFound
from tests.simulation.observer import Observer


class AttemptsCheck(AttemptObserver):
    """All live attempts of a run."""

    def __init__(self, observer: Observer, transcript: Transcript) -> None:
        self._observer = observer
        self._transcript = transcript
        self._launched: set[AttemptId] = set()
        self._live: dict[SubtaskId, dict[AttemptId, AttemptHost]] = {}
        self.excused = 0

    def began(self, deployment: TaskDeployment, host: AttemptHost) -> None:
        """Take note of a launch.

        Raises:
            ViolationFound: it must not have been.

        """
        attempt = deployment.attempt_id
        self._transcript.note(host.name, f"launches {attempt}")
        if attempt not in self._observer.ledger.slots_of_attempts:
            raise ViolationFound(Invariant.EFFECT_OF_ACCEPTED, f"{host.name} runs {attempt}, which no accepted decision deploys")
        if attempt in self._launched:
            raise ViolationFound(Invariant.ONE_LIVE_ATTEMPT, f"{host.name} runs {attempt}, which was launched before")
        self._launched.add(attempt)
        for each in deployment.inputs:
            unknown = {read.location for read in each.locations} - self._observer.ledger.outputs
            if unknown or (each.locations_id and not each.locations):
                what = f"of which {sorted(unknown)} were never accepted" if unknown else "none of whose locations it knows"
                raise ViolationFound(Invariant.EFFECT_OF_ACCEPTED, f"{host.name} runs {attempt} on the input {each.input_name}, {what}")
        others = self._live.setdefault(SubtaskId(*attempt[:3]), {})
        for other, where in list(others.items()):
            if host.is_frozen_past_fence() or where.is_frozen_past_fence():
                self.excused += 1
                self._transcript.note(host.name, f"{attempt} begins while {other} lives on {where.name}, which was frozen past its fence")
                continue
            if where.is_fenced_without_spark(other):
                self.abandoned(other)
                continue
            raise ViolationFound(Invariant.ONE_LIVE_ATTEMPT, f"{attempt} begins on {host.name} while {other} is alive on {where.name}")
        others[attempt] = host

    def ended(self, attempt: AttemptId) -> None:
        """Take note that nothing of an attempt is left that anybody could end."""
        host = self._live.get(SubtaskId(*attempt[:3]), {}).pop(attempt, None)
        if host is not None:
            self._transcript.note(host.name, f"nothing is left of {attempt}")

    def abandoned(self, attempt: AttemptId) -> None:
        """Take note that what an attempt runs on Spark was given up: nobody reaches it, and it ends by itself (P15)."""
        if attempt in self._live.get(SubtaskId(*attempt[:3]), {}):
            self._transcript.note("spark", f"cannot be told to end {attempt}")
            self.ended(attempt)

    def live(self) -> list[AttemptId]:
        """Return every attempt that is alive."""
        return [attempt for attempts in self._live.values() for attempt in attempts]
