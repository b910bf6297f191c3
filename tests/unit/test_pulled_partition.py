"""Where a partition begins and ends, asked of a client that may not have heard of it yet."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from eventflink.log.pulled_partition import PulledPartition
from eventflink.model.cluster_access import access_to


class NewToIt:
    """A client that hears of a partition late, as on a host where much waits; Kafka has one partition."""

    def __init__(self) -> None:
        self.asked = 0
        self.partitions = {0: None}
        self.topics = {"log": self}

    def list_topics(self, topic: str, timeout: float) -> "NewToIt":
        assert topic == "log"
        assert timeout > 0
        return self

    def get_watermark_offsets(self, place: object, timeout: float, *, cached: bool) -> tuple[int, int]:
        assert place is not None
        assert timeout > 0
        assert not cached
        self.asked += 1
        if self.asked < 3:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return 4, 7


def test_a_partition_that_kafka_has_and_the_client_does_not_know_is_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = PulledPartition(access_to("127.0.0.1:1", "nobody").kafka, "log")
    client = NewToIt()
    monkeypatch.setattr(reader, "_consumer", client)
    assert reader.bounds(60.0) == (4, 7)
    client.asked = 0
    with pytest.raises(KafkaException, match="_UNKNOWN_PARTITION"):
        reader.bounds(60.0, partition=1)
    assert client.asked == 1, "what is not there is not waited for"
