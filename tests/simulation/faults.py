"""What goes wrong in a run. Each run draws which kinds of faults it has, and how often: rare combinations need runs full of few kinds.

Every fault ends: processes are started or continued, links heal. `end` ends all of them at once, except what a run keeps on purpose.
"""

from random import Random
from typing import Final

from eventflink.events.topics import INBOUND, Topic
from eventflink.testing.simulation.broker import Link
from eventflink.testing.simulation.broker_clocks import EPOCH_MS
from eventflink.testing.simulation.cluster import Seat
from eventflink.testing.simulation.scheduler import MILLISECOND, Call
from eventflink.testing.simulation.task_executor_host import TaskExecutorHost
from tests.simulation.cluster import Cluster

_ALL: Final = tuple(Topic)
_WEIGHTS: Final = (0, 0, 1, 1, 3)
_PARTIAL_CUTS: Final[tuple[tuple[str, tuple[Topic, ...], tuple[Topic, ...]], ...]] = (
    ("cannot append", (Topic.LOG,), ()),
    ("cannot tail", (), (Topic.LOG,)),
    ("cannot send heartbeats", (Topic.LEADERSHIP,), ()),
    ("cannot read heartbeats", (), (Topic.LEADERSHIP,)),
    ("cannot read submissions", (), (Topic.SUBMISSIONS,)),
    ("cannot read reports", (), (Topic.TASKMANAGERS,)),
    ("cannot read inputs", (), INBOUND),
)
"""Each of these must cost a leader its leadership, or not matter: a run may keep one to its end."""

_PASSING_CUTS: Final[tuple[tuple[str, tuple[Topic, ...], tuple[Topic, ...]], ...]] = (
    *_PARTIAL_CUTS,
    ("cannot read heartbeats", (), (Topic.HEARTBEATS,)),
    ("cannot write heartbeats", (Topic.HEARTBEATS,), ()),
    ("cannot produce effects", (Topic.DEPLOYMENTS, Topic.REPLIES), ()),
    ("cannot send", _ALL, ()),
    ("cannot receive", (), _ALL),
    ("is cut off", _ALL, _ALL),
)


class Faults:
    """Breaks things in a cluster, and mends them."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._heals: list[Call] = []
        self.lasting = ""
        kinds: tuple[Call, ...] = (
            self._kill_master,
            self._kill_all_masters,
            self._pause_master,
            self._start_twin,
            self._stop_master,
            self._deafen_to_heartbeats,
            self._stall_requests,
            self._cut_master,
            self._cut_all_masters,
            self._set_reader_back,
            self._lose_log_record,
            self._shift_wall_clock,
            self._slow_broker_down,
            self._stop_broker,
            self._kill_task_executor,
            self._lose_power,
            self._cut_task_executor,
            self._isolate_task_executor,
            self._pause_task_executor,
            self._freeze_machine,
            self._kill_fork_server,
            self._stop_task_executor,
            self._cut_clients,
            self._kill_both,
        )
        weighted = [(kind, rng.choice(_WEIGHTS)) for kind in kinds]
        self._kinds = [kind for kind, weight in weighted for _ in range(weight)] or [self._kill_master]

    def strike(self) -> None:
        """Let one thing go wrong."""
        self._rng.choice(self._kinds)()

    def end(self) -> None:
        """Mend everything; one master may keep a broken connection, which the others must make up for."""
        cluster = self._cluster
        for heal in list(self._heals):
            heal()
        self._heals.clear()
        cluster.broker.slow_until_us = 0
        cluster.broker.stall_share = 0.0
        cluster.broker.duplicate_share = 0.0
        for seat in cluster.seats:
            for twin in seat.twins:
                twin.kill()
            seat.twins.clear()
            if seat.host is not None:
                seat.host.process.resume()
        for host in cluster.task_executors:
            host.thaw()
        if len(cluster.seats) > 1 and self._rng.random() < 0.4:
            seat = self._seat()
            name, sends, receives = self._rng.choice(_PARTIAL_CUTS)
            seat.link.cut(sends, receives)
            self.lasting = seat.master_id
            cluster.transcript.note(seat.master_id, f"{name} until the end")

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _short_ms(self) -> float:
        """Return a duration: most are shorter than a lease, some are longer than everything."""
        return float(self._rng.choice((30, 150, 600, 1_200, 2_500, 6_000))) * (0.5 + self._rng.random())

    def _long_ms(self) -> float:
        """Return a duration about as long as it takes to declare a TaskExecutor lost."""
        return 1_500.0 + 4_000.0 * self._rng.random()

    def _later(self, delay_ms: float, call: Call) -> None:
        self._cluster.scheduler.after(int(delay_ms * MILLISECOND), call)

    def _seat(self) -> Seat:
        """Return a master's seat: often the leader's."""
        cluster = self._cluster
        leaders = [seat for seat in cluster.seats if seat.host is not None and seat.host.is_leader]
        if leaders and self._rng.random() < 0.6:
            return self._rng.choice(leaders)
        return self._rng.choice(cluster.seats)

    def _cut(self, link: Link, who: str, cut: tuple[str, tuple[Topic, ...], tuple[Topic, ...]], duration_ms: float = 0) -> None:
        name, sends, receives = cut
        self._cluster.transcript.note(who, name)
        self._until_healed(link.cut(sends, receives), who, duration_ms)

    def _until_healed(self, undo: Call, who: str, duration_ms: float = 0) -> None:
        def heal() -> None:
            if heal in self._heals:
                self._heals.remove(heal)
                undo()
                self._cluster.transcript.note(who, "is connected again")

        self._heals.append(heal)
        self._later(duration_ms or self._short_ms(), heal)

    # -- masters ---------------------------------------------------------------------------------------------------

    def _kill_master(self) -> None:
        self._cluster.kill(self._seat(), self._short_ms())

    def _kill_all_masters(self) -> None:
        for seat in self._cluster.seats:
            self._cluster.kill(seat, self._short_ms())

    def _pause_master(self) -> None:
        host = self._seat().host
        if host is not None and host.process.is_running:
            self._cluster.transcript.note(host.name, "is paused")
            host.process.pause()
            self._until_healed(host.process.resume, host.name)

    def _start_twin(self) -> None:
        """Let the supervisor of the masters believe that one is dead, and start it a second time."""
        seat = self._seat()
        host = seat.host
        if host is None or not host.process.is_running or len(seat.twins) > 1:
            return
        self._cluster.transcript.note(host.name, "is paused, and started once more")
        host.process.pause()
        self._until_healed(host.process.resume, host.name)
        seat.twins.append(host)
        self._cluster.start(seat)

    def _stop_master(self) -> None:
        self._cluster.stop(self._seat(), self._short_ms())

    def _cut_master(self) -> None:
        seat = self._seat()
        self._cut(seat.link, seat.master_id, self._rng.choice(_PASSING_CUTS))

    def _deafen_to_heartbeats(self) -> None:
        seat = self._seat()
        self._cut(seat.link, seat.master_id, ("cannot read heartbeats", (), (Topic.HEARTBEATS,)), self._long_ms())

    def _stall_requests(self) -> None:
        """Let what a master sends arrive late: longer than it waits for it, and after another master has begun to lead."""
        seat = self._seat()
        duration_ms = self._cluster.settings.lease_timeout_ms * (0.8 + 0.8 * self._rng.random())
        seat.link.stalled_until_us = self._cluster.scheduler.now_us + int(duration_ms * MILLISECOND)
        self._cluster.transcript.note(seat.master_id, f"what it sends is on its way for up to {duration_ms:.0f} ms")

    def _cut_all_masters(self) -> None:
        cut = self._rng.choice(_PASSING_CUTS)
        for seat in self._cluster.seats:
            self._cut(seat.link, seat.master_id, cut)

    def _set_reader_back(self) -> None:
        host = self._seat().host
        if host is None or host.tail is None:
            return
        topic = self._rng.choice((Topic.LOG, *INBOUND))
        consumer = host.tail.consumers[topic]
        consumer.position = max(self._cluster.broker.partition(topic).low_offset, consumer.position - 1 - int(self._rng.random() * 20))
        self._cluster.transcript.note(host.name, f"reads {topic} again from {consumer.position} on")
        consumer.poke()

    def _lose_log_record(self) -> None:
        host = self._seat().host
        if host is None or host.tail is None:
            return
        host.tail.consumers[Topic.LOG].loses_next = True
        host.may_have_holes = True
        self._cluster.transcript.note(host.name, "will not get the next record of the log")

    def _shift_wall_clock(self) -> None:
        seat = self._seat()
        hours = int(self._rng.random() * 120) - 60
        seat.clock.wall_offset_ms = EPOCH_MS + hours * 3_600_000
        self._cluster.transcript.note(seat.master_id, f"its wall clock is set wrong by {hours} hours")

    # -- the broker ------------------------------------------------------------------------------------------------

    def _slow_broker_down(self) -> None:
        broker = self._cluster.broker
        broker.slow_until_us = broker.scheduler.now_us + int(self._short_ms() * MILLISECOND / 2)
        self._cluster.transcript.note("broker", "is slow")

    def _stop_broker(self) -> None:
        self._cluster.transcript.note("broker", "is away")
        links = [seat.link for seat in self._cluster.seats]
        links += [host.link for host in self._cluster.task_executors]
        links.append(self._cluster.clients.link)
        undos = [link.cut(_ALL, _ALL) for link in links]

        def undo() -> None:
            for each in undos:
                each()

        self._until_healed(undo, "broker")

    # -- TaskExecutors ---------------------------------------------------------------------------------------------

    def _task_executor(self) -> TaskExecutorHost:
        """Return a TaskExecutor: often one that has something to lose."""
        hosts = self._cluster.task_executors
        busy = [host for host in hosts if not host.processes.is_idle]
        return self._rng.choice(busy if busy and self._rng.random() < 0.85 else hosts)

    def _kill_task_executor(self) -> None:
        self._task_executor().crash(self._short_ms())

    def _lose_power(self) -> None:
        self._task_executor().lose_power(self._short_ms())

    def _cut_task_executor(self) -> None:
        host = self._task_executor()
        cut = self._rng.choice(
            (
                ("cannot send", _ALL, ()),
                ("cannot receive", (), _ALL),
                ("cannot send heartbeats", (Topic.HEARTBEATS,), ()),
                ("cannot report", (Topic.TASKMANAGERS,), ()),
                ("is cut off", _ALL, _ALL),
                ("is cut off", _ALL, _ALL),
            )
        )
        self._cut(host.link, host.name, cut, self._rng.choice((self._short_ms(), self._long_ms())))

    def _isolate_task_executor(self) -> None:
        """Cut a TaskExecutor off for longer than it takes to declare it lost."""
        host = self._task_executor()
        self._cut(host.link, host.name, ("is cut off", _ALL, _ALL), 2_500 + 3_000 * self._rng.random())

    def _pause_task_executor(self) -> None:
        self._freeze(whole_machine=False)

    def _freeze_machine(self) -> None:
        self._freeze(whole_machine=True)

    def _freeze(self, *, whole_machine: bool) -> None:
        host = self._task_executor()
        if host.is_up and host.process.is_running:
            host.freeze(whole_machine=whole_machine)
            self._until_healed(host.thaw, host.name, self._rng.choice((self._short_ms(), self._long_ms())))

    def _kill_fork_server(self) -> None:
        host = self._task_executor()
        if host.is_up:
            self._cluster.transcript.note(host.name, "its fork server dies")
            host.processes.die("killed by signal 9")

    def _stop_task_executor(self) -> None:
        host = self._task_executor()
        if host.is_up:
            host.stop(self._short_ms())

    # -- others ----------------------------------------------------------------------------------------------------

    def _cut_clients(self) -> None:
        clients = self._cluster.clients
        self._cluster.transcript.note("clients", "are cut off")
        sends, receives = self._rng.choice(((_ALL, ()), ((), _ALL), (_ALL, _ALL)))
        self._until_healed(clients.link.cut(sends, receives), "clients")

    def _kill_both(self) -> None:
        """Kill a leader and a TaskExecutor at once: they ran on one machine."""
        self._kill_master()
        self._kill_task_executor()
