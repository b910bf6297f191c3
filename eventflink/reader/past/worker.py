"""The process that holds the past for one REST process: it reads the log from its beginning on, and answers questions in between.

    python -m eventflink.reader.past.worker PROCESS_ID_OF_THE_PARENT

It yields to everything else on the host, follows the log for as long as its parent lives, and ends when it cannot go on: its parent starts
another one, which begins anew. Its first input is what to read, each further one a question; its output are answers. What it is asked
before it has read what there is waits for that, for some seconds.
"""

import contextlib
import gc
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, BinaryIO, Final

from confluent_kafka import KafkaException, Message

from eventflink.audit import LogFaulty
from eventflink.audit.entries import Record
from eventflink.events.topics import Topic, topic_name
from eventflink.leadership.fold import LogUnusable
from eventflink.log.administration import AdministrationError, log_topic_id
from eventflink.log.replay import GC_THRESHOLD, ReplayStalled
from eventflink.log.topic_reader import TopicReader
from eventflink.processes import set_parent_death_signal
from eventflink.reader.past.frames import LENGTH, HistoryAnswer, HistoryQuestion, LogToRead, frame_of, value_of
from eventflink.reader.past.historian import Historian
from eventflink.reader.past.port import HistoryRefused
from eventflink.reader.past.reading import open_book

NICENESS: Final = 10
ENDED: Final = 0
FAILED: Final = 1
GENERATIONS: Final = 1_000
"""Collections of young garbage between those of older garbage."""

CATCH_UP_S: Final = 5.0
"""For so long questions wait at the beginning, until the log is read up to its end; then they are answered by what is known."""

_LOOK_S: Final = 0.5
_UNREADABLE: Final = (LogFaulty, LogUnusable, KafkaException, AdministrationError, ReplayStalled)

_logger = logging.getLogger(__name__)


class _LogEnded(Exception):
    """Nothing more of the log can be read; the message says why."""


def answer(historian: Historian, asked: HistoryQuestion) -> HistoryAnswer:
    """Return what a historian answers, whatever comes of it."""
    try:
        return HistoryAnswer(asked.number, historian.answer(asked.question, asked.arguments))
    except HistoryRefused as error:
        return HistoryAnswer(asked.number, None, refused=error)
    except Exception as error:
        _logger.exception("HistoryQuestionFailed question=%s", asked.question)
        return HistoryAnswer(asked.number, None, failure=f"{asked.question}: {type(error).__name__}: {error}")


def read_frame(stream: BinaryIO) -> Any:
    """Return the value of the next frame.

    Raises:
        EOFError: the other end is closed.

    """
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    return value_of(stream.read(length))


class _Worker:
    """One run: two threads hand in records and questions, and the main thread takes them in turn."""

    def __init__(self, told: LogToRead, output: BinaryIO) -> None:
        self._output = output
        self._inbox: queue.SimpleQueue[list[Message] | HistoryQuestion | None] = queue.SimpleQueue()
        self._historian = Historian(open_book(told.access), log_topic_id(told.access), told.settings)
        self._book = self._historian.book
        self._asked: list[HistoryQuestion] = []
        self._next_offset = self._book.first_offset
        self._waits_until_s = time.monotonic() + CATCH_UP_S
        self._reader = TopicReader(told.access.kafka, topic_name(told.access.cluster_id, Topic.LOG), self._book.first_offset, is_dense=True)

    def run(self, questions: BinaryIO) -> None:
        """Answer until the parent ends.

        Raises:
            LogFaulty: a record does not fit those before it.
            _LogEnded: no more of the log comes.

        """
        threading.Thread(target=self._take_questions, args=(questions,), daemon=True).start()
        self._reader.be_prompt(is_waited_for=True)
        self._reader.start(self._inbox.put)
        while True:
            try:
                item = self._inbox.get(timeout=_LOOK_S)
            except queue.Empty:
                if self._reader.failure:
                    raise _LogEnded(self._reader.failure) from None
                item = []
            if item is None:
                return
            if isinstance(item, HistoryQuestion):
                self._asked.append(item)
            elif item:
                self._book.follow(_records_of(item))
                self._next_offset = (item[-1].offset() or 0) + 1
                self._reader.give_back()
            if self._asked and self._may_answer():
                for asked in self._asked:
                    self._say(answer(self._historian, asked))
                self._asked.clear()

    def _may_answer(self) -> bool:
        """Tell whether the log was read up to its end once, or that takes too long; from then on, nothing waits."""
        end_offset = self._reader.end_offset
        if end_offset is not None and self._next_offset >= end_offset:
            self._waits_until_s = 0.0
        return time.monotonic() >= self._waits_until_s

    def _take_questions(self, questions: BinaryIO) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._inbox.put(read_frame(questions))
        self._inbox.put(None)

    def _say(self, said: HistoryAnswer) -> None:
        try:
            frame = frame_of(said)
        except Exception as error:  # noqa: BLE001 - an answer that cannot be sent is one that failed
            frame = frame_of(HistoryAnswer(said.number, None, failure=f"the answer cannot be sent: {error}"))
        self._output.write(frame)
        self._output.flush()


def _records_of(messages: Iterable[Message]) -> Iterable[Record]:
    return ((message.offset() or 0, message.timestamp()[1], message.value() or b"") for message in messages)


def main(arguments: list[str]) -> int:
    """Serve one parent; return the exit code."""
    set_parent_death_signal()
    if [str(os.getppid())] != arguments:
        return FAILED
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Of a terminal: the parent ends in order, and this process with it.
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # Whatever else is printed here must not get among the answers.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # States are taken apart when they are not used any more; walking through those that are would take longer than any answer.
    gc.set_threshold(GC_THRESHOLD, GENERATIONS, GENERATIONS)
    try:
        told = read_frame(sys.stdin.buffer)
        _Worker(told, output).run(sys.stdin.buffer)
    except (EOFError, BrokenPipeError):
        return ENDED
    except (*_UNREADABLE, _LogEnded) as error:
        _logger.warning("HistoryEnded reason=%s error=%s", type(error).__name__, error)
        return FAILED
    return ENDED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
