"""Reads for a gateway that asks often: it remembers which master answered, and looks for others when none does.

Every read is answered by any master that has read the log to where it ended when it was asked (L4). A master that is silent is passed over;
when all are, the masters are looked for again, after pauses that grow, until the deadline: a failover costs time and is not an error.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from eventflink.gateways.errors import ClusterUnreachable
from eventflink.gateways.reads import DEFAULT_MASTER_TIMEOUT_S, MAX_MASTERS, KnownMaster, MasterSilent, NoMasterAnswered
from eventflink.gateways.steps import FIRST_PAUSE_S, MAX_PAUSE_S, FindMasters, Get, Parameters, Pause, Steps, random_fraction
from eventflink.model.backoff import Backoff

_FIND_TIMEOUT_S: Final = 5.0


@dataclass(slots=True)
class MasterReads:
    """What one connection knows of the masters of one cluster; with a clock in seconds, which a test may hold in its hand."""

    cluster_id: str
    request_timeout_s: float
    clock: Callable[[], float] = time.monotonic
    fraction: Callable[[], float] = random_fraction
    known: list[KnownMaster] = field(default_factory=list)
    """Those that were not silent since they were looked for; the first is asked first."""

    def read(
        self,
        path: str,
        parameters: Parameters | None = None,
        *,
        deadline: float | None = None,
        timeout_s: float = DEFAULT_MASTER_TIMEOUT_S,
    ) -> Steps[dict[str, Any]]:
        """Ask for `path` until a master answers.

        Each has `timeout_s`; all of them together until `deadline` by the clock, or for `request_timeout_s`.

        Raises:
            NothingThere: what is asked for does not exist.
            QuestionInvalid: the path does not take these parameters.
            NoMasterAnswered: no master answered in time; the message says what each of them did instead.
            ClusterUnreachable: Kafka, which names the masters, did not answer either.
            ClusterNotFound: Kafka holds no such cluster.

        """
        deadline = self.clock() + self.request_timeout_s if deadline is None else deadline
        wanted: Parameters = {"linearizable": "true", **(parameters or {})}
        backoff = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S)
        silences: dict[str, str] = {}
        unreachable: ClusterUnreachable | None = None
        while True:
            if not self.known:
                try:
                    yield from self._find(deadline)
                    unreachable = None
                except ClusterUnreachable as error:
                    unreachable = error
            for master in list(self.known):
                left_s = deadline - self.clock()
                if left_s <= 0:
                    break
                try:
                    answer: dict[str, Any] = yield Get(master.presence.query_address, path, wanted, min(timeout_s, left_s))
                except MasterSilent as error:
                    silences[master.master_id] = str(error)
                    self._forget(master)
                else:
                    return answer
            pause_s = backoff.next_jittered(self.fraction())
            if self.clock() + pause_s >= deadline:
                if unreachable is not None and not silences:
                    raise unreachable
                raise NoMasterAnswered(self._describe(silences))
            yield Pause(pause_s)

    def _find(self, deadline: float) -> Steps[None]:
        found: list[KnownMaster] = yield FindMasters(max(0.1, min(_FIND_TIMEOUT_S, deadline - self.clock())))
        self.known = [master for master in found if master.presence.query_address][:MAX_MASTERS]

    def _forget(self, master: KnownMaster) -> None:
        # By value: another read may have looked for the masters again meanwhile.
        self.known = [known for known in self.known if known.presence.query_address != master.presence.query_address]

    def _describe(self, silences: dict[str, str]) -> str:
        if not silences:
            return f"no master of '{self.cluster_id}' was heard of lately"
        said = "; ".join(f"{master_id}: {silence}" for master_id, silence in silences.items())
        return f"no master of '{self.cluster_id}' answered: {said}"
