"""Where the log ends is asked once for all who wait, never before one asked, and by one thread, however long Kafka is silent."""

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from eventflink.reader.log_end import LogEnd
from eventflink.reader.observed_state import NotThere

TIMEOUT_S = 120


class SlowKafka:
    """Answers a question when a test says so."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.answers: queue.Queue[int | None] = queue.Queue()
        self.at_once = self.most_at_once = self.count = 0

    def fetch(self) -> int:
        self.count += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.asked.release()
        answer = self.answers.get(timeout=TIMEOUT_S)
        self.at_once -= 1
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return answer

    async def is_asked(self) -> None:
        assert await asyncio.to_thread(self.asked.acquire, timeout=TIMEOUT_S)


def run(scenario: Callable[[SlowKafka, LogEnd], Awaitable[None]]) -> SlowKafka:
    kafka = SlowKafka()

    async def whole() -> None:
        async with asyncio.timeout(2 * TIMEOUT_S):
            await scenario(kafka, LogEnd(kafka.fetch))

    asyncio.run(whole())
    return kafka


def test_who_asks_while_a_question_is_under_way_gets_the_answer_of_the_next() -> None:
    async def scenario(kafka: SlowKafka, end: LogEnd) -> None:
        first = asyncio.create_task(end.ask())
        await kafka.is_asked()
        later = [asyncio.create_task(end.ask()) for _ in range(100)]
        kafka.answers.put(7)
        assert await first == 6
        await kafka.is_asked()
        kafka.answers.put(9)
        assert set(await asyncio.gather(*later)) == {8}
        last = asyncio.create_task(end.ask())
        await kafka.is_asked()
        kafka.answers.put(12)
        assert await last == 11

    kafka = run(scenario)
    assert (kafka.count, kafka.most_at_once) == (3, 1)


def test_a_question_that_fails_fails_those_who_asked_it_and_who_gave_up_fails_nobody() -> None:
    async def scenario(kafka: SlowKafka, end: LogEnd) -> None:
        asking = [asyncio.create_task(end.ask()) for _ in range(3)]
        await kafka.is_asked()
        asking[0].cancel()
        later = asyncio.create_task(end.ask())
        kafka.answers.put(None)
        for each in asking[1:]:
            with pytest.raises(NotThere, match="Kafka does not say where the log ends"):
                await each
        await kafka.is_asked()
        kafka.answers.put(1)
        assert await later == 0

    run(scenario)
