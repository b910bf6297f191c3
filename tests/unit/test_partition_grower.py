"""Partitions are added to `deployments` in the background, and a refusal costs nothing but itself."""

import asyncio
import logging

import pytest

from eventflink.entrypoint.partition_grower import PartitionGrower
from eventflink.log.admin_connection import AccessRefused, AdministrationError


class _Topic:
    """What is to get partitions; it refuses while it has an error."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.asked: list[int] = []
        self.error: AdministrationError | None = None
        self.grower = PartitionGrower(self._grow, lambda: self.now_ms)

    def _grow(self, partitions: int) -> None:
        self.asked.append(partitions)
        if self.error is not None:
            raise self.error

    async def want(self, partitions: int, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        for _ in range(2):
            self.grower.submit(partitions)  # The leader says it again and again.
        if self.grower._work is not None:
            await self.grower._work


def test_each_number_is_seen_to_once() -> None:
    async def run() -> list[int]:
        topic = _Topic()
        for partitions in (8, 8, 6, 20, 20):
            await topic.want(partitions)
        return topic.asked

    assert asyncio.run(run()) == [8, 20]


def test_a_refusal_is_said_once_and_the_tries_become_fewer(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[int]:
        topic = _Topic()
        topic.error = AccessRefused("User:master may not Alter topic 'c.deployments'")
        for after_ms in (0, 1_999, 1, 3_999, 1):
            await topic.want(8, after_ms)
        topic.error = None
        await topic.want(8, 8_000)
        await topic.want(8, 8_000)
        topic.grower.close()
        return topic.asked

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(run()) == [8] * 4
    refusal = "PartitionsNotAdded topic=deployments wanted=8 reason=User:master may not Alter topic 'c.deployments'"
    assert [record.getMessage() for record in caplog.records] == [refusal]
