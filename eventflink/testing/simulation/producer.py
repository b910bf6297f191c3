"""A producer as librdkafka is one: ordered, with requests in flight, retries, and a time after which it gives a record up.

An idempotent one appends each record in order, and once but for rare accidents: a broker that lost what it knew of the producer. A plain
one may append a record twice. What was on the wire when its producer gave up, was purged or died can still arrive.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from eventflink.events.topics import Topic
from eventflink.testing.simulation.broker import Broker, Link
from eventflink.testing.simulation.process import Process
from eventflink.testing.simulation.scheduler import MILLISECOND

_IN_FLIGHT: Final = 5
_RETRY_MS: Final = 250
_STALL_US: Final = 3_000 * MILLISECOND
_LOST_SHARE: Final = 0.5
"""Of the requests on a connection that breaks: how many never arrive."""

Delivered = Callable[[int | None], None]
"""Told Kafka's timestamp of the record; None: it was not delivered, as far as the producer knows."""


@dataclass(slots=True, eq=False)
class _Outgoing:
    key: bytes | None
    value: bytes | None
    on_delivery: Delivered | None
    number: int
    is_sent: bool = False
    timestamp_ms: int = 0
    """By the broker's clock, once it is appended."""


class _Lane:
    """The records of one producer for one partition."""

    def __init__(self, producer: "SimulatedProducer", topic: Topic, number: int) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = number
        self._waiting: deque[_Outgoing] = deque()
        self._generation = 0
        self._next_number = 0
        self._broker_generation = 0
        self._broker_expects = 0
        self._last_arrival_us = 0
        self._retries = False

    def put(self, key: bytes | None, value: bytes | None, on_delivery: Delivered | None) -> None:
        outgoing = _Outgoing(key, value, on_delivery, self._next_number)
        self._next_number += 1
        self._waiting.append(outgoing)
        producer = self._producer
        producer.process.after(producer.timeout_ms, lambda: self._expire(outgoing))
        self.pump()

    def purge(self) -> None:
        self._waiting.clear()

    def pump(self) -> None:
        producer = self._producer
        if not producer.process.is_running or not producer.link.can_send(self._topic):
            self._retry_later()
            return
        scheduler = producer.broker.scheduler
        for outgoing, _ in zip(self._waiting, range(_IN_FLIGHT), strict=False):
            if outgoing.is_sent:
                continue
            outgoing.is_sent = True
            delay_us = producer.broker.latency_us() + max(0, producer.link.stalled_until_us - scheduler.now_us)
            if producer.rng.random() < producer.broker.stall_share:
                delay_us += int(_STALL_US * producer.rng.random())
            arrival_us = scheduler.now_us + delay_us
            if producer.is_idempotent:  # One connection: what is sent later arrives later.
                arrival_us = self._last_arrival_us = max(arrival_us, self._last_arrival_us)
            self._send(outgoing, arrival_us - scheduler.now_us)
        if self._waiting:
            self._retry_later()

    def _send(self, outgoing: _Outgoing, delay_us: int) -> None:
        generation, number = self._generation, outgoing.number
        self._producer.broker.scheduler.after(delay_us, lambda: self._arrive(outgoing, generation, number))

    def _arrive(self, outgoing: _Outgoing, generation: int, number: int) -> None:
        producer = self._producer
        is_cut = not producer.link.can_send(self._topic)
        if is_cut and producer.rng.random() < _LOST_SHARE:
            return
        if producer.is_idempotent:
            if generation < self._broker_generation:
                return  # Fenced: the producer has restarted since.
            if generation > self._broker_generation:
                self._broker_generation, self._broker_expects = generation, 0
            if number > self._broker_expects:
                return  # One before it was lost: the producer sends both again.
            if number == self._broker_expects:
                self._broker_expects += 1
                self._append(outgoing)
        else:
            self._append(outgoing)
        if not is_cut:
            acknowledge = self._acknowledgement(outgoing)
            producer.broker.scheduler.after(producer.broker.latency_us(), lambda: producer.process.deliver(acknowledge))

    def _append(self, outgoing: _Outgoing) -> None:
        broker = self._producer.broker
        outgoing.timestamp_ms = broker.append(self._topic, self._partition, outgoing.key, outgoing.value)
        if self._producer.rng.random() < broker.duplicate_share:

            def append_again() -> None:
                broker.append(self._topic, self._partition, outgoing.key, outgoing.value)

            broker.scheduler.after(broker.latency_us(), append_again)

    def _acknowledgement(self, outgoing: _Outgoing) -> Callable[[], None]:
        def acknowledged() -> None:
            if outgoing in self._waiting:
                self._waiting.remove(outgoing)
                if outgoing.on_delivery is not None:
                    outgoing.on_delivery(outgoing.timestamp_ms)
                self.pump()

        return acknowledged

    def _retry_later(self) -> None:
        """Send again what was not acknowledged, over a new connection."""
        if self._retries:
            return
        self._retries = True
        self._producer.process.after(_RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._retries = False
        if self._waiting:
            for outgoing in self._waiting:
                outgoing.is_sent = False
            self._last_arrival_us = 0
            self.pump()

    def _expire(self, outgoing: _Outgoing) -> None:
        if outgoing not in self._waiting:
            return
        self._waiting.remove(outgoing)
        # Nobody knows whether it was appended: the rest continues under a new number series.
        self._generation += 1
        self._next_number = 0
        for left in self._waiting:
            left.number, left.is_sent = self._next_number, False
            self._next_number += 1
        if outgoing.on_delivery is not None:
            outgoing.on_delivery(None)
        self.pump()


class SimulatedProducer:
    """One producer of a process."""

    def __init__(self, broker: Broker, process: Process, link: Link, rng: Random, timeout_ms: int, *, is_idempotent: bool = True) -> None:
        """Connect; a record that is not acknowledged within `timeout_ms` is given up."""
        self.broker = broker
        self.process = process
        self.link = link
        self.rng = rng
        self.timeout_ms = timeout_ms
        self.is_idempotent = is_idempotent
        self._lanes: dict[tuple[Topic, int], _Lane] = {}
        link.on_heal.append(self._pump)

    def produce(
        self, topic: Topic, key: bytes | None, value: bytes | None, partition: int = 0, on_delivery: Delivered | None = None
    ) -> None:
        """Append a record some time later; `on_delivery` gets the outcome."""
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = _Lane(self, topic, partition)
        lane.put(key, value, on_delivery)

    def purge(self) -> None:
        """Forget what was not acknowledged; what is on the wire may arrive all the same."""
        for lane in self._lanes.values():
            lane.purge()

    def close(self) -> None:
        """Purge, and send nothing more."""
        self.purge()
        if self._pump in self.link.on_heal:
            self.link.on_heal.remove(self._pump)

    def _pump(self) -> None:
        for lane in self._lanes.values():
            lane.pump()
