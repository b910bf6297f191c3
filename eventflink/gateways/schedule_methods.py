"""Schedules for callers: make them, pause them, fire them, back-fill them, and ask what became of their instants."""

from collections.abc import Mapping
from typing import Unpack

from eventflink.documents.plain import parse
from eventflink.documents.schedules import ScheduleDetails, ScheduleList
from eventflink.events.inputs import (
    CancelBackfill,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    PutSchedule,
    ResumeSchedule,
    StartBackfill,
)
from eventflink.gateways.errors import InvalidParameters, UnknownSchedule
from eventflink.gateways.gateway import CommandOptions, Gateway, Header, header, method
from eventflink.gateways.request_channel import Accepted
from eventflink.gateways.rest_process import NothingThere
from eventflink.gateways.steps import Steps, ask
from eventflink.model.job_graph import ParameterValue
from eventflink.model.job_parameters import given_values
from eventflink.model.schedules import ScheduleDefinition


def parameters_of(values: Mapping[str, object]) -> tuple[ParameterValue, ...]:
    """Return what a request says the parameters of a job are to be.

    Raises:
        InvalidParameters: one is nothing that a parameter may be.

    """
    try:
        return given_values(values)
    except ValueError as error:
        raise InvalidParameters(InvalidParameters.__name__, f"parameters: {error}") from error


class ScheduleMethods(Gateway):
    """Requests about the schedules of one cluster; raises as the Dispatcher's methods do, and `UnknownSchedule`."""

    actor: str = ""
    """Who asks, where a request names nobody."""

    def _header(self, options: CommandOptions) -> Header:
        options.setdefault("actor", self.actor)
        return header(**options)

    def _put_schedule(self, schedule_id: str, definition: ScheduleDefinition, options: CommandOptions) -> Steps[Accepted]:
        return ask(PutSchedule(schedule_id=schedule_id, definition=definition, **self._header(options)))

    @method
    def delete_schedule(self, schedule_id: str, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Remove a schedule; the jobs that it started run on."""
        return ask(DeleteSchedule(schedule_id=schedule_id, **self._header(options)))

    @method
    def pause_schedule(self, schedule_id: str, reason: str = "", **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Start no jobs for the instants of a schedule until it is resumed."""
        return ask(PauseSchedule(schedule_id=schedule_id, reason=reason, **self._header(options)))

    @method
    def resume_schedule(self, schedule_id: str, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """Start jobs again, from the next instant on."""
        return ask(ResumeSchedule(schedule_id=schedule_id, **self._header(options)))

    @method
    def fire_schedule(
        self,
        schedule_id: str,
        job_id: str,
        instant_ms: int | None = None,
        parameters: Mapping[str, object] | None = None,
        **options: Unpack[CommandOptions],
    ) -> Steps[Accepted]:
        """Start the job of a schedule now, for a time in milliseconds since 1970 (None: now), whatever else runs of it.

        Raises:
            InvalidParameters: the job has no such parameter, or a value is none of its type.
            DuplicateJobSubmission: there was a job of this id.

        """
        values = parameters_of(parameters or {})
        return ask(FireSchedule(schedule_id=schedule_id, job_id=job_id, instant_ms=instant_ms, parameters=values, **self._header(options)))

    @method
    def start_backfill(
        self,
        schedule_id: str,
        first_ms: int,
        end_ms: int,
        concurrency: int = 1,
        *,
        newest_first: bool = False,
        repeats_finished: bool = False,
        **options: Unpack[CommandOptions],
    ) -> Steps[Accepted]:
        """Start the jobs of the instants from `first_ms` up to, without, `end_ms`, at most `concurrency` at once.

        Instants whose job has finished are left out, unless `repeats_finished`.

        Raises:
            RequestRefused: with the code `BackfillInProgress` or `NothingToBackfill`.

        """
        return ask(
            StartBackfill(
                schedule_id=schedule_id,
                first_ms=first_ms,
                end_ms=end_ms,
                concurrency=concurrency,
                newest_first=newest_first,
                repeats_finished=repeats_finished,
                **self._header(options),
            )
        )

    @method
    def cancel_backfill(self, schedule_id: str, **options: Unpack[CommandOptions]) -> Steps[Accepted]:
        """End the back-fill of a schedule, and cancel its jobs that run."""
        return ask(CancelBackfill(schedule_id=schedule_id, **self._header(options)))

    @method
    def schedules(self) -> Steps[ScheduleList]:
        """Return all schedules, in the order in which they were made."""
        answer = yield from self._reads.read("/schedules")
        return parse(ScheduleList, answer["schedules"])

    @method
    def schedule(self, schedule_id: str) -> Steps[ScheduleDetails]:
        """Return a schedule, with its next instants and what became of the last ones."""
        try:
            answer = yield from self._reads.read(f"/schedules/{schedule_id}")
        except NothingThere as error:
            raise UnknownSchedule("UnknownSchedule", str(error)) from error
        return parse(ScheduleDetails, answer["schedule"])
