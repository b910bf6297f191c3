"""What the topics of a cluster hold now, each held against what the others know of it (P5a): for people, and for a repair.

Kafka is only read. The rule: what a master would stop at is a finding here, and the survey goes on, so that it tells all that is wrong, how
far the log can be folded, and what is left to go on from.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from eventflink.events.seal import seals_of
from eventflink.events.topics import INBOUND, SPECIFICATIONS, Topic, topic_name
from eventflink.leadership.acceptance import LogNotDense
from eventflink.leadership.fold import Fold, LogDiverged, LogUnusable
from eventflink.leadership.intake import HEARD_BACK_RECORDS, InboundTopic, TopicReplaced
from eventflink.leadership.known_log import LogTruncated, heard_offset, missing, place_inbound
from eventflink.log.admin_connection import AdminConnection, Watermarks
from eventflink.log.administration import check_was_never_written
from eventflink.log.replay import ReplayStalled, new_fold, read_log
from eventflink.log.stored_topic import read_last
from eventflink.log.topic_checks import DURABLE_TOPICS
from eventflink.model.cluster_access import ClusterAccess
from eventflink.snapshots.loading import LoadedSnapshot, check_log_of, find_snapshot, is_log_of
from eventflink.snapshots.snapshot import ANY_LOG, LogRange
from eventflink.snapshots.topic import list_snapshots


@dataclass(frozen=True, slots=True)
class TopicExtent:
    """One topic as it is now."""

    topic: Topic
    topic_id: str
    """Kafka's; empty: the broker has none."""
    first_offset: int
    end_offset: int
    """Of its partition 0."""


@dataclass(frozen=True, slots=True)
class LogFinding:
    """One thing that a master would not go on from."""

    topic: Topic
    reason: str


@dataclass(slots=True)
class LogSurvey:
    """What was found."""

    topics: dict[Topic, TopicExtent]
    findings: list[LogFinding] = field(default_factory=list)
    fold: Fold | None = None
    """The log, up to its end or to the first record that cannot be folded; None: there is nothing to begin with."""
    snapshot: LoadedSnapshot | None = None
    """The newest that is whole and holds what it says, whatever has become of the log."""
    known_end: int = 0
    """Behind the last record that the log is known to have had."""

    @property
    def provable_end(self) -> int:
        """Behind the last record up to which the log can be folded; 0: none."""
        return self.fold.last_offset + 1 if self.fold is not None else 0

    @property
    def log(self) -> LogRange:
        """The log as a snapshot is held against it."""
        found = self.topics.get(Topic.LOG)
        return LogRange("", 0, 0) if found is None else LogRange(found.topic_id, found.first_offset, found.end_offset)

    def undecided(self) -> dict[str, int]:
        """Return how many offsets of each inbound topic lie behind its cursor."""
        cursors = self.fold.master.requests.cursors if self.fold is not None else {}
        ends = {topic: self.topics[topic].end_offset for topic in INBOUND if topic in self.topics}
        return {str(topic): max(0, end - cursors[topic].next_offset) for topic, end in ends.items() if topic in cursors}

    def hold(self, topic: Topic, check: Callable[[], object]) -> None:
        """Make a finding of what a check raises."""
        try:
            check()
        except LogTruncated as error:
            self.findings.append(LogFinding(Topic(error.topic), error.reason))
        except (TopicReplaced, LogUnusable, LogDiverged, LogNotDense, ReplayStalled) as error:
            self.findings.append(LogFinding(topic, str(error)))


def survey_log(access: ClusterAccess) -> LogSurvey:
    """Return what there is of a cluster, and what is wrong with it; of a cluster of which there is no topic, that there is none.

    Raises:
        KafkaException, AdministrationError: Kafka does not answer.

    """
    # What others know is read before the ends of topics are asked for: they were as far then.
    connection = AdminConnection(access.kafka)
    said = read_last(access, Topic.LEADERSHIP, HEARD_BACK_RECORDS)
    manifests = [stored.manifest for stored in list_snapshots(access) if stored.is_whole and stored.manifest is not None]
    survey = LogSurvey(_find_topics(connection, access.cluster_id))
    if not survey.topics:
        return survey
    absent = [topic for topic in DURABLE_TOPICS if topic not in survey.topics]
    survey.findings += [LogFinding(topic, "the topic is missing") for topic in absent]
    if manifests:
        furthest = max(manifests, key=lambda manifest: manifest.log_offset)
        survey.hold(Topic.LOG, lambda: check_log_of(access, furthest, survey.log))
        survey.snapshot = find_snapshot(access, verify=True, log=ANY_LOG)
    if Topic.LOG in survey.topics:
        if not survey.log.end_offset:
            survey.hold(Topic.LOG, lambda: check_was_never_written(access))
        survey.hold(Topic.LOG, lambda: _fold_log(survey, access))
    heard = heard_offset(survey.fold.acceptance, said, seals_of(access).of(Topic.LEADERSHIP)) if survey.fold is not None else -1
    survey.known_end = max([survey.log.end_offset, heard + 1, *(manifest.log_offset + 1 for manifest in manifests)])
    if heard >= survey.log.end_offset:
        survey.findings.append(LogFinding(Topic.LOG, f"{missing(survey.log.end_offset, heard)}, which its last leader said to have read"))
    inbound = _find_topics(connection, access.cluster_id)  # Once more: they have all that the log decides by now.
    survey.topics |= {topic: inbound[topic] for topic in INBOUND if topic in inbound}
    _check_inbound(survey)
    return survey


def _find_topics(connection: AdminConnection, cluster_id: str) -> dict[Topic, TopicExtent]:
    existing = connection.find_topics()
    names = {topic: name for topic in SPECIFICATIONS if (name := topic_name(cluster_id, topic)) in existing}
    if not names:
        return {}
    ids = connection.read_topic_ids(names.values())
    marks: dict[tuple[str, int], Watermarks] = connection.read_watermarks((name, 0) for name in names.values())
    return {topic: TopicExtent(topic, ids[name], marks[name, 0].low, marks[name, 0].high) for topic, name in names.items()}


def _fold_log(survey: LogSurvey, access: ClusterAccess) -> None:
    """Fold the log as far as it goes: from its first record, or from a snapshot behind which it was trimmed."""
    log = survey.log
    if not log.first_offset:
        survey.fold = new_fold(access)
    else:
        loaded = find_snapshot(access, wanted=lambda m: is_log_of(access, m, log), verify=True, log=log)
        if loaded is None:
            raise LogUnusable(f"it begins at offset {log.first_offset}, and no snapshot that can be used reaches to there")
        survey.fold = loaded.fold
    for offset, timestamp_ms, value in read_log(access, survey.fold.last_offset + 1, log.end_offset):
        survey.fold.fold_record(offset, timestamp_ms, value)


def _check_inbound(survey: LogSurvey) -> None:
    cursors = survey.fold.master.requests.cursors if survey.fold is not None else {}
    for topic in INBOUND:
        found = survey.topics.get(topic)
        if found is not None:
            inbound = InboundTopic(found.topic_id, found.first_offset, found.end_offset)
            survey.hold(topic, partial(place_inbound, topic, cursors.get(topic), inbound, may_rebind=False))
