"""Answers from the log itself, folded in this process: from the newest snapshot on, and further as the log grows.

A thread keeps the fold. All that is asked while it reads is answered together, as of where the log ended after the last of them was asked.
While Kafka is away, what is asked waits for it, each for as long as it may.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException

from eventflink.blob.job_archives import JobArchives
from eventflink.leadership.fold import Fold
from eventflink.leadership.known_log import KnownLog
from eventflink.log.administration import AdministrationError
from eventflink.log.replay import EndOffset, ReplayStalled, collecting_rarely, read_log
from eventflink.model.backoff import Backoff
from eventflink.model.cluster_access import ClusterAccess
from eventflink.reader.archives.runs import ArchivedRuns
from eventflink.reader.questions import Question, answer_of, look_up
from eventflink.snapshots.loading import read_state

PASSING: Final = (KafkaException, ReplayStalled, AdministrationError)
"""Errors of Kafka that may be over soon."""
FAR_BEHIND: Final = 100_000
"""A fold that is so many records behind begins anew, at the newest snapshot."""
FIRST_LOOK_S: Final = 0.01
LONGEST_LOOK_S: Final = 0.5
"""How often it is looked whether a job has ended: after ever longer pauses, so that long jobs cost little."""

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Asked:
    question: Question
    until: float
    """When Kafka is waited for no longer, by the monotonic clock."""
    began: float = field(default_factory=time.monotonic)
    answer: "Future[dict[str, Any]]" = field(default_factory=Future)


class LocalReader:
    """Answers about one cluster. For any threads."""

    def __init__(self, access: ClusterAccess, archives: Callable[[], JobArchives | None] = lambda: None) -> None:
        """Prepare; nothing is read before the first question. `archives` opens where archives of jobs are, if anywhere."""
        self._access = access
        self._archives = archives
        self._archived_runs = ArchivedRuns()
        self._fold: Fold | None = None
        self._known = KnownLog()
        self._end = EndOffset(access)
        self._lock = threading.Lock()
        self._asked: list[_Asked] = []
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def ask(self, question: Question, timeout_s: float) -> "Future[dict[str, Any]]":
        """Return the answer to come, within `timeout_s` and what the question waits for itself, while Kafka answers.

        It raises what `answer_of` raises; KafkaException, ReplayStalled, AdministrationError where Kafka does not give the log in time; and
        LogTruncated, LogUnusable, LogDiverged, LogNotDense, SecretUnfit where the log cannot be folded.
        """
        asked = _Asked(question, time.monotonic() + timeout_s)
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the reader is closed")
            self._asked.append(asked)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="local-reader", daemon=True)
                self._thread.start()
        self._wake.set()
        return asked.answer

    def close(self) -> None:
        """End; what has no answer yet is cancelled."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join()
        self._end.close()

    def _run(self) -> None:
        waiting: list[_Asked] = []
        looks_s, pause_s = Backoff(FIRST_LOOK_S, LONGEST_LOOK_S), FIRST_LOOK_S
        while True:
            self._wake.wait(pause_s if waiting else None)
            self._wake.clear()
            with self._lock:
                fresh, self._asked = self._asked, []
                if self._is_closed:
                    break
            if fresh:
                looks_s.reset()
            pause_s = looks_s.next()
            waiting = [asked for asked in waiting + fresh if not asked.answer.cancelled()]
            if waiting:
                waiting = self._answer(waiting)
        for asked in waiting + fresh:
            asked.answer.cancel()

    def _answer(self, waiting: list[_Asked]) -> list[_Asked]:
        """Answer as of the end of the log; return what waits on."""
        try:
            fold = self._follow()
        except PASSING as error:
            return [asked for asked in waiting if not self._is_over(asked, error)]
        except Exception as error:  # noqa: BLE001 - raised again where it is asked
            self._fold = None
            for asked in waiting:
                _fail(asked, error)
            return []
        return [asked for asked in waiting if not self._is_answered(asked, fold)]

    def _is_over(self, asked: _Asked, error: Exception) -> bool:
        if time.monotonic() < asked.until + asked.question.wait_s:
            return False
        _fail(asked, error)
        return True

    def _is_answered(self, asked: _Asked, fold: Fold) -> bool:
        question = asked.question
        try:
            found = look_up(question, fold)
            if not found.is_enough(question) and time.monotonic() < asked.began + question.wait_s:
                return False
            # Through JSON, as an answer over HTTP comes: it shares nothing with the state, and has plain values alone.
            view = json.loads(json.dumps(answer_of(question, found, self._archives(), self._archived_runs)))
        except Exception as error:  # noqa: BLE001 - raised again where it is asked
            _fail(asked, error)
        else:
            if asked.answer.set_running_or_notify_cancel():
                asked.answer.set_result(view)
        return True

    def _follow(self) -> Fold:
        """Return the state at the end that the log has now."""
        fold = self._fold
        end = self._end.fetch() if fold is not None else -1
        if fold is None or not fold.last_offset < end <= fold.last_offset + FAR_BEHIND:
            fold = self._fold = read_state(self._access, known=self._known)
            _logger.info("LogFolded cluster=%s offset=%d", self._access.cluster_id, fold.last_offset)
        elif fold.last_offset + 1 < end:
            self._fold = None  # Half a fold is none.
            with collecting_rarely():
                for offset, timestamp_ms, value in read_log(self._access, fold.last_offset + 1, end):
                    fold.fold_record(offset, timestamp_ms, value)
            self._fold = fold
        self._known.note(fold)
        return fold


def _fail(asked: _Asked, error: Exception) -> None:
    if asked.answer.set_running_or_notify_cancel():
        asked.answer.set_exception(error)
