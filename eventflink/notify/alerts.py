"""Alerts: what rules make of what happens, each said once in a period, and again when it is over.

Whether something is said follows from the period of the log's time in which it happens, and from what happened in that period before it. So
it does not depend on where in the log somebody begins to read, as long as that is early enough. What happened before a receiver was there
to be told was not said to it, and keeps nothing from being said to it later. The rule: nothing here reads a clock, so last week's log gives
last week's alerts.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from eventflink.audit.plain import plain
from eventflink.events.decision import Decision
from eventflink.events.wording import iso_time
from eventflink.leadership.fold import Fold
from eventflink.notify.document import MAX_COUNTED, RESOLVED_WITHIN_MS, AlertRule, NotificationDocument
from eventflink.notify.happenings import Happening, Resolution, happenings_of
from eventflink.notify.notification import Notification
from eventflink.views.job_document import shown

_MOST_REMEMBERED: Final = 10_000
"""Of each kind of memory of one audience, the newest."""


@dataclass(slots=True)
class _Counted:
    times: deque[tuple[int, int]] = field(default_factory=deque)
    """When it happened, and how often at once."""
    sum: int = 0


class _Said(NamedTuple):
    period: int
    step: int


@dataclass(slots=True)
class _Memory:
    """What was counted for an audience, and said to it."""

    counted: dict[str, _Counted] = field(default_factory=dict)
    """How often it happened, by subject."""
    said: dict[str, _Said] = field(default_factory=dict)
    """When it was said last, by subject."""
    over: dict[tuple[str, str], int] = field(default_factory=dict)
    """When a thing was over last, as the number of what was said or over before."""
    open: dict[tuple[str, str], deque[tuple[Notification, int]]] = field(default_factory=dict)
    """All that was said of a thing and is not over, and when."""
    open_count: int = 0
    steps: int = 0
    """How much was said or over."""

    def forget(self) -> None:
        """Let the oldest go where there is too much."""
        memories: tuple[dict[Any, Any], ...] = (self.counted, self.said, self.over)
        for remembered in memories:
            while len(remembered) > _MOST_REMEMBERED:
                del remembered[next(iter(remembered))]

    def count(self, subject: str, count: int, at_ms: int, within_ms: int) -> int:
        """Count that something happened, and return how often it did within the time."""
        counted = self.counted.setdefault(subject, _Counted())
        counted.times.append((at_ms, count))
        counted.sum += count
        while counted.times[0][0] < at_ms - within_ms or len(counted.times) > MAX_COUNTED + 1:
            counted.sum -= counted.times.popleft()[1]
        self.forget()
        return counted.sum

    def may_say(self, subject: str, thing: tuple[str, str] | None, period: int) -> bool:
        """Tell whether something was not said in a period, or the thing, if one is given, is over since then; it counts as said now."""
        said = self.said.pop(subject, None)  # What was said last is remembered longest.
        self.steps += 1
        if said is not None and said.period == period and (thing is None or self.over.get(thing, 0) < said.step):
            self.said[subject] = said
            return False
        self.said[subject] = _Said(period, self.steps)
        return True

    def end(self, thing: tuple[str, str]) -> None:
        """Note that something is over: when it happens again, that is new."""
        self.steps += 1
        self.over.pop(thing, None)
        self.over[thing] = self.steps
        self.forget()

    def keep(self, thing: tuple[str, str], said: Notification, said_ms: int) -> None:
        """Remember what was said of a thing until it is over. Beyond the bound the thing with the oldest news loses its oldest one."""
        self.open[thing] = self.open.pop(thing, deque())
        self.open[thing].append((said, said_ms))
        self.open_count += 1
        while self.open_count > _MOST_REMEMBERED:
            self.take(next(iter(self.open)), 1)

    def take(self, thing: tuple[str, str], most: int = _MOST_REMEMBERED) -> list[tuple[Notification, int]]:
        """Return the oldest of what is open of a thing, and forget it."""
        said = self.open.get(thing, deque())
        taken = [said.popleft() for _ in range(min(most, len(said)))]
        if not said:
            self.open.pop(thing, None)
        self.open_count -= len(taken)
        return taken


@dataclass(frozen=True, slots=True)
class _Audience:
    """Those receivers of one rule that have the same first record, so that the same was said to all of them."""

    rule_name: str
    rule: AlertRule
    first_offset: int
    """What records before it say is counted, and was not said."""
    receivers: tuple[str, ...]
    memory: _Memory = field(default_factory=_Memory)


class Alerts:
    """The rules of a document, and what they have said."""

    def __init__(
        self,
        document: NotificationDocument,
        cluster_id: str,
        first_offsets: Mapping[str, int],
        known_from_ms: int = 0,
        sent_from: int | None = None,
    ) -> None:
        """Begin; `first_offsets` has the record before which nothing was said to a receiver, by name. Without one, everything was.

        What happened before `known_from_ms` is not followed; 0: everything is. From the record `sent_from` on, what is said is sent.
        """
        self._cluster_id = cluster_id
        self._known_from_ms = known_from_ms
        self._sent_from = sent_from
        self._audiences = [each for name, rule in document.rules.items() for each in _audiences(name, rule, first_offsets)]

    def follow(self, offset: int, decision: Decision, fold: Fold) -> list[Notification]:
        """Return what is to be said of an accepted decision, which `fold` has applied; every one has to be followed, in order."""
        told = []
        for each in happenings_of(decision, fold) if self._audiences else ():
            for audience in self._audiences:
                if each.happening_type in audience.rule.events:
                    if isinstance(each, Resolution):
                        told += self._say_it_is_over(audience, each, offset, decision.decided_at_ms)
                    elif (said := self._say(audience, each, offset, decision.decided_at_ms)) is not None:
                        told.append(said)
        return told

    def _say(self, audience: _Audience, each: Happening, offset: int, at_ms: int) -> Notification | None:
        rule, memory = audience.rule, audience.memory
        if rule.jobs is not None and (each.job is None or not rule.jobs.fits(each.job.name, each.job.about)):
            return None
        # What is said of each run by itself is counted, as failures are, over all runs of the job.
        subject = f"{each.happening_type}/{each.thing if rule.more_than else each.subject}"
        count = memory.count(subject, each.count, at_ms, rule.within)
        if (rule.more_than and count <= rule.more_than) or offset < audience.first_offset:
            return None
        thing = each.happening_type, each.thing
        # Who wants to know when it is over has to know when it begins again. Others count what comes and goes.
        is_new = rule.resolved or count - each.count <= rule.more_than or not rule.more_than
        if rule.repeat_after and not memory.may_say(subject, thing if is_new else None, at_ms // rule.repeat_after):
            return None
        notification = self._notification(audience, each, offset, at_ms, count)
        is_sent = self._sent_from is not None and offset >= self._sent_from
        if rule.resolved and (is_sent or at_ms >= self._known_from_ms + rule.looks_back_ms):
            memory.keep(thing, notification, at_ms)
        return notification

    def _say_it_is_over(self, audience: _Audience, each: Resolution, offset: int, at_ms: int) -> list[Notification]:
        """Return the end of each thing that was said: who keeps an incident for each key would keep the others for ever."""
        told, memory = [], audience.memory
        if each.began_ms is None:
            memory.end((each.happening_type, each.thing))
        for before, said_ms in memory.take((each.happening_type, each.thing)):
            if each.began_ms is not None and said_ms > each.began_ms:
                memory.keep((each.happening_type, each.thing), before, said_ms)
                continue
            if at_ms > said_ms + RESOLVED_WITHIN_MS:
                continue
            said = before.key.removeprefix(f"{self._cluster_id}/")
            key = f"{self._cluster_id}/{offset}.{each.event_index}/{audience.rule_name}/resolved/{said}"
            text = f"resolved: {before.text}"
            place = {"at": iso_time(at_ms), "log_offset": offset, "event_index": each.event_index}
            document = {**before.document, "key": key, "status": "resolved", "resolves": before.key, "text": text, **place}
            told.append(Notification(key, offset, before.receivers, before.job_id, text, document))
        return told

    def _notification(self, audience: _Audience, each: Happening, offset: int, at_ms: int, count: int) -> Notification:
        job, name = each.job, audience.rule_name
        about = job.about if job is not None else None
        fields: dict[str, Any] = {
            "key": f"{self._cluster_id}/{offset}.{each.event_index}/{name}/{each.subject}",
            "cluster": self._cluster_id,
            "rule": name,
            "event": str(each.happening_type),
            "at": iso_time(at_ms),
            "offset": offset,
            "subject": f"'{job.name}' ({job.job_id})" if job is not None and job.job_id else each.subject,
            "details": each.details,
            "count": count,
            "job_id": job.job_id if job is not None else "",
            "job_name": job.name if job is not None else "",
            "owner": about.owner if about is not None else "",
            "schedule_id": getattr(each.event, "schedule_id", ""),
            "task_manager_id": getattr(each.event, "task_manager_id", ""),
        }
        text = audience.rule.text.format_map(fields)
        document = {
            "key": fields["key"],
            "status": "firing",
            "cluster": self._cluster_id,
            "rule": name,
            "event": str(each.happening_type),
            "at": fields["at"],
            "log_offset": offset,
            "event_index": each.event_index,
            "text": text,
            "job": None
            if job is None
            else {
                "job_id": job.job_id or None,
                "name": job.name,
                "owner": fields["owner"],
                "labels": {label.name: label.value for label in about.labels} if about is not None else {},
            },
            "log_event": {"type": type(each.event).__name__, **shown(plain(each.event))},
        }
        return Notification(fields["key"], offset, audience.receivers, fields["job_id"], text, document)


def _audiences(name: str, rule: AlertRule, first_offsets: Mapping[str, int]) -> list[_Audience]:
    """Return the receivers of a rule by their first records."""
    receivers = defaultdict(list)
    for receiver in rule.receivers:
        receivers[first_offsets.get(receiver, 0)].append(receiver)
    return [_Audience(name, rule, first_offset, tuple(names)) for first_offset, names in receivers.items()]
