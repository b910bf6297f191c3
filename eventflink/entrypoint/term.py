"""One term of a master: tail, wait while somebody leads, campaign, lead, until it is stopped or its leadership ends.

The machines of `leadership/` decide; this module gives them records, times and ids, appends what they hand out and releases
what they allow. Agents only enqueue. All of it runs in one event loop, in turns that are bounded, so that nothing starves.
"""

import asyncio
import logging
import uuid
from collections import deque
from typing import Any

from eventflink.entrypoint.cleaning import Cleaner
from eventflink.entrypoint.clocks import monotonic_ms, wall_ms
from eventflink.entrypoint.faust_application import FaustApplication
from eventflink.entrypoint.liveness import Liveness
from eventflink.entrypoint.release import Releaser
from eventflink.entrypoint.schema_registry import SchemaRegistryClient
from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.effects import LeaderBeat, Resignation
from eventflink.events.topics import INBOUND, Topic, topic_name
from eventflink.leadership.acceptance import LogDiverged, LogNotDense
from eventflink.leadership.fold import Fold, LogUnusable
from eventflink.leadership.inbound import InboundDecoder
from eventflink.leadership.inbox import InboundRecord, PartitionInbox
from eventflink.leadership.leader import ApplyFailed, LeadershipEnded, Released
from eventflink.leadership.role import MasterRole, RoleSettings
from eventflink.log.administration import delete_group, set_group_offsets, topic_ids, watermarks
from eventflink.log.producers import AppendFailed, EffectProducer, LogAppender
from eventflink.log.replay import replay
from eventflink.master.effects import unacknowledged
from eventflink.master.inputs import BindInputs, CleanupFailed, LoseInputs, MasterInput
from eventflink.model.configuration import Configuration
from eventflink.model.statuses import Role

_logger = logging.getLogger(__name__)

RECORDS_PER_TURN = 512
TURN_MS = 5
"""How long one turn decides at most before the event loop goes on to read."""

TICK_S = 0.02
TIMERS_INTERVAL_MS = 100
MAX_TIMERS = 10_000


class TopicReplaced(Exception):
    """An inbound topic is not the one that its cursor was bound to (P9)."""


class Term:
    """One term."""

    def __init__(
        self,
        configuration: Configuration,
        bootstrap: str,
        fold: Fold,
        blob_address: str,
        poisoned: dict[tuple[str, int], str],
        registry: SchemaRegistryClient,
    ) -> None:
        """Prepare a term that starts from `fold`."""
        self._configuration = configuration
        self._bootstrap = bootstrap
        self._blob_address = blob_address
        self._registry = registry
        self._poisoned = poisoned
        cluster_id = configuration.cluster_id
        self._inboxes = {str(topic): PartitionInbox(configuration.inbox_size) for topic in INBOUND}
        decoder = InboundDecoder(configuration.request_horizon_ms, registry.schema)
        settings = RoleSettings(configuration.master_id, configuration.window_size, configuration.lease_timeout_ms)
        self.role = MasterRole(settings, fold, decoder, self._inboxes, poisoned)
        self._appender = LogAppender(bootstrap, cluster_id, configuration.lease_timeout_ms)
        self._effects = EffectProducer(bootstrap, cluster_id)
        self._cleaner = Cleaner(configuration.working_path, self._later)
        self._releaser = Releaser(self._effects, configuration.master_id, self._cleaner.submit)
        self._liveness = Liveness(configuration, self._releaser)
        self._log: deque[tuple[int, int, bytes]] = deque()
        self._paused: set[Topic] = set()
        self._topic_ids: dict[Topic, str] = {}
        self._low_offsets: dict[Topic, int] = {}
        self._scheduled = False
        self._leadership_codec = PayloadCodec("LeadershipEnvelope")
        self._beat_heard_ms = 0
        self._next_beat_ms = 0
        self._next_timers_ms = 0
        self._next_resend_ms = 0
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._application: FaustApplication | None = None

    # -- the course of a term --------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Lead until `stop` is set, or until the leadership ends.

        Raises:
            LeadershipEnded, AppendFailed: the leadership is over; another term may follow.
            LogUnusable, LogDiverged, LogNotDense, TopicReplaced: this master cannot go on.

        """
        group = f"{self._configuration.cluster_id}.{self._configuration.master_id}.{uuid.uuid4().hex}"
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._start_tail(group)
            tasks = [asyncio.create_task(self._tick_forever()), asyncio.create_task(self._cleaner.run())]
            stopping = asyncio.create_task(stop.wait())
            waiting: set[asyncio.Future[Any]] = {stopping, self._ended, *tasks}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            for task in tasks:
                if task.done():
                    task.result()
            if self._ended.done():
                self._ended.result()
            self._resign()
        finally:
            for task in tasks:
                task.cancel()
            await self._close(group)

    async def _start_tail(self, group: str) -> None:
        """Begin to read every topic: the log where the replay ended, the inputs at their cursors, beats at their end."""
        bootstrap, cluster_id, fold = self._bootstrap, self._configuration.cluster_id, self.role.fold
        self._topic_ids = await asyncio.to_thread(topic_ids, bootstrap, cluster_id)
        names = {topic: topic_name(cluster_id, topic) for topic in (*INBOUND, Topic.HEARTBEATS, Topic.LEADERSHIP)}
        marks = await asyncio.to_thread(watermarks, bootstrap, [(name, 0) for name in names.values()])
        offsets = {Topic.LOG: fold.last_offset + 1}
        for topic in (Topic.HEARTBEATS, Topic.LEADERSHIP):
            offsets[topic] = marks[names[topic], 0].high
        for topic in INBOUND:
            low = self._low_offsets[topic] = marks[names[topic], 0].low
            cursor = fold.master.requests.cursors.get(topic)
            if cursor is not None and cursor.topic_id and self._topic_ids[topic] not in ("", cursor.topic_id):
                raise TopicReplaced(
                    f"{names[topic]} has the id {self._topic_ids[topic]}, but its cursor was bound to {cursor.topic_id}: "
                    "the topic was deleted and created again, and offsets of the old one mean nothing in it"
                )
            offsets[topic] = low if cursor is None else max(low, cursor.next_offset)
        await asyncio.to_thread(set_group_offsets, bootstrap, group, {(topic_name(cluster_id, t), 0): o for t, o in offsets.items()})
        self._application = FaustApplication(bootstrap, cluster_id, group, offsets, self._on_record)
        await self._application.start()
        self._beat_heard_ms = monotonic_ms()  # From here on whoever leads is heard: a whole lease of silence has to pass (L2).

    def _campaign(self) -> None:
        leader_id = f"{self._configuration.master_id}-{uuid.uuid4().hex}"
        self._appender.append(self.role.campaign(leader_id, self._blob_address, wall_ms(), monotonic_ms()))
        _logger.info("Candidate epoch=%d leader=%s", self.role.fold.acceptance.epoch + 1, leader_id)

    def _promoted(self) -> None:
        """Begin to lead: bind what is not bound, note what was lost, say what nobody may have heard."""
        leader, master = self.role.leader, self.role.fold.master
        assert leader is not None  # noqa: S101 - for the type checker; the role is LEADER
        for topic in INBOUND:
            cursor = master.requests.cursors.get(topic)
            if cursor is None:
                leader.timers.append(BindInputs(topic, self._topic_ids[topic], self._low_offsets[topic]))
            elif self._low_offsets[topic] > cursor.next_offset:
                leader.timers.append(LoseInputs(topic, self._low_offsets[topic]))
        now = monotonic_ms()
        self._liveness.promoted(now)
        self._next_resend_ms = now + self._configuration.redeploy_interval_ms
        epoch = self.role.fold.acceptance.epoch
        for recent in self.role.recent_replies():
            self._releaser.release(recent, epoch)
        _logger.info("LeadershipGranted epoch=%d offset=%d", epoch, self.role.fold.last_offset)

    def _resign(self) -> None:
        acceptance, leads = self.role.fold.acceptance, self.role.role is Role.LEADER
        self.role.resign()
        if leads:
            self._releaser.resign(Resignation(acceptance.epoch, acceptance.leader_id))
            _logger.info("Resigned epoch=%d", acceptance.epoch)

    async def _close(self, group: str) -> None:
        timeout_s = self._configuration.lease_timeout_ms / 1000
        await asyncio.to_thread(self._appender.close, timeout_s)
        await asyncio.to_thread(self._effects.close, 5.0)
        if self._application is not None:
            await self._application.stop()
        try:
            await asyncio.to_thread(delete_group, self._bootstrap, group)
        except Exception as error:  # noqa: BLE001 - whatever it is: the broker forgets an empty group by itself
            _logger.info("GroupNotDeleted group=%s error=%s", group, error)

    # -- records in ------------------------------------------------------------------------------------------------

    def _on_record(self, topic: Topic, message: Any) -> Any:
        """Enqueue one record; agents call this in the event loop."""
        if topic is Topic.LOG:
            self._log.append((message.offset, round(message.timestamp * 1000), message.value or b""))
        elif topic is Topic.HEARTBEATS:
            self._liveness.on_heartbeat(message.value, monotonic_ms())
            return None
        elif topic is Topic.LEADERSHIP:
            self._on_leadership(message.value)
            return None
        else:
            schema_id = self._registry.needs(message.value)
            if schema_id is not None:
                return self._fetch_then_enqueue(schema_id, topic, message)
            self._enqueue(topic, message)
        self._schedule()
        return None

    def _on_leadership(self, value: bytes | None) -> None:
        """Hear whether somebody leads: a beat counts from now, a resignation ends the wait."""
        try:
            payload, _ = self._leadership_codec.decode(value or b"")
        except UndecodableRecord as error:
            _logger.warning("LeadershipRecordUnreadable error=%s", error)
            return
        if isinstance(payload, LeaderBeat):
            self._beat_heard_ms = monotonic_ms()
        elif isinstance(payload, Resignation):
            self._beat_heard_ms = 0

    async def _fetch_then_enqueue(self, schema_id: int, topic: Topic, message: Any) -> None:
        await self._registry.fetch(schema_id)
        self._enqueue(topic, message)
        self._schedule()

    def _enqueue(self, topic: Topic, message: Any) -> None:
        inbox = self._inboxes[topic]
        inbox.put(InboundRecord(str(topic), message.offset, round(message.timestamp * 1000), message.key, message.value))
        if inbox.is_full and topic not in self._paused and self._application is not None:
            self._paused.add(topic)
            self._application.pause(topic)

    def _later(self, value: MasterInput) -> None:
        """Take an internal input."""
        leader = self.role.leader
        if leader is not None and (len(leader.timers) < MAX_TIMERS or not isinstance(value, CleanupFailed)):
            leader.timers.append(value)
            self._schedule()

    # -- turns -----------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Have a turn soon; several reasons make one turn."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Read back, decide, append, release: a bounded amount of each."""
        self._scheduled = False
        if self._ended.done():
            return
        try:
            more = self._read_back()
            more = self._decide() or more
            self._appender.poll()
        except (LeadershipEnded, AppendFailed, LogNotDense, LogDiverged, LogUnusable) as error:
            self._end(error)
            return
        except Exception as error:
            # A defect of ours. The state is doubtful, and a loop that went on without its turns would lead without deciding.
            _logger.exception("TurnFailed epoch=%d offset=%d", self.role.fold.acceptance.epoch, self.role.fold.last_offset)
            self._end(LeadershipEnded(f"a turn failed: {error!r}"))
            return
        self._effects.poll()
        self._resume_reading()
        if more:
            self._schedule()

    def _end(self, error: Exception) -> None:
        self.role.fall()
        if isinstance(error, ApplyFailed) and error.record is not None:
            self._poisoned[error.record.topic, error.record.offset] = str(error)
        if not self._ended.done():
            self._ended.set_exception(error)

    def _read_back(self) -> bool:
        was = self.role.role
        for _ in range(min(len(self._log), RECORDS_PER_TURN)):
            offset, timestamp_ms, value = self._log.popleft()
            released = self.role.on_record(offset, timestamp_ms, value, monotonic_ms())
            if self.role.role is not was and self.role.role is Role.LEADER:
                was = self.role.role
                self._promoted()
            if released is not None:
                self._releaser.release(released, self.role.fold.acceptance.epoch)
        return bool(self._log)

    def _decide(self) -> bool:
        leader, clock = self.role.leader, self.role.clock
        if leader is None or clock is None:
            return False
        monotonic = started = monotonic_ms()
        now = clock.read(monotonic, wall_ms())
        while monotonic - started < TURN_MS:
            value = leader.decide_next(now, monotonic)
            if value is None:
                return False
            self._appender.append(value)
            monotonic = monotonic_ms()
        return True

    def _resume_reading(self) -> None:
        for topic in [t for t in self._paused if self._inboxes[t].has_room]:
            self._paused.discard(topic)
            if self._application is not None:
                self._application.resume(topic)

    # -- time ------------------------------------------------------------------------------------------------------

    async def _tick_forever(self) -> None:
        while not self._ended.done():
            try:
                self._tick(monotonic_ms())
            except (LeadershipEnded, AppendFailed, LogNotDense, LogDiverged, LogUnusable) as error:
                self._end(error)
                return
            await asyncio.sleep(TICK_S)

    def _tick(self, now: int) -> None:
        self._appender.poll()
        self._effects.poll()
        self._read_back()  # What has arrived is no longer unconfirmed, however late this turn comes.
        self.role.check(now)
        if self.role.role is Role.STANDBY and now - self._beat_heard_ms > self._configuration.lease_timeout_ms:
            self._campaign()
        leader, clock = self.role.leader, self.role.clock
        if leader is None or clock is None:
            return
        if now >= self._next_beat_ms and leader.may_beat(now):
            self._next_beat_ms = now + self._configuration.leader_beat_interval_ms
            acceptance = self.role.fold.acceptance
            self._releaser.beat(
                LeaderBeat(
                    acceptance.epoch,
                    acceptance.leader_id,
                    self._configuration.master_id,
                    self._blob_address,
                    self.role.fold.last_offset,
                )
            )
        if now >= self._next_timers_ms:
            self._next_timers_ms = now + TIMERS_INTERVAL_MS
            self._run_timers(now)
        if now >= self._next_resend_ms:
            self._next_resend_ms = now + self._configuration.redeploy_interval_ms
            self._resend()
        self._schedule()

    def _run_timers(self, now: int) -> None:
        leader, clock, master = self.role.leader, self.role.clock, self.role.fold.master
        if leader is None or clock is None or leader.timers:
            return  # What was due before is not decided yet.
        log_now = clock.read(now, wall_ms())
        leader.timers.extend(master.due(log_now))
        leader.timers.extend(self._liveness.overdue(master, self.role.fold.acceptance.leader_id, now))
        for clean_up in master.due_clean_ups(log_now):
            self._cleaner.submit(clean_up)

    def _resend(self) -> None:
        """Send again what nobody has confirmed; only from an accepted state, so that P4 holds."""
        leader = self.role.leader
        if leader is None or leader.unconfirmed:
            return
        acceptance = self.role.fold.acceptance
        effects = list(unacknowledged(self.role.fold.master))
        released = Released(self.role.fold.last_offset, acceptance.epoch, acceptance.sequence, acceptance.leader_id, effects, None)
        self._releaser.release(released, acceptance.epoch)


async def replay_to_end(configuration: Configuration, bootstrap: str, fold: Fold) -> Fold:
    """Fold the log up to its present end, in a thread."""
    return await asyncio.to_thread(replay, bootstrap, configuration.cluster_id, fold)
