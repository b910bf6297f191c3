"""A task that speaks to Kafka itself; tests pack this file into an archive. It is no part of `user_tasks`, which loads no client."""

from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition


def copy_records(context: Any) -> None:
    """Copy `count` records of a topic in upper case to another one, in a transaction that is aborted and one that is committed."""
    kafka, source, target = ({"bootstrap.servers": context.parameters["bootstrap"]}, *(context.parameters[n] for n in ("source", "target")))
    consumer = Consumer(kafka | {"group.id": context.job_id})
    consumer.assign([TopicPartition(source, partition, 0) for partition in range(context.parameters["partitions"])])
    records: list[Any] = []
    while len(records) < context.parameters["count"]:
        records += [message for message in consumer.consume(100, 1) if message.error() is None]
    consumer.close()
    producer = Producer(kafka | {"transactional.id": context.job_id})
    producer.init_transactions(30)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for message in records:
            producer.produce(target, message.value().upper(), message.key(), timestamp=message.timestamp()[1])
        producer.flush(30)
        end(30)
