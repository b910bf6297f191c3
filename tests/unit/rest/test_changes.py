"""Whoever follows the changes is told where the state stands and which jobs it was about; nobody who reads slowly or not at all is kept."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from eventflink.reader import observed_state
from eventflink.reader.observed_state import ObservedState
from eventflink.rest.access.identity import AccessRole
from eventflink.rest.own import changes
from tests.support.cluster import ScriptedCluster, graph, replay, vertex
from tests.support.rest_client import rest_client
from tests.support.rest_tokens import NAMES, tokens_of_three


class Reader:
    """A reader of one stream of changes, by ASGI."""

    def __init__(self, state: ObservedState, name: str = "") -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = asyncio.Event()
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.stream: Awaitable[None] = asyncio.create_task(changes.EventStream(state, name)({}, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            await self.reads.wait()
            self.received.put_nowait(message["body"])

    async def frame(self) -> dict[str, Any]:
        lines = (await asyncio.wait_for(self.received.get(), 120)).decode().splitlines()
        document: dict[str, Any] = json.loads(lines[2].removeprefix("data: "))
        assert lines == [f"id: {document['offset']}", "event: at", lines[2], ""]
        return document


def cluster_with_state() -> tuple[ScriptedCluster, ObservedState]:
    cluster = ScriptedCluster()
    cluster.register("tm")
    state = ObservedState()
    state.replace(replay(cluster.log))
    return cluster, state


def follow(cluster: ScriptedCluster, state: ObservedState) -> None:
    first = state.log_offset + 1
    state.advance((first + index, cluster.timestamps[first + index], value) for index, value in enumerate(cluster.log[first:]))


def run(scenario: Callable[[ScriptedCluster, ObservedState], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario(*cluster_with_state())

    asyncio.run(whole())


def test_the_first_frame_says_where_the_state_stands_and_the_next_ones_what_changed() -> None:
    async def scenario(cluster: ScriptedCluster, state: ObservedState) -> None:
        reader = Reader(state)
        first = await reader.frame()
        assert (first["offset"], first["epoch"], first["master_id"]) == (state.log_offset, 1, cluster.master.leader.master_id)
        assert (first["decisions_since"], first["jobs"], first["more"]) == (0, [], False)
        cluster.submit(graph(vertex("a")), job_id="one")
        cluster.submit(graph(vertex("a")), job_id="two")
        follow(cluster, state)
        second = await reader.frame()
        assert (second["offset"], second["jobs"], second["more"]) == (len(cluster.log) - 1, ["one", "two"], False)
        assert second["decisions_since"] == second["offset"] - first["offset"]
        reader.gone.set()
        await reader.stream

    run(scenario)


def test_what_nobody_remembers_any_more_may_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_state, "MAX_REMEMBERED", 1)

    async def scenario(cluster: ScriptedCluster, state: ObservedState) -> None:
        reader = Reader(state)
        await reader.frame()
        for name in ("one", "two", "three"):
            cluster.submit(graph(vertex("a")), job_id=name)
        follow(cluster, state)
        assert (await reader.frame())["more"]
        reader.gone.set()
        await reader.stream

    run(scenario)


def test_a_reader_that_is_slow_gets_one_frame_for_all_that_it_missed() -> None:
    async def scenario(cluster: ScriptedCluster, state: ObservedState) -> None:
        reader = Reader(state)
        await reader.frame()
        reader.reads.clear()
        for name in ("one", "two", "three"):
            cluster.submit(graph(vertex("a")), job_id=name)
            follow(cluster, state)
            await asyncio.sleep(0)
        reader.reads.set()
        seen: set[str] = set()
        while (frame := await reader.frame())["offset"] < len(cluster.log) - 1:
            seen |= set(frame["jobs"])
        assert seen | set(frame["jobs"]) == {"one", "two", "three"}
        assert reader.received.empty()
        reader.gone.set()
        await reader.stream

    run(scenario)


def test_a_reader_that_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "SEND_TIMEOUT_S", 0.01)

    async def scenario(_cluster: ScriptedCluster, state: ObservedState) -> None:
        reader = Reader(state)
        reader.reads.clear()
        await asyncio.wait_for(reader.stream, 120)
        with state.watching():
            assert state._watching.total() == 1

    run(scenario)


def test_streams_end_with_the_process_and_are_bounded_in_number() -> None:
    async def scenario(_cluster: ScriptedCluster, state: ObservedState) -> None:
        readers = [Reader(state) for _ in range(observed_state.MAX_WATCHING)]
        for reader in readers:
            await reader.frame()
        with pytest.raises(observed_state.NotThere), state.watching():
            pass
        state.close()
        await asyncio.wait_for(asyncio.gather(*(reader.stream for reader in readers)), 120)
        assert not state._watching

    run(scenario)


def test_who_waits_for_a_newer_state_waits_no_longer_than_the_process_lives() -> None:
    async def scenario(_cluster: ScriptedCluster, state: ObservedState) -> None:
        waiting = asyncio.create_task(state.read(lambda fold: fold.last_offset, min_offset=10**6, timeout_s=60))
        await asyncio.sleep(0)
        state.close()
        with pytest.raises(observed_state.NotThere, match="this process ends"):
            await asyncio.wait_for(waiting, 120)
        assert (await state.read(lambda fold: fold.last_offset)).value == state.log_offset, "what is there is still answered"

    run(scenario)


def test_one_name_has_its_share_of_the_streams_and_gets_it_back() -> None:
    async def scenario(_cluster: ScriptedCluster, state: ObservedState) -> None:
        readers = [Reader(state, "alice") for _ in range(observed_state.MAX_WATCHING_OF_ONE)]
        for reader in readers:
            await reader.frame()
        with pytest.raises(observed_state.NotThere, match="alice"), state.watching("alice"):
            pass
        with state.watching("bob"), state.watching():
            pass
        readers[0].gone.set()
        await readers[0].stream
        with state.watching("alice"):
            pass
        state.close()
        await asyncio.wait_for(asyncio.gather(*(reader.stream for reader in readers)), 120)

    run(scenario)


def test_whose_token_it_is_counts_the_streams(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(observed_state, "MAX_WATCHING_OF_ONE", 0)
    tokens = tokens_of_three(tmp_path)
    with rest_client(replay(ScriptedCluster().log), **tokens.configuration) as client:
        refused = client.get("/eventflink/v1/changes", headers=tokens.headers(AccessRole.VIEWER))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert refused.json() == {"errors": [f"{NAMES[AccessRole.VIEWER]} watches the state 0 times already: ask again later"]}


def test_silence_is_filled_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "SILENCE_S", 0.01)

    async def scenario(_cluster: ScriptedCluster, state: ObservedState) -> None:
        reader = Reader(state)
        await reader.frame()
        assert (await asyncio.wait_for(reader.received.get(), 120)).startswith(b":")
        reader.gone.set()
        await reader.stream

    run(scenario)
