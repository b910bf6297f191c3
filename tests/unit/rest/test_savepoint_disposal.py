"""Savepoints are removed in the background, and what became of the newest removals is known."""

import asyncio
from pathlib import Path

import pytest

from eventflink.rest.operations import MAX_KEPT, MAX_UNDER_WAY, Operations, TooManyOperations
from tests.support.cluster import ScriptedCluster
from tests.support.rest_client import commanding_client


def test_what_is_no_savepoint_is_not_removed_and_the_reason_is_told(tmp_path: Path) -> None:
    with commanding_client(ScriptedCluster()) as client:
        answer = client.post("/savepoint-disposal", json={"savepoint-path": str(tmp_path)})
        assert answer.status_code == 200
        path = f"/savepoint-disposal/{answer.json()['request-id'].upper()}"
        while (status := client.get(path).json())["status"]["id"] == "IN_PROGRESS":
            assert status["operation"] is None
    cause = status["operation"]["failure-cause"]
    assert cause["class"] == "InvalidSavepoint"
    assert str(tmp_path) in cause["stack-trace"]
    assert tmp_path.exists()


def test_a_removal_that_nobody_asked_for_is_not_known() -> None:
    with commanding_client(ScriptedCluster()) as client:
        assert client.get("/savepoint-disposal/none").status_code == 404
        assert client.post("/savepoint-disposal", json={}).status_code == 400


async def nothing() -> None:
    pass


async def wait_for(event: asyncio.Event) -> None:
    await event.wait()


def test_of_operations_the_newest_are_kept() -> None:
    async def run() -> None:
        operations = Operations()
        first = newest = operations.start(nothing())
        for _ in range(MAX_KEPT):
            newest = operations.start(nothing())
            await operations.tasks[newest]
        assert first not in operations.tasks
        assert newest in operations.tasks
        assert len(operations.tasks) == MAX_KEPT

    asyncio.run(run())


def test_operations_that_are_under_way_are_bounded() -> None:
    async def run() -> None:
        operations, go_on = Operations(), asyncio.Event()
        ids = [operations.start(wait_for(go_on)) for _ in range(MAX_UNDER_WAY)]
        with pytest.raises(TooManyOperations, match="ask again later"):
            operations.start(nothing())
        go_on.set()
        await asyncio.gather(*(operations.tasks[each] for each in ids))
        assert operations.start(nothing())

    asyncio.run(run())
