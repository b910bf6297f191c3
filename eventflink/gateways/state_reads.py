"""Reading the state of a cluster: the one rule by which the command line, the gateways and `eventflink.connect` ask.

1. The REST process of the cluster, where one is known (`rest_process.py`).
2. Where there is none, or it is silent, the log is folded here, from the newest snapshot on (`folding.py`, `reader/local.py`).

Both give the same answer (`reader/questions.py`), as of where the log ended when it was asked, with or without a master that runs. Who
drives a method performs the steps; what decides is imported only by who folds.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from eventflink.gateways.rest_process import TIMEOUT_S, RestProcess, RestSilent, ask_rest, rest_process_of
from eventflink.gateways.steps import AskRest, FoldLog, Parameters, Steps, random_fraction
from eventflink.model.cluster_access import ClusterAccess

if TYPE_CHECKING:
    from eventflink.blob.job_archives import JobArchives
    from eventflink.model.configuration import Configuration

ASK_AGAIN_S: Final = 10.0
"""For so long a REST process that was silent, or was not there, is not asked."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What a configuration knows beside Kafka's address."""

    find_rest: Callable[[], RestProcess | None] = lambda: None
    open_archives: "Callable[[], JobArchives | None]" = lambda: None


NO_SOURCES: Final = Sources()


def sources_of(configuration: "Configuration", bootstrap: Callable[[], str], cluster_id: str) -> Sources:
    """Return where a configuration says that a cluster can be read; nothing is opened yet."""

    def open_archives() -> "JobArchives | None":
        from eventflink.blob.job_archives import JobArchives  # noqa: PLC0415 - for those whose job has left the memory
        from eventflink.blob.open_storage import open_storage  # noqa: PLC0415 - see above

        location = configuration.archive_location
        return JobArchives(open_storage(location, "jobmanager.archive.fs.dir"), 0) if location else None

    return Sources(lambda: rest_process_of(configuration, bootstrap, cluster_id), open_archives)


@dataclass(slots=True)
class StateReads:
    """The reads of one connection; with a clock in seconds, which a test may hold in its hand."""

    access: ClusterAccess
    request_timeout_s: float
    sources: Sources = NO_SOURCES
    clock: Callable[[], float] = time.monotonic
    fraction: Callable[[], float] = random_fraction
    """Of pauses that are jittered."""
    _rest: RestProcess | None = None
    """The process that answered last."""
    _ask_at_s: float = field(default=float("-inf"))

    def read(self, path: str, parameters: Parameters | None = None, *, wait_s: float = 0.0) -> Steps[dict[str, Any]]:
        """Ask for `path`; the question waits for `wait_s` itself.

        Raises:
            NothingThere: what is asked for does not exist.
            QuestionInvalid: the path does not take these parameters.
            ArchiveUnusable: the job has left the memory, and its archive is damaged or gone.
            ClusterUnreachable, ClusterNotFound, AccessDenied: nobody but Kafka is left to be asked, and it does not give the log.
            LogUnfoldable, LogNotTrusted: the log cannot be folded, or has less than was known to be in it.

        """
        wanted: Parameters = dict(parameters or {})
        if (rest := self._find_rest()) is not None:
            try:
                answer: dict[str, Any] = yield AskRest(rest, path, wanted, min(TIMEOUT_S, self.request_timeout_s) + wait_s)
            except RestSilent:
                self._rest, self._ask_at_s = None, self.clock() + ASK_AGAIN_S
            else:
                return answer
        folded: dict[str, Any] = yield FoldLog(path, wanted, self.request_timeout_s, wait_s)
        return folded

    def _find_rest(self) -> RestProcess | None:
        if self._rest is None and self.clock() >= self._ask_at_s:
            self._rest = self.sources.find_rest()
            if self._rest is None:
                self._ask_at_s = self.clock() + ASK_AGAIN_S
        return self._rest


def perform_rest(step: AskRest) -> dict[str, Any]:
    """Ask the process that a step names; blocks, and raises as `ask_rest` does."""
    return ask_rest(step.rest, f"/state{step.path}", step.parameters, step.timeout_s)
