"""One caller's way to the leader and back: requests out on an inbound topic, answers in on one partition of `replies`.

The partition's end is known before the first request goes out, so no answer can be missed. Answers are told apart by
request id; other callers' answers on the same partition are passed over undecoded. There is no thread in here.
"""

import dataclasses
import logging
import random
import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message

from eventflink.events.codec import PayloadCodec, UndecodableRecord
from eventflink.events.inputs import NO_REPLY, Request
from eventflink.events.log_events import RequestAccepted
from eventflink.events.request_sizes import find_size_fault
from eventflink.events.seal import NO_SEALS, Seals, seals_of
from eventflink.events.topics import Topic, topic_name
from eventflink.gateways.deadline import Deadline
from eventflink.gateways.errors import GatewayError, RequestRefused, refusal_of
from eventflink.gateways.kafka_clients import DEFAULT_CONNECT_TIMEOUT_S, PartitionReader, make_producer
from eventflink.leadership.log_lines import one_line
from eventflink.log.refusals import explain, is_denied
from eventflink.model.cluster_access import ClusterAccess

_logger = logging.getLogger(__name__)

REPEAT_AFTER_S: Final = 5.0
"""A request without an answer is sent again after this long, under the same request id; then after twice as long, and so on."""

MAX_REPEAT_AFTER_S: Final = 60.0

_CLOSE_TIMEOUT_S: Final = 1.0
_POLL_S: Final = 0.1
_SERVE_S: Final = 0.5
NOT_AUTHORIZED: Final = "NotAuthorized"
"""The code of a request that Kafka did not take for want of a right; no master has seen it."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The request was done, by the decision at `log_offset`."""

    request_id: str
    subject: str
    epoch: int
    sequence: int
    leader_id: str
    log_offset: int

    @property
    def job_id(self) -> str:
        """The job that the request is about."""
        return self.subject


@dataclass(frozen=True, slots=True)
class Refused:
    """The request was refused by the decision at `log_offset`."""

    request_id: str
    subject: str
    code: str
    message: str
    log_offset: int


Answer = Accepted | Refused


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """A request as it goes out; sending it twice is sending the same bytes."""

    request_id: str
    topic: str
    key: bytes
    value: bytes


def result_of(answer: Answer) -> Accepted:
    """Return an acceptance.

    Raises:
        RequestRefused: the answer is a refusal.

    """
    if isinstance(answer, Refused):
        raise refusal_of(answer.code, answer.message, answer.log_offset)
    return answer


class RequestChannel:
    """Sends requests and receives answers. `send` is for any thread, `receive` for one."""

    def __init__(
        self,
        access: ClusterAccess,
        *,
        pipelined: bool = True,
        connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S,
        seals: Seals = NO_SEALS,
    ) -> None:
        """Connect, choose a partition of `replies` and stand at its end.

        Whoever gives `seals` says that he knows who asks: requests are sealed with them, and their actors stand in the log as proven (L6).

        A channel that is not `pipelined` has one request in flight at a time: order is then no question, a record that is delivered
        twice is answered again (P8), and the first one goes out at once.

        Raises:
            ClusterUnreachable: Kafka does not answer.
            ClusterNotFound: Kafka holds no such cluster.

        """
        self._access = access
        self._denials: list[Refused] = []
        """What Kafka did not let in, by those that sent it."""
        self._requests = {
            Topic.SUBMISSIONS: PayloadCodec("SubmissionEnvelope", seal=seals.of(Topic.SUBMISSIONS)),
            Topic.COMMANDS: PayloadCodec("CommandEnvelope", seal=seals.of(Topic.COMMANDS)),
        }
        self._replies = PayloadCodec("ReplyEnvelope", seal=seals_of(access).of(Topic.REPLIES))
        deadline = Deadline.after(connect_timeout_s)
        self._reader = PartitionReader(access, Topic.REPLIES, connect_timeout_s=connect_timeout_s)
        try:
            self.reply_partition = random.randrange(self._reader.partition_count)  # noqa: S311 - spreads load, hides nothing
            self._reader.seek(self.reply_partition, self._reader.offsets(self.reply_partition, deadline.left_s())[1])
            self._producer = make_producer(access.kafka, idempotent=pipelined)
        except BaseException:
            self._reader.close()
            raise

    def encode(self, request: Request, *, wants_reply: bool = True) -> EncodedRequest:
        """Give the request an id and, if it wants a reply, this channel's reply partition; and encode it.

        Raises:
            RequestRefused: it is longer than a master would decode; it has to become smaller.

        """
        partition = self.reply_partition if wants_reply else NO_REPLY
        request = dataclasses.replace(request, request_id=request.request_id or str(uuid.uuid4()), reply_partition=partition)
        value = self._requests[request.topic].encode(request, sent_at_ms=time.time_ns() // 1_000_000)
        if fault := find_size_fault(request, len(value)):
            raise RequestRefused("RequestTooLarge", fault)
        return EncodedRequest(request.request_id, topic_name(self._access.cluster_id, request.topic), request.subject.encode(), value)

    def send(self, request: EncodedRequest) -> None:
        """Hand the request to the producer, which sends it at once.

        A failed delivery is not reported: the caller waits for the answer and sends the request again. Only a missing right is an answer.

        Raises:
            GatewayError: the producer takes nothing any more.

        """
        try:
            self._producer.produce(request.topic, value=request.value, key=request.key, on_delivery=partial(self._delivered, request))
            self._producer.poll(0)
        except (BufferError, KafkaException) as error:
            raise GatewayError(f"the request cannot be sent: {error}") from error

    def _delivered(self, request: EncodedRequest, error: KafkaError | None, _message: Message) -> None:
        if error is not None and is_denied(error):
            message = explain(error, self._access.kafka, "Write", request.topic)
            self._denials.append(Refused(request.request_id, request.key.decode(), NOT_AUTHORIZED, message, -1))

    def tell(self, request: EncodedRequest, timeout_s: float) -> None:
        """Send a request and wait until Kafka has it: from then on it will be decided, by this leader or a later one.

        Raises:
            GatewayError: Kafka does not take it, or did not within `timeout_s`.

        """
        outcome: list[str] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            outcome.append("" if error is None else explain(error, self._access.kafka, "Write", request.topic))

        deadline = time.monotonic() + timeout_s
        try:
            self._producer.produce(request.topic, value=request.value, key=request.key, on_delivery=delivered)
            while not outcome and (left_s := deadline - time.monotonic()) > 0:
                self._producer.poll(min(left_s, _POLL_S))
        except (BufferError, KafkaException) as error:
            raise GatewayError(f"the request cannot be sent: {error}") from error
        if not outcome:
            raise GatewayError(f"Kafka did not say within {timeout_s:g} s that it has request {request.request_id}; it may still get it")
        if outcome[0]:
            raise GatewayError(f"Kafka does not take request {request.request_id}: {outcome[0]}")

    def receive(self, timeout_s: float, wanted: Any) -> list[Answer]:
        """Return the answers that there are to request ids in `wanted` (anything that knows `in`); wait for records, up to `timeout_s`.

        It waits for half a second at most, since what was sent is served in between.
        """
        self._producer.poll(0)
        denials, self._denials = self._denials, []
        answers: list[Answer] = [denial for denial in denials if denial.request_id in wanted]
        for message in self._reader.read(0 if answers else min(timeout_s, _SERVE_S)):
            request_id = (message.key() or b"").decode("utf-8", "replace")
            if request_id in wanted and (answer := self._decode(request_id, message)) is not None:
                answers.append(answer)
        return answers

    def _decode(self, request_id: str, message: Message) -> Answer | None:
        """Turn a reply into an answer; None: it cannot be read, and says nothing of whether there is another one.

        Not by its epoch: a reply is released only when its decision was accepted, so a late one of an older leader is as true
        as a repetition by the new one would be.
        """
        try:
            payload, envelope = self._replies.decode(message.value() or b"")
        except UndecodableRecord as error:
            _logger.warning("ReplyUnreadable request=%s reason=%s", one_line(request_id), error)
            return None
        offset = int(envelope["log_offset"])
        if isinstance(payload, RequestAccepted):
            return Accepted(request_id, payload.subject, int(envelope["epoch"]), int(envelope["sequence"]), envelope["leader_id"], offset)
        return Refused(request_id, payload.subject, payload.code, payload.message, offset)

    def close(self) -> None:
        """Let the connections go; what was not sent by now is dropped, its caller has given up."""
        self._producer.purge()
        self._producer.flush(_CLOSE_TIMEOUT_S)
        self._reader.close()
