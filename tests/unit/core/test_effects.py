"""What the world is told after a decision, and what it is told again."""

from collections.abc import Iterable

import pytest

from eventflink.events.effects import FileUploadOrder, TaskCancellation, TaskDeployment, TaskManagerFileUploadOrder
from eventflink.events.log_events import LogEvent, TaskManagerReportReconciled
from eventflink.leadership import leader
from eventflink.master.effects import (
    ArchiveJob,
    CleanUp,
    Deployment,
    Effect,
    RequestWorker,
    StopWorker,
    WorkersWanted,
    effects_of,
    unacknowledged,
)
from eventflink.master.master import Master
from tests.support.scenarios import eventful_cluster

UNTIL_CONFIRMED = (
    TaskDeployment,
    TaskCancellation,
    FileUploadOrder,
    TaskManagerFileUploadOrder,
    CleanUp,
    ArchiveJob,
    RequestWorker,
    StopWorker,
)


def _resent(master: Master) -> list[Effect]:
    """Return what is resent, the workers one by one."""
    effects: list[Effect] = []
    for effect in unacknowledged(master):
        effects.extend(effect.pending if isinstance(effect, WorkersWanted) else [effect])
    return effects


def test_what_is_resent_is_what_was_sent_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """One who never heard of an effect, and one who hears of it twice, are told the same."""
    sent: set[type[object]] = set()

    def checked(master: Master, events: Iterable[LogEvent]) -> list[Effect]:
        effects, again = effects_of(master, events), _resent(master)
        unknown = {a.attempt_id for e in events if isinstance(e, TaskManagerReportReconciled) for a in e.unknown}
        for effect in effects:
            what = effect.payload if isinstance(effect, Deployment) else effect
            if isinstance(what, UNTIL_CONFIRMED) and not (isinstance(what, TaskCancellation) and what.attempt_id in unknown):
                sent.add(type(what))
                if isinstance(what, StopWorker):  # What is not wanted is stopped: a driver is told what is.
                    assert what.worker_id not in [w.worker_id for w in again if isinstance(w, RequestWorker)]
                elif not isinstance(what, RequestWorker) or master.settings.workers is not None:
                    assert effect in again
        return effects

    monkeypatch.setattr(leader, "effects_of", checked)
    eventful_cluster()
    assert sent == set(UNTIL_CONFIRMED)
