"""What clients and the REST process read: `replies`, `leadership`, `heartbeats`.

The laws: the true answer to a request is found behind whatever else was written, also under its id; whoever leads is found, and each master
that is there is listed, though others speak in between; nothing that is written there ends the reader. With a secret, all of them come to
what they come to without the records that have no valid seal.
"""

from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Message as KafkaMessage
from hypothesis import strategies as st

from eventflink.events.codec import PayloadCodec
from eventflink.events.effects import LeaderHeartbeat, MasterPresence
from eventflink.events.inputs import Heartbeat
from eventflink.events.log_events import RequestAccepted
from eventflink.events.seal import NO_SEALS, Seals
from eventflink.events.topics import Topic
from eventflink.gateways.leader import ALONE_HEARTBEATS, LeaderWatch
from eventflink.gateways.request_channel import Accepted, Answer, RequestChannel
from eventflink.leadership.fold import Fold
from eventflink.leadership.known_log import LogTruncated, check_heard
from eventflink.log.newest_records import RecordRead
from eventflink.model.statuses import Role
from eventflink.reader.heartbeats import Heartbeats
from eventflink.rest.own.present_masters import PresentMaster, masters_of
from tests.fuzz.corpus_files import ENVELOPES, Message
from tests.fuzz.generation import Avro, recorded
from tests.fuzz.sealing import as_written, is_believed, name_of, sealed_messages
from tests.support.cluster import new_fold

OWN_REQUEST: Final = "own"
"""The id of the request that waits for its answer."""

NOW_MS: Final = 1_800_000_000_000


class _Read:
    """A partition whose next records are handed in."""

    def __init__(self) -> None:
        self.messages: list[KafkaMessage] = []

    def read(self, _timeout_s: float) -> list[KafkaMessage]:
        """Return what there is."""
        taken, self.messages = self.messages, []
        return taken


class _Nobody:
    """Sends nothing."""

    def poll(self, _timeout_s: float) -> int:
        """Have nothing to serve."""
        return 0


class Clients:
    """Everybody who waits for something to be said."""

    bursts = 3

    def __init__(self, seals: Seals = NO_SEALS) -> None:
        self.name = name_of("clients", seals)
        self._seals = seals
        topics = (Topic.REPLIES, Topic.LEADERSHIP, Topic.HEARTBEATS)
        self._replies, self._leadership, self._heartbeats = (PayloadCodec(ENVELOPES[topic], seal=seals.of(topic)) for topic in topics)
        accepted = RequestAccepted(request_id=OWN_REQUEST, reply_partition=0, subject="job")
        self._answer = self._replies.encode(accepted, epoch=1, sequence=5, leader_id="leader-1", log_offset=7)
        self._leads = self._leadership.encode(LeaderHeartbeat(1, "leader-1", "m1", "h:1", 9))
        present: dict[str, Any] = {"incarnation": "i", "sequence": 1, "role": Role.LEADER, "epoch": 1, "log_offset": 9, "feature_level": 1}
        self._is_there = self._leadership.encode(MasterPresence(master_id="m1", **present))

    def messages(self) -> st.SearchStrategy[Message]:
        """Return records of the topics that clients read; replies mostly under the id that is waited for."""
        own = {Topic.REPLIES: [self._answer], Topic.LEADERSHIP: [self._leads, self._is_there], Topic.HEARTBEATS: []}
        keys = st.sampled_from([OWN_REQUEST.encode(), OWN_REQUEST.encode(), b"", b"\xff", None])
        messages = st.one_of(
            [
                st.builds(
                    Message,
                    st.just(str(topic)),
                    Avro(ENVELOPES[topic], [*values, *[value for _, value in recorded()[topic]]]).records(),
                    keys,
                )
                for topic, values in own.items()
            ]
        )
        return sealed_messages(messages, self._seals)

    def check(self, case: Sequence[Message]) -> None:
        """Have all of them read it, and once more without what is not to be believed."""
        case = as_written(case, self._seals)
        found = self._found(case)
        believed = [message for message in case if is_believed(message, self._seals)]
        if len(believed) < len(case):
            assert self._found(believed) == found, "a record without a valid seal had an effect"

    def _found(self, case: Sequence[Message]) -> tuple[Any, ...]:
        said = [message.value for message in case if message.to == Topic.LEADERSHIP]
        heartbeats = Heartbeats(self._seals)
        heartbeats.take([(NOW_MS, message.value) for message in case if message.to == Topic.HEARTBEATS])
        heartbeats.take([(NOW_MS, self._heartbeats.encode(Heartbeat("tm", "tm-1", 1, 1, 1)))])
        assert heartbeats.newest_of("tm-1") == NOW_MS
        return (
            self._answers([message for message in case if message.to == Topic.REPLIES]),
            self._leader(said),
            self._masters(said),
            self._loss(new_fold(seals=self._seals), said),
            list(heartbeats._heard_ms),
        )

    def _answers(self, replies: Sequence[Message]) -> list[Answer]:
        """A forged answer that can be read is taken, as no client can tell it from a true one; everything else is passed over."""
        channel = RequestChannel.__new__(RequestChannel)
        reader = _Read()
        channel._denials, channel._replies, channel._producer, channel._reader = [], self._replies, _Nobody(), reader  # type: ignore[assignment]
        true = Message(str(Topic.REPLIES), self._answer, OWN_REQUEST.encode())
        reader.messages = [KafkaMessage("replies", 0, n, each.key, each.value) for n, each in enumerate([*replies, true])]
        answers = channel.receive(0, {OWN_REQUEST})
        assert Accepted(OWN_REQUEST, "job", 1, 5, "leader-1", 7) in answers
        return answers

    def _leader(self, said: Sequence[bytes]) -> LeaderHeartbeat:
        watch = LeaderWatch(self._leadership)
        watch.start(0, 0)
        for offset, value in enumerate(said):
            watch.see(offset, value)
        found = [watch.see(len(said) + n, self._leads) for n in range(2 * ALONE_HEARTBEATS)][-1]
        assert found is not None, f"who leads is not found: {watch.describe()}"
        assert (found.leader_id, found.epoch) == ("leader-1", 1)
        return found

    def _masters(self, said: Sequence[bytes]) -> dict[str, PresentMaster]:
        records = [RecordRead(number, NOW_MS, None, value) for number, value in enumerate([*said, self._is_there])]
        masters = {each.master_id: each for each in masters_of(records, self._leadership, NOW_MS, 1_000, 100)}
        assert masters["m1"].role is Role.LEADER
        assert not masters["m1"].silent
        return masters

    def _loss(self, fold: Fold, said: Sequence[bytes]) -> str:
        try:
            check_heard(fold, said, self._seals.of(Topic.LEADERSHIP))
        except LogTruncated as error:
            if "said to have read" not in str(error):
                raise
            return str(error)
        return ""

    def close(self) -> None:
        """Nothing was started."""
