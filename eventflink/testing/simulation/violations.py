"""What a simulation finds: a named invariant that does not hold, and how it does not."""

from enum import StrEnum


class Invariant(StrEnum):
    """What must hold after every event of a run."""

    PREFIX_AGREEMENT = "all who read the log up to an offset have accepted the same records and have the same state"
    NOT_ON_LESS = "nobody decides, nor answers, on less of the log or of an inbound topic than was known"
    LOG_READABLE = "every record of the log can be folded by every master"
    VALID_STATE = "the state does not contradict itself"
    INPUTS_ONCE = "each input is decided exactly once, in its order"
    ACCEPTED_PRESENT = "whatever a client was told to be accepted is in the fold of the log"
    ONE_ANSWER = "a request has one answer, however often it is repeated"
    JOB_ONCE = "a job id is submitted at most once"
    CLAIMED_ONCE = "each record of a topic behind the cursor of a schedule belongs to one of its jobs, which is told so"
    INSTANTS_ONCE = "each instant of a schedule is decided once, in its order, and leads to one job or to the reason for none"
    TIME_LIMITS = "who has used up its time is ended while a leader decides, and fails of that; nobody is before"
    RETRIES = "a failed attempt is tried again by the rule that names the failure, as often and as late as the rule says"
    REUSED_IS_THERE = "what a rerun reuses had finished, is the same now, and stays for as long as somebody takes it"
    ROWS_ONCE = "a mapped vertex has one subtask for each row of its input when it is scheduled, and has finished each with its job"
    SKIPPED_BY_ROWS = "a vertex runs or is skipped by the rows that its condition names, and is skipped with what it waits for"
    CLOSED_LAST = "closing vertices run when all others have come to an end that they are for, and their job ends so after them"
    STATE_TABLES = "jobs and attempts move along their tables only"
    ONE_ALLOCATION = "a slot has at most one allocation and an attempt at most one slot"
    SHARED_SLOT = "who shares a slot is of one slot sharing group of one job, and at most one of each vertex"
    SLOT_FITS = "a slot is given only to a request that it has room for, and not while its TaskManager is blocked"
    QUEUES = "no queue of jobs holds more slots than it may, or borrows one while another waits for it below its quota"
    UNREADY_LAST = "a slot of a TaskManager that is not ready is given away only while none of its kind is free on one that is"
    FULL_TAKES_NOTHING = "a TaskExecutor that knows that it cannot write starts no task"
    RELEASED_WAS_IDLE = "a TaskManager is released only if the resource driver was asked for it, and while none of its slots is taken"
    ONE_RESULT = "at most one attempt of a subtask has an accepted result"
    ONE_LIVE_ATTEMPT = "at most one attempt of a subtask is alive, unless its TaskExecutor was frozen past its fence"
    CHECKPOINTS = "a job has at most one pending checkpoint, which holds what running attempts have committed, and none goes back"
    SAVEPOINTS = "a savepoint with which its job stops holds all that its streams have committed, and they begin no more"
    RECORDS_ONCE = "each record counts exactly once in what a stream commits, in its order, and never by an attempt after a newer one's"
    RECORDS_COMPLETE = "a stream that has finished has committed every record that was there when its last attempt began"
    LOST_WAS_SILENT = "an instance is declared lost by silence only if none of its heartbeats arrived for the loss timeout"
    EFFECT_OF_ACCEPTED = "whatever leaves a master follows from a decision that was accepted"
    FEW_LEADERSHIPS = "an input at which a leader died, by its guardian's word, costs one more leader at most"
    BOUNDED_DECISION = "a decision has at most its limit of bytes and of inline consequences"
    READ_OFFSET = "a read says which offset it reflects, and is no older than its question"
    TIME_FORWARD = "the log's time never goes back"
    TIME_KEEPS_PACE = "the log's time advances by what passes and a tenth of it, whatever a broker's clock says"
    NO_DEFECT = "no call of the real code ends in an error that it does not announce"
    COMES_TO_REST = "when the faults have stopped, everything that was accepted ends and nothing waits"


class ViolationFound(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, message: str) -> None:
        super().__init__(f"{invariant.name}: {message}")
        self.invariant = invariant
        self.message = message
