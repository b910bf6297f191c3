"""The past of a REST process in a process of its own, as its parent has it: started when it is first asked, and again when it ends.

The event loop never waits for it but in `ask`, and every question has a time limit. The rule: what is asked while nobody answers is refused
with the reason; the present does not depend on it.
"""

import asyncio
import logging
import os
import sys
import time
from contextlib import suppress
from itertools import count
from typing import Any, Final

from eventflink.model.backoff import Backoff
from eventflink.reader.past.frames import LENGTH, HistoryAnswer, HistoryQuestion, LogToRead, frame_of, value_of
from eventflink.reader.past.port import HistoryRefused, Refusal

MAX_ASKED: Final = 64
"""Questions that wait for their answers at once."""

MAX_IN_FLIGHT: Final = 2
"""Questions that the process has at once; whoever gives up before that costs it nothing."""

ANSWER_TIMEOUT_S: Final = 10.0
STUCK_S: Final = 60.0
"""A process that is asked and says nothing for so long is ended."""

NEAR_S: Final = 1.0
"""For so long a record is waited for that is not indexed yet: it may have come just now."""

FIRST_START_S: Final = 5.0
"""For so long the first questions wait for the process to be there; it is there at once, unless the host is very busy."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""Between two starts; each pause is twice the one before, until one has lived for long."""

LONG_LIFE_S: Final = 60.0
_ASK_AGAIN_S: Final = 0.05
_STOP_TIMEOUT_S: Final = 5.0

_logger = logging.getLogger(__name__)


class HistoryFailed(Exception):
    """A question went wrong in a way that it should not have; the message says what the process said."""


class HistoryProcess:
    """Asks the process, which it keeps alive. For one event loop, that of the main thread."""

    def __init__(self, told: LogToRead) -> None:
        """Prepare; nothing runs before the first question."""
        self._told = told
        self._keeper: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._is_there = asyncio.Event()
        """Whether it was started once."""
        self._process: asyncio.subprocess.Process | None = None
        self._asked: dict[int, asyncio.Future[HistoryAnswer]] = {}
        self._turns = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._waiting = 0
        self._numbers = count()
        self._heard_s = 0.0
        self._starts = 0

    async def stop(self) -> None:
        """End the process, if there is one; what is asked from now on is refused."""
        self._is_stopped = True
        self._is_there.set()  # Nobody waits for it any more.
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper

    @property
    def process_id(self) -> int | None:
        """The process, if there is one."""
        return self._process.pid if self._process is not None else None

    def health(self) -> tuple[str, int]:
        """Return why nothing can be asked now, empty if it can, and how often the process was started again."""
        restarts = max(0, self._starts - 1)
        if self._is_stopped:
            return "this process ends", restarts
        is_startable = self._keeper is None  # The first question starts it.
        return "" if is_startable or self._process is not None else "the process that holds the past is being started", restarts

    async def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer of the method of `Historian` that has this name.

        Raises:
            HistoryRefused: there is none, now or at all.
            HistoryFailed: the process failed to answer.

        """
        if self._keeper is None and not self._is_stopped:
            self._keeper = asyncio.create_task(self._keep(), name="history")
        until = time.monotonic() + NEAR_S
        while True:
            answer = await self._ask_once(question, arguments)
            if answer.failure:
                raise HistoryFailed(answer.failure)
            if answer.refused is None:
                return answer.value
            if answer.refused.refusal is not Refusal.NOT_YET or time.monotonic() > until:
                raise answer.refused
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _ask_once(self, question: str, arguments: tuple[Any, ...]) -> HistoryAnswer:
        if self._waiting >= MAX_ASKED:
            raise HistoryRefused(Refusal.NOT_YET, f"{MAX_ASKED} questions about the past wait for their answers already: ask again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S), self._turns:
                return await self._ask_process(question, arguments)
        except TimeoutError:
            self._end_if_stuck()
            raise HistoryRefused(Refusal.NOT_YET, f"the past did not answer within {ANSWER_TIMEOUT_S:g} s: ask again later") from None
        finally:
            self._waiting -= 1

    async def _ask_process(self, question: str, arguments: tuple[Any, ...]) -> HistoryAnswer:
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_START_S):
                await self._is_there.wait()
        process = self._process
        if process is None or process.stdin is None:
            raise HistoryRefused(Refusal.NOT_YET, self.health()[0])
        number = next(self._numbers)
        if not self._asked:
            self._heard_s = time.monotonic()
        future: asyncio.Future[HistoryAnswer] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            with suppress(ConnectionError):  # It has just ended, and whoever keeps it says so.
                process.stdin.write(frame_of(HistoryQuestion(number, question, arguments)))
                await process.stdin.drain()
            return await future
        finally:
            del self._asked[number]

    def _end_if_stuck(self) -> None:
        process, silent_s = self._process, time.monotonic() - self._heard_s
        if process is not None and silent_s > STUCK_S:
            _logger.warning("HistoryStuck process_id=%d silent_s=%.0f", process.pid, silent_s)
            process.kill()

    async def _keep(self) -> None:
        pauses_s = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            started_s = time.monotonic()
            try:
                await self._run_once()
            except OSError as error:
                _logger.warning("HistoryNotStarted error=%s", error)
            if time.monotonic() - started_s > LONG_LIFE_S:
                pauses_s.reset()
            await asyncio.sleep(pauses_s.next())

    async def _run_once(self) -> None:
        """Start the process and hear what it says until it ends."""
        command = (sys.executable, "-m", "eventflink.reader.past.worker", str(os.getpid()))
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        assert process.stdin is not None  # noqa: S101 - for the type checker: a pipe was asked for
        assert process.stdout is not None  # noqa: S101 - the same
        try:
            with suppress(ConnectionError):
                process.stdin.write(frame_of(self._told))
                await process.stdin.drain()
            self._process, self._heard_s = process, time.monotonic()
            self._starts += 1
            self._is_there.set()
            _logger.info("HistoryStarted process_id=%d", process.pid)
            await self._hear(process.stdout)
            code = await process.wait()
            _logger.warning("HistoryProcessEnded process_id=%d exit_code=%d", process.pid, code)
        finally:
            self._process = None
            self._refuse_all("the process that held the past has ended, and another one is started: ask again later")
            await _end(process)

    async def _hear(self, output: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = LENGTH.unpack(await output.readexactly(LENGTH.size))
                said: HistoryAnswer = value_of(await output.readexactly(length))
                self._heard_s = time.monotonic()
                if (future := self._asked.get(said.number)) is not None and not future.done():
                    future.set_result(said)

    def _refuse_all(self, reason: str) -> None:
        for number, future in self._asked.items():
            if not future.done():
                future.set_result(HistoryAnswer(number, None, refused=HistoryRefused(Refusal.NOT_YET, reason)))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that may have ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await process.wait()
