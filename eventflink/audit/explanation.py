"""`why`: reads a log twice and puts together what a thing is now and the chain of decisions that led there.

The first reading folds the log and finds what the id names; the second collects what concerns it. Memory is that of the
state, one byte for each record, and a bounded chain.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from eventflink.audit import NothingKnown
from eventflink.audit.cause_chain import CauseChain, ChainBuilder, Origins
from eventflink.audit.entries import Entry, FoldJudge, Record, foreign_entry
from eventflink.audit.log_source import LogSource
from eventflink.audit.plain import plain
from eventflink.audit.standing import Standing, standing_of
from eventflink.audit.subjects import Subject, SubjectFinder
from eventflink.events.wording import iso_time
from eventflink.leadership.fold import Fold


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to `why`."""

    subject: Subject
    standing: Standing
    chain: CauseChain
    fold: Fold
    """The state that the answer is about."""


def explain_why(source: LogSource, text: str, fold: Fold) -> Explanation:
    """Return what the id `text` names, what it is now, and why; `fold` is an empty one.

    Raises:
        NothingKnown: nothing has the id, several jobs begin with it, or the beginning of the log was trimmed away.
        LogFaulty: the log cannot be folded.

    """
    finder = SubjectFinder(text)
    first, end = source.bounds()
    if first:
        raise NothingKnown(
            f"the log begins at offset {first}, and what was before is needed to say why; 'eventflink events' shows what is there"
        )
    origins, judge = Origins(), FoldJudge(fold)
    rejected = bytearray()
    for record in source.read(first, end):
        entry = judge.judge_record(record)
        if entry is not None:
            finder.follow_entry(entry)
            origins.follow_entry(entry, fold.master.follow_ups)
            rejected.append(not entry.accepted)
    subject = finder.resolve(fold.master)
    builder = ChainBuilder(subject, origins)

    def entry_of(record: Record) -> Entry:
        offset, timestamp_ms, value = record
        if fold.codec.is_foreign(offset, value):
            return foreign_entry(record)
        rejection = "it was rejected" if rejected[offset] else None
        return Entry(offset, timestamp_ms, len(value), fold.codec.decode(value), rejection)

    for record in source.read(first, end):
        builder.follow_entry(entry_of(record))
    chain = builder.chain(lambda offset: entry_of(next(source.read(offset, offset + 1))))
    return Explanation(subject, standing_of(subject, fold.master), chain, fold)


def explanation_view(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain values; it holds times, and leaves how long something has waited to the reader."""
    standing, chain = explanation.standing, explanation.chain
    return {
        "type": str(explanation.subject.subject_type),
        "id": explanation.subject.name,
        "state": standing.state,
        **standing.facts,
        "cause": plain(standing.cause),
        "waits": [
            {"what": wait.what, "why": wait.why, "since": iso_time(wait.since_ms) if wait.since_ms else None} for wait in standing.waits
        ],
        "chain": [{**dataclasses.asdict(step), "decided_at": iso_time(step.decided_at_ms)} for step in chain.steps],
        "omitted": chain.omitted,
        "log_offset": explanation.fold.last_offset,
    }
