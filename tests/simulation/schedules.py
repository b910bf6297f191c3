"""Schedules in runs: people who make, change, pause, fire and back-fill them, and the judge of what became of each instant.

The judge adds up instants itself, from the definitions that the log has: it uses nothing of what the masters compute.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from eventflink.events import log_events as e
from eventflink.model.schedules import OffsetRange, ScheduleDefinition, VersionRange, count_records
from eventflink.model.statuses import CursorMove, InstantOrigin, JobStatus, OverlapPolicy, RunOutcome, SkipReason
from eventflink.testing.simulation.violations import Invariant, ViolationFound

_SHARE: Final = 0.2
"""Of the runs."""
_IDS: Final = ("early", "late", "often", "after")
_OF_RECORDS: Final = "records"
_RECORDS_SHARE: Final = 0.5
"""Of the runs with schedules: in the others nothing changes by it."""
_RECORDS_ORDERS: Final = 0.4
_OF_VERSIONS: Final = "versions"
_VERSIONS_SHARE: Final = 0.5
"""Likewise."""
_VERSIONS_ORDERS: Final = 0.3
_FILES_SHARE: Final = 0.4
"""Of the runs with schedules: in these half of the schedules at times wait for files."""
_CHANGES_KIND: Final = 0.1
_SCHEDULED: Final = "scheduled"
"""The name of the jobs that schedules start at times; the schedule `after` follows them."""


class ScheduleOwners:
    """People with schedules. Drawn from random numbers of their own."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(f"{seed} schedules")
        self.are_there = self._rng.random() < _SHARE
        self._of_records = Random(f"{seed} records")
        self._take_records = self._of_records.random() < _RECORDS_SHARE
        self._of_versions = Random(f"{seed} versions")
        self._take_versions = self._of_versions.random() < _VERSIONS_SHARE
        self._of_files = Random(f"{seed} files")
        self._await_files = self._of_files.random() < _FILES_SHARE
        self._of_reruns = Random(f"{seed} reruns of scheduled jobs")
        self._fired = self._rerun = 0

    def next_order(self) -> tuple[str, dict[str, Any]]:
        """Return which schedule an order is about, and what it says."""
        if self._take_records and self._of_records.random() < _RECORDS_ORDERS:
            return _OF_RECORDS, self._order_of_records()
        if self._take_versions and self._of_versions.random() < _VERSIONS_ORDERS:
            return _OF_VERSIONS, self._order_of_versions()
        rng, schedule_id = self._rng, self._rng.choice(_IDS)
        kind = rng.choices(
            ("PutSchedule", "PauseSchedule", "ResumeSchedule", "FireSchedule", "StartBackfill", "CancelBackfill", "DeleteSchedule"),
            (8, 1, 3, 2, 4, 1, 1),
        )[0]
        order: dict[str, Any] = {"type": kind, "schedule_id": schedule_id}
        match kind:
            case "PutSchedule":
                changes_kind = rng.random() < _CHANGES_KIND
                order["definition"] = self._following() if (schedule_id == "after") is not changes_kind else self._definition()
            case "FireSchedule":
                self._fired += 1
                order["job_id"] = f"{schedule_id}-by-hand-{self._fired}"
            case "StartBackfill":
                more = {"concurrency": rng.choice((1, 2)), "newest_first": rng.random() < 0.5, "repeats_finished": rng.random() < 0.3}
                order |= {"first_ms": 0, "end_ms": rng.choice((1_000, 5_000, 9_500)), **more}
        return schedule_id, order

    def _order_of_batches(self, rng: Random, schedule_id: str) -> dict[str, Any]:
        kinds = ("PutSchedule", "PauseSchedule", "ResumeSchedule", "FireSchedule", "DeleteSchedule")
        order: dict[str, Any] = {"type": rng.choices(kinds, (8, 2, 4, 1, 1))[0], "schedule_id": schedule_id}
        if order["type"] == "FireSchedule":
            self._fired += 1
            order["job_id"] = f"{schedule_id}-by-hand-{self._fired}"
        return order

    def _order_of_versions(self) -> dict[str, Any]:
        rng = self._of_versions
        order = self._order_of_batches(rng, _OF_VERSIONS)
        if order["type"] == "PutSchedule":
            number = {"type": "integer", "default": 0}
            job = {
                "name": "of versions",
                "vertices": [{"id": "v0", "python": "jobs:task"}],
                "parameters": {"first": number, "last": number},
            }
            order["definition"] = {
                "versions": {
                    "table": {"path": rng.choice(("/sales", "/sales", "/sales", "/returns"))},
                    "format": "delta",
                    "begin": rng.choice(("earliest", "latest")),
                },
                "overlap": rng.choice(("queue", "queue", "allow")),
                "instant_parameters": {"first": "starting-version", "last": "ending-version"},
                "job": job,
            }
        return order

    def _order_of_records(self) -> dict[str, Any]:
        rng = self._of_records
        order = self._order_of_batches(rng, _OF_RECORDS)
        if order["type"] == "PutSchedule":
            text = {"type": "string", "default": ""}
            job = {"name": "of records", "vertices": [{"id": "v0", "python": "jobs:task"}], "parameters": {"first": text, "end": text}}
            order["definition"] = {
                "records": {
                    "topic": rng.choice(("orders", "orders", "orders", "payments")),
                    "begin": rng.choice(("earliest", "latest")),
                    "at_least": rng.choice((1, 1, 3, 30)),
                    "wait": rng.choice(("0s", "1500ms")),
                    "at_most": rng.choice((30, 50)),
                },
                "overlap": rng.choice(("queue", "queue", "allow")),
                "instant_parameters": {"first": "starting-offsets", "end": "ending-offsets"},
                "job": job,
            }
        return order

    def _definition(self) -> dict[str, Any]:
        rng = self._rng
        strategy = {"type": "fixed-delay", "attempts": 20, "delay_ms": 100}
        job: dict[str, Any] = {"name": _SCHEDULED, "vertices": [{"id": "v0", "python": "jobs:task"}], "restart_strategy": strategy}
        waits: dict[str, Any] = {}
        if self._await_files and self._of_files.random() < 0.5:
            job["parameters"] = {"at": {"type": "timestamp"}}
            within = self._of_files.choice(("1s", "2s", "30s"))
            waits = {"instant_parameters": {"at": "timestamp"}, "wait_for": {"file": "/raw/{at}/_SUCCESS", "within": within}}
        return {
            **waits,
            "interval": rng.choice(("1s", "1500ms", "3s")),
            "jitter": rng.choice(("0s", "0s", "700ms")),
            "overlap": rng.choice(("skip", "queue", "cancel", "allow")),
            "catch_up": rng.choice(("last", "last", "all")),
            "job": job,
        }

    def _following(self) -> dict[str, Any]:
        rng = self._rng
        job = {"name": "following", "vertices": [{"id": "v0", "python": "jobs:task"}]}
        return {
            "after": {"job": _SCHEDULED, "ended": rng.choice(("finished", "any", "any"))},
            "jitter": rng.choice(("0s", "700ms")),
            "overlap": rng.choice(("skip", "queue", "cancel", "allow")),
            "catch_up": rng.choice(("last", "all")),
            "job": job,
        }

    def next_order_in_ms(self) -> float:
        """Return how long these people wait."""
        return 200 + self._rng.random() * 1_500

    def next_rerun(self, ended: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """Return which of these jobs of schedules is run again, as which job."""
        self._rerun += 1
        job_id = f"scheduled-again-{self._rerun}"
        return job_id, {"type": "RerunJob", "rerun_of": self._of_reruns.choice(ended), "job_id": job_id}

    def next_rerun_in_ms(self) -> float:
        """Return how long they wait until they run one again."""
        return 150 + self._of_reruns.random() * 700


@dataclass(slots=True)
class _Known:
    definition: ScheduleDefinition
    next_ms: int | None
    queued: list[int] = field(default_factory=list)
    started: set[str] = field(default_factory=set)
    """Its jobs that have not ended, and reruns of its jobs, those of back-fills aside."""
    backfill_ms: int | None = None
    awaiting: dict[int, InstantOrigin] = field(default_factory=dict)
    """Instants that wait for a file, and why they are to have a job."""
    ends: list[int] = field(default_factory=list)
    """Instants that the ends of runs have made, and that are not decided."""
    topic_id: str = ""
    """Of the topic whose records belong to its jobs."""
    cursor: dict[int, int] = field(default_factory=dict)
    """Up to where they do, by partition."""
    claims: dict[int, tuple[OffsetRange, ...]] = field(default_factory=dict)
    """The records of instants, of which each is decided at once."""
    table_id: str = ""
    """Of the table whose versions belong to its jobs."""
    version: int | None = None
    """Up to which one they do."""
    version_claims: dict[int, VersionRange] = field(default_factory=dict)
    """The versions of instants, likewise."""
    joined_ms: int | None = None
    """Up to where its own instants reach."""
    joined: dict[int, int] = field(default_factory=dict)
    """Up to where those before reached, of each own instant that waits."""

    def join(self, instant_ms: int) -> None:
        """Have its own instants reach up to this one."""
        self.joined_ms = instant_ms if self.joined_ms is None else max(self.joined_ms, instant_ms)

    def follows(self, name: str, status: JobStatus) -> bool:
        """Return whether such an end of a run of this job is an instant."""
        after = self.definition.timing.after
        return after is not None and after.name == name and after.outcome in (RunOutcome.ANY, status)


class ScheduleLedger:
    """What the log says of instants."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._fired: dict[str, tuple[str, int]] = {}
        """For which instant of which schedule a job was started."""
        self._of_backfills: set[str] = set()
        """The jobs of back-fills, and reruns of them."""
        self._of_itself: set[str] = set()
        """The jobs for which nobody asked."""
        self.records = 0
        """How many belong to a job."""
        self.versions = 0
        """Likewise, of tables."""
        self._ranges: dict[str, tuple[OffsetRange, ...]] = {}
        """The records of jobs."""
        self._versions: dict[str, VersionRange] = {}
        """The versions of jobs."""
        self.instants = 0
        """How many led to a job."""
        self._names: dict[str, str] = {}
        """Of the jobs."""
        self._runs: dict[tuple[str, int], str] = {}
        """Whose end the instants of schedules are."""
        self._missing: set[tuple[str, str]] = set()
        """Schedules, and runs whose end they have to note."""

    def stored(self, event: e.ScheduleStored, offset: int) -> None:
        """Note a schedule or its new version."""
        known = self._known.setdefault(event.schedule_id, _Known(event.definition, None))
        if _taken_by(known.definition) != _taken_by(event.definition):
            known.topic_id, known.cursor, known.table_id, known.version = "", {}, "", None
        known.definition, known.next_ms = event.definition, event.next_ms
        if event.definition.timing.after is None and known.ends:
            raise ViolationFound(Invariant.INSTANTS_ONCE, f"log@{offset} forgets the ends {known.ends} of {event.schedule_id}")
        if event.definition.timing.after is not None and event.next_ms != next(iter(known.ends), None):
            raise ViolationFound(Invariant.INSTANTS_ONCE, f"log@{offset} stores {event.schedule_id} with {event.next_ms}, not {known.ends}")

    def deleted(self, event: e.ScheduleDeleted, _offset: int) -> None:
        """Forget a schedule."""
        del self._known[event.schedule_id]

    def resumed(self, event: e.ScheduleResumed, _offset: int) -> None:
        """Note where a schedule goes on."""
        self._known[event.schedule_id].next_ms = event.next_ms

    def backfill_started(self, event: e.BackfillStarted, _offset: int) -> None:
        """Note where a back-fill begins."""
        self._known[event.schedule_id].backfill_ms = event.next_ms

    def followed(self, event: e.RunFollowed, offset: int) -> None:
        """Check that the end of a run was to be noted, once, and as an instant after those before it."""
        known, run = self._known[event.schedule_id], event.job_id
        if (event.schedule_id, run) not in self._missing or any(each >= event.instant_ms for each in known.ends):
            raise ViolationFound(Invariant.INSTANTS_ONCE, f"log@{offset} {event.schedule_id} notes the end of {run} at {event.instant_ms}")
        self._missing.discard((event.schedule_id, run))
        self._runs[event.schedule_id, event.instant_ms] = run
        known.ends.append(event.instant_ms)

    def cursor_set(self, event: e.TopicCursorSet, offset: int) -> None:
        """Check that the cursor stood nowhere, or in another topic."""
        known = self._known[event.schedule_id]
        if known.topic_id == event.topic_id or not event.topic_id.startswith(f"{_taken_by(known.definition)}-"):
            raise ViolationFound(Invariant.CLAIMED_ONCE, f"log@{offset} sets the cursor of {event.schedule_id} in {event.topic_id}")
        known.topic_id, known.cursor = event.topic_id, {each.partition: each.offset for each in event.offsets}

    def lost(self, event: e.RecordsLost, offset: int) -> None:
        """Check that the cursor passes over what was behind it."""
        self._pass(event.schedule_id, event.ranges, offset)

    def claimed(self, event: e.RecordsClaimed, offset: int) -> None:
        """Check that each record belongs to this instant alone, and that none is left out."""
        known = self._known[event.schedule_id]
        if known.claims or not event.ranges:
            raise ViolationFound(Invariant.CLAIMED_ONCE, f"log@{offset} {event.schedule_id} takes {event.ranges}")
        self._pass(event.schedule_id, event.ranges, offset)
        known.claims[event.instant_ms] = event.ranges
        self.records += count_records(event.ranges)

    def _pass(self, schedule_id: str, ranges: tuple[OffsetRange, ...], offset: int) -> None:
        cursor = self._known[schedule_id].cursor
        for each in ranges:
            if each.first_offset != cursor.get(each.partition, 0) or each.end_offset <= each.first_offset:
                raise ViolationFound(Invariant.CLAIMED_ONCE, f"log@{offset} {schedule_id} passes {each} behind {cursor}")
            cursor[each.partition] = each.end_offset

    def table_cursor_set(self, event: e.TableCursorSet, offset: int) -> None:
        """Check that the cursor is set for the reason that is told, and that none of the versions behind it has a job."""
        known, number = self._known[event.schedule_id], event.version.number
        is_same = known.table_id == event.table_id
        fits = {
            CursorMove.BEGUN: known.version is None,
            CursorMove.REPLACED: known.version is not None and not is_same,
            CursorMove.REWOUND: is_same and known.version is not None and number < known.version,
            CursorMove.CLEANED: is_same and known.version is not None and number > known.version,
        }
        if not fits[event.reason] or not event.table_id.startswith(f"{_taken_by(known.definition)}-"):
            raise ViolationFound(Invariant.CLAIMED_ONCE, f"log@{offset} sets the cursor of {event.schedule_id} in {event.table_id}")
        known.table_id, known.version = event.table_id, number

    def versions_claimed(self, event: e.VersionsClaimed, offset: int) -> None:
        """Check that each version belongs to this instant alone, and that none is left out."""
        known, versions = self._known[event.schedule_id], event.versions
        if known.version_claims or versions.after.number != known.version or versions.last.number <= versions.after.number:
            raise ViolationFound(Invariant.CLAIMED_ONCE, f"log@{offset} {event.schedule_id} takes {versions} behind {known.version}")
        known.version = versions.last.number
        known.version_claims[event.instant_ms] = versions
        self.versions += versions.last.number - versions.after.number

    def fired(self, event: e.ScheduleFired, offset: int) -> None:
        """Check that the instant was to be decided, that no other job stood in its way, and that it goes on behind those before it."""
        known = self._known[event.schedule_id]
        asked_by = known.awaiting.get(event.instant_ms)
        if event.previous_ms is not None:
            self._check_joined(known, event, event.origin, event.previous_ms, offset)
        self._take(event, event.origin, event.instant_ms, offset)
        known.joined.pop(event.instant_ms, None)
        if event.origin is InstantOrigin.MANUAL:
            known.join(event.instant_ms)
        if event.origin is InstantOrigin.DUE and known.definition.timing.records is not None:
            self._ranges[event.job_id] = known.claims.pop(event.instant_ms)
        if event.origin is InstantOrigin.DUE and known.definition.timing.versions is not None:
            self._versions[event.job_id] = known.version_claims.pop(event.instant_ms)
        of_backfill = event.origin is InstantOrigin.BACKFILL or (event.origin is InstantOrigin.FILE and asked_by is InstantOrigin.BACKFILL)
        of_itself = event.origin in (InstantOrigin.DUE, InstantOrigin.QUEUED) or (event.origin is InstantOrigin.FILE and not of_backfill)
        if of_backfill is not (event.previous_ms is None):
            raise _violation(event, offset, f"it goes on behind {event.previous_ms}")
        if of_itself and known.started and known.definition.overlap is not OverlapPolicy.ALLOW:
            raise _violation(event, offset, f"a job is started while {min(known.started)} runs")
        (self._of_backfills if of_backfill else known.started).add(event.job_id)
        self._fired[event.job_id] = event.schedule_id, event.instant_ms
        self._of_itself |= {event.job_id} if of_itself else set()
        self.instants += 1

    def queued(self, event: e.InstantQueued, offset: int) -> None:
        """Check that the instant was to be decided."""
        self._check_joined(self._known[event.schedule_id], event, event.origin, event.before.joined_ms, offset)
        known = self._take(event, event.origin, event.instant_ms, offset)
        known.joined[event.instant_ms] = event.before.joined_ms
        known.queued = sorted([*known.queued, event.instant_ms])

    def awaited(self, event: e.FileAwaited, offset: int) -> None:
        """Check that the instant was to be decided, and waits for the file of this instant alone."""
        if event.origin is InstantOrigin.DUE:
            self._check_joined(self._known[event.schedule_id], event, event.origin, event.before.joined_ms, offset)
            self._known[event.schedule_id].joined[event.instant_ms] = event.before.joined_ms
        known = self._take(event, event.origin, event.instant_ms, offset)
        if event.instant_ms in known.awaiting or known.definition.wait_for is None:
            raise _violation(event, offset, f"it waits for {event.file} already, or for none")
        known.awaiting[event.instant_ms] = event.origin

    def backfill_cancelled(self, event: e.BackfillCancelled, _offset: int) -> None:
        """Note that the instants of a back-fill do not wait for their files any more."""
        known = self._known[event.schedule_id]
        known.awaiting = {instant: why for instant, why in known.awaiting.items() if why is not InstantOrigin.BACKFILL}

    def skipped(self, event: e.InstantsSkipped, offset: int) -> None:
        """Check that the instants were to be decided."""
        self._take(event, event.origin, event.last_ms, offset)

    def submitted(self, event: e.JobSubmitted, offset: int) -> None:
        """Check that a job of a schedule was started for an instant, by the same decision, and says which run made that."""
        self._names[event.job_id] = event.job_graph.name
        self._check_told(event, offset)
        if event.scheduled is not None and event.rerun_of:
            if event.rerun_of in self._of_backfills:
                self._of_backfills.add(event.job_id)
            elif event.scheduled.schedule_id in self._known:
                self._known[event.scheduled.schedule_id].started.add(event.job_id)
        elif event.scheduled is not None:
            told = event.scheduled.schedule_id, event.scheduled.instant_ms
            told_run = self._runs.get(told, "") if event.job_id in self._of_itself else ""
            if self._fired.get(event.job_id) != told or event.scheduled.after_job_id != told_run:
                raise ViolationFound(Invariant.INSTANTS_ONCE, f"log@{offset} submits {event.job_id} for {told}, which did not fire")

    def _check_told(self, event: e.JobSubmitted, offset: int) -> None:
        """Check that the job is told which records are its own."""
        if (ranges := self._ranges.get(event.job_id)) is not None:
            told = {each.name: each.value for each in event.job_graph.parameters}
            [first, end] = [next(iter(json.loads(told[name] or "").values())) for name in ("first", "end")]
            if ranges != tuple(OffsetRange(int(partition), first[partition], end[partition]) for partition in first):
                raise ViolationFound(Invariant.CLAIMED_ONCE, f"log@{offset} {event.job_id} is told {told}, and has {ranges}")
        if (versions := self._versions.get(event.job_id)) is not None:
            told = {each.name: each.value for each in event.job_graph.parameters}
            if (told["first"], told["last"]) != (str(versions.after.number + 1), str(versions.last.number)):
                raise ViolationFound(Invariant.CLAIMED_ONCE, f"log@{offset} {event.job_id} is told {told}, and has {versions}")

    def ended(self, event: e.JobResultStored, offset: int) -> None:
        """Note that a job does not run any more, and which schedules follow it: they have to note its end by the same decision."""
        self.check_followed(offset)
        for schedule_id, known in self._known.items():
            known.started.discard(event.job_id)
            if known.follows(self._names[event.job_id], event.status):
                self._missing.add((schedule_id, event.job_id))

    def check_followed(self, offset: int) -> None:
        """Check that each schedule has noted the ends that it follows."""
        if self._missing:
            raise ViolationFound(Invariant.INSTANTS_ONCE, f"before log@{offset} the ends of runs were not noted: {sorted(self._missing)}")

    @staticmethod
    def _check_joined(known: _Known, event: e.InstantEvent, origin: InstantOrigin, previous_ms: int, offset: int) -> None:
        """Check that an own instant goes on where those before it ended when it was decided, whatever has changed since then."""
        if origin in (InstantOrigin.QUEUED, InstantOrigin.FILE):
            wanted_ms: int | None = known.joined[event.instant_ms]
        else:
            wanted_ms = None if known.joined_ms is None else min(known.joined_ms, event.instant_ms)
        if wanted_ms is not None and previous_ms != wanted_ms:
            raise _violation(event, offset, f"it goes on behind {previous_ms}, and those before it reach up to {wanted_ms}")

    def _take(self, event: e.InstantEvent, origin: InstantOrigin, last_ms: int, offset: int) -> _Known:
        """Take an instant, or several up to the last one, from where it stands, and check the next one."""
        known = self._known[event.schedule_id]
        if origin is InstantOrigin.QUEUED:
            if known.queued[:1] != [event.instant_ms]:
                raise _violation(event, offset, f"it does not wait, or not first: {known.queued}")
            known.queued.pop(0)
        elif origin is InstantOrigin.FILE:
            if known.awaiting.pop(event.instant_ms, None) is None:
                raise _violation(event, offset, f"it waits for no file: {[*known.awaiting]}")
        elif origin is InstantOrigin.BACKFILL:
            if known.backfill_ms != event.instant_ms:
                raise _violation(event, offset, f"the next one of the back-fill is {known.backfill_ms}")
            known.backfill_ms = event.next_ms
        elif origin is InstantOrigin.DUE:
            self._take_due(known, event, last_ms, offset)
            if not _is_changed(event):
                known.join(last_ms)
        return known

    def _take_due(self, known: _Known, event: e.InstantEvent, last_ms: int, offset: int) -> None:
        timing = known.definition.timing
        if timing.records is not None:
            if event.instant_ms not in known.claims or event.next_ms is not None:
                raise _violation(event, offset, "it is for no records")
        elif timing.versions is not None:
            if event.instant_ms not in known.version_claims or event.next_ms is not None:
                raise _violation(event, offset, "it is for no versions")
        elif timing.after is not None:
            self._take_end(known, event, last_ms, offset)
        elif known.next_ms != event.instant_ms:
            raise _violation(event, offset, f"the next one is {known.next_ms}")
        elif not _is_changed(event) and event.next_ms != last_ms - last_ms % timing.interval_ms + timing.interval_ms:
            raise _violation(event, offset, f"it is followed by {event.next_ms}, with an interval of {timing.interval_ms}")
        else:
            known.next_ms = event.next_ms

    @staticmethod
    def _take_end(known: _Known, event: e.InstantEvent, last_ms: int, offset: int) -> None:
        """Take the end of a run that is not decided, or several up to the last one."""
        if known.ends[:1] != [event.instant_ms]:
            raise _violation(event, offset, f"it is not the first end of a run: {known.ends}")
        known.ends = [each for each in known.ends if each > last_ms]
        if event.next_ms != next(iter(known.ends), None):
            raise _violation(event, offset, f"it is followed by {event.next_ms}, not {known.ends}")


def _is_changed(event: e.InstantEvent) -> bool:
    """Return whether another timing than the one that the instants were of says which comes next: that of the version stored then."""
    return isinstance(event, e.InstantsSkipped) and event.reason is SkipReason.CHANGED


def _taken_by(definition: ScheduleDefinition) -> str:
    """Return the topic, or the table, that a schedule takes from; empty: it takes from none."""
    timing = definition.timing
    return timing.records.name if timing.records is not None else timing.versions.path if timing.versions is not None else ""


def _violation(event: e.InstantEvent, offset: int, message: str) -> ViolationFound:
    what = f"log@{offset} {type(event).__name__} {event.schedule_id} {event.instant_ms}"
    return ViolationFound(Invariant.INSTANTS_ONCE, f"{what}: {message}")
