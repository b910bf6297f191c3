"""The past is asked of another process, a few questions at a time: who gives up costs it nothing, and nobody waits for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from eventflink.master.settings import MasterSettings
from eventflink.model.cluster_access import access_to
from eventflink.reader.past import history_process
from eventflink.reader.past.frames import LENGTH, HistoryAnswer, LogToRead, frame_of, value_of
from eventflink.reader.past.history_process import MAX_IN_FLIGHT, HistoryFailed, HistoryProcess
from eventflink.reader.past.port import HistoryRefused, Refusal
from tests.support.hand import NOWHERE


class Wire:
    """Both ends of the pipes of a process that answers what a test says."""

    def __init__(self) -> None:
        self.pid = 4711
        self.stdin = self
        self.stdout = self.output = asyncio.StreamReader()
        self.returncode = 0
        self.asked: list[Any] = []

    def write(self, data: bytes) -> None:
        self.asked.append(value_of(data[LENGTH.size :]))

    async def drain(self) -> None:
        """Hold nothing back."""

    def say(self, answer: HistoryAnswer) -> None:
        self.output.feed_data(frame_of(answer))


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[HistoryProcess, Wire]]:
    history, wire = HistoryProcess(LogToRead(access_to(NOWHERE, "nobody"), MasterSettings())), Wire()
    history._process = wire  # type: ignore[assignment]
    history._is_there.set()
    history._keeper = hearing = asyncio.create_task(history._hear(wire.output))
    try:
        yield history, wire
    finally:
        hearing.cancel()
        with suppress(asyncio.CancelledError):
            await hearing


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_question_that_was_given_up_before_its_turn_is_never_asked() -> None:
    async def scenario() -> None:
        async with connected() as (history, wire):
            asking = [asyncio.create_task(history.ask("bounds", number)) for number in range(4)]
            await settle()
            assert [question.arguments for question in wire.asked] == [(0,), (1,)]
            assert len(wire.asked) == MAX_IN_FLIGHT
            asking[2].cancel()
            wire.say(HistoryAnswer(wire.asked[0].number, "first"))
            assert await asking[0] == "first"
            await settle()
            assert [question.arguments for question in wire.asked[2:]] == [(3,)]
            for question in wire.asked[1:]:
                wire.say(HistoryAnswer(question.number, question.arguments[0]))
            assert (await asking[1], await asking[3]) == (1, 3)

    asyncio.run(scenario())


def test_what_is_refused_or_fails_in_the_process_does_so_for_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_process, "NEAR_S", 0.0)

    async def scenario() -> None:
        async with connected() as (history, wire):
            refused = asyncio.create_task(history.ask("page"))
            failed = asyncio.create_task(history.ask("why"))
            await settle()
            wire.say(HistoryAnswer(wire.asked[0].number, None, refused=HistoryRefused(Refusal.GONE, "history begins at offset 7")))
            wire.say(HistoryAnswer(wire.asked[1].number, None, failure="why: LookupError"))
            with pytest.raises(HistoryRefused, match="history begins at offset 7") as caught:
                await refused
            assert caught.value.refusal is Refusal.GONE
            with pytest.raises(HistoryFailed, match="why: LookupError"):
                await failed

    asyncio.run(scenario())


def test_too_many_questions_and_those_of_a_process_that_ends_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_process, "MAX_ASKED", 3)
    monkeypatch.setattr(history_process, "NEAR_S", 0.0)

    async def scenario() -> None:
        async with connected() as (history, _):
            asking = [asyncio.create_task(history.ask("bounds")) for _ in range(3)]
            await settle()
            with pytest.raises(HistoryRefused, match="3 questions about the past wait"):
                await history.ask("bounds")
            history._process = None
            history._refuse_all("the process has ended")
            outcomes = await asyncio.gather(*asking, return_exceptions=True)
            assert all(isinstance(outcome, HistoryRefused) and outcome.refusal is Refusal.NOT_YET for outcome in outcomes)

    asyncio.run(scenario())


def test_the_process_starts_with_the_first_question_and_never_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[str]()
    wires = list[Wire]()

    async def start(*command: str, **_pipes: int) -> Wire:
        started.append(command[2])
        await asyncio.sleep(0)
        wires.append(Wire())
        return wires[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)

    async def scenario() -> None:
        history = HistoryProcess(LogToRead(access_to(NOWHERE, "nobody"), MasterSettings()))
        await settle()
        assert (started, history.process_id, history.health()) == ([], None, ("", 0))
        asking = [asyncio.create_task(history.ask("bounds", number)) for number in range(2)]
        await settle()
        told, *asked = wires[0].asked
        assert (started, len(asked), isinstance(told, LogToRead)) == (["eventflink.reader.past.worker"], 2, True)
        for question in asked:
            wires[0].say(HistoryAnswer(question.number, question.arguments[0]))
        assert await asyncio.gather(*asking) == [0, 1]
        await history.stop()
        with pytest.raises(HistoryRefused, match="this process ends"):
            await history.ask("bounds")
        assert (len(started), history.health()) == (1, ("this process ends", 0))

    asyncio.run(scenario())


def test_a_history_that_nobody_asked_ends_and_does_not_start() -> None:
    async def scenario() -> None:
        history = HistoryProcess(LogToRead(access_to(NOWHERE, "nobody"), MasterSettings()))
        await history.stop()
        with pytest.raises(HistoryRefused, match="this process ends"):
            await history.ask("bounds")
        assert history.process_id is None

    asyncio.run(scenario())
