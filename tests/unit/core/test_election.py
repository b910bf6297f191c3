"""When a standby campaigns: after a lease in which it would have heard a heartbeat, and heard none (L1, L2)."""

import copy
import random

import pytest

from eventflink.events.effects import LeaderDeath, LeaderHeartbeat, MasterPresence, Resignation
from eventflink.leadership.election import (
    MAX_OUTSTANDING_PRESENCES,
    MAX_PEERS,
    PRESENCE_LEASES,
    RANK_DELAY_DIVISOR,
    STUCK_LEASES,
    Advice,
    LogElection,
    Peers,
    SingleMaster,
)
from eventflink.model.statuses import Role

LEASE_MS = 1_000
STEP_MS = LEASE_MS // RANK_DELAY_DIVISOR


def _heartbeat(epoch: int, master_id: str = "leader") -> LeaderHeartbeat:
    return LeaderHeartbeat(epoch, f"{master_id}-{epoch}", master_id, "blob:1", 10)


def _presence(master_id: str, sequence: int = 1, incarnation: str = "", role: Role = Role.STANDBY) -> MasterPresence:
    return MasterPresence(
        master_id=master_id,
        incarnation=incarnation or f"{master_id}-process",
        sequence=sequence,
        role=role,
        epoch=1,
        log_offset=10,
        feature_level=2,
    )


def _election(master_id: str = "b") -> LogElection:
    election = LogElection(master_id, f"{master_id}-process", Peers(LEASE_MS))
    election.begin(0)
    election.heard(_heartbeat(1), 0)
    return election


def _hear(election: LogElection, presence: MasterPresence, now_ms: int) -> None:
    election.peers.hear(presence, now_ms)
    election.heard(presence, now_ms)


def _prove(election: LogElection, sent_ms: int, read_ms: int, sequence: int = 1) -> None:
    """Have it say that it is there, and read that back."""
    election.said(sequence, sent_ms)
    _hear(election, _presence(election.master_id, sequence, election.incarnation), read_ms)


class TestLease:
    def test_nothing_happens_before_a_lease_of_silence(self) -> None:
        election = _election()
        _prove(election, 998, 999)
        assert election.advise(None, 999) is Advice.WAIT
        assert election.advise(None, 1_000) is Advice.PROBE

    def test_a_lease_of_silence_and_a_later_word_of_its_own_lead_to_a_campaign(self) -> None:
        election = _election()
        assert election.advise(None, 1_000) is Advice.PROBE
        _prove(election, 1_000, 1_004)
        assert election.advise(None, 1_004) is Advice.CAMPAIGN

    def test_a_word_said_in_time_that_is_read_later_will_do(self) -> None:
        """It need not be a probe: a master says that it is there all the time."""
        election = _election()
        _prove(election, 1_000, 1_200)
        assert election.advise(None, 1_200) is Advice.CAMPAIGN

    @pytest.mark.rule("L2")
    def test_who_has_not_read_its_own_word_never_campaigns(self) -> None:
        """It hears nobody, so it cannot tell silence from deafness."""
        election = _election()
        for now_ms in range(1_000, 100_000, 10):
            advice = election.advise(None, now_ms)
            assert advice is not Advice.CAMPAIGN
            if advice is Advice.PROBE:
                election.said(now_ms, now_ms)

    def test_a_word_that_was_said_before_the_lease_was_over_proves_nothing(self) -> None:
        """A heartbeat may have come behind it."""
        election = _election()
        _prove(election, 999, 1_500)
        assert election.advise(None, 1_500) is Advice.PROBE

    def test_a_word_of_an_earlier_process_of_that_name_proves_nothing(self) -> None:
        election = _election()
        election.said(1, 1_000)
        _hear(election, _presence("b", 1, "an earlier process"), 1_001)
        assert election.advise(None, 1_001) is Advice.PROBE
        _hear(election, _presence("b", 1), 1_002)
        assert election.advise(None, 1_002) is Advice.CAMPAIGN

    def test_a_word_that_comes_twice_proves_once(self) -> None:
        election = _election()
        _prove(election, 1_000, 1_001)
        election.heard(_heartbeat(1), 1_001)
        _hear(election, _presence("b", 1), 2_500)
        assert election.advise(None, 2_500) is Advice.PROBE

    def test_probes_are_said_again_every_half_lease_and_no_more_often(self) -> None:
        election = _election()
        probes = [t for t in range(1_000, 4_000, 10) if election.advise(None, t) is Advice.PROBE]
        assert probes == [1_000, 1_500, 2_000, 2_500, 3_000, 3_500]

    def test_a_heartbeat_begins_a_new_lease_and_asks_for_a_new_proof(self) -> None:
        election = _election()
        _prove(election, 1_000, 1_001)
        election.heard(_heartbeat(1), 1_002)
        assert election.advise(None, 2_001) is Advice.WAIT
        assert election.advise(None, 2_002) is Advice.PROBE

    @pytest.mark.rule("L2")
    def test_a_grant_counts_as_a_heartbeat(self) -> None:
        """L2: a master that has just won needs time to say so."""
        election = _election()
        election.granted(2, 900)
        _prove(election, 1_850, 1_860)
        assert election.advise(None, 1_899) is Advice.WAIT
        _prove(election, 1_900, 1_901, sequence=2)
        assert election.advise(None, 1_901) is Advice.CAMPAIGN

    def test_only_so_many_words_of_its_own_are_awaited(self) -> None:
        election = _election()
        for sequence in range(1, 10_000):
            election.said(sequence, sequence)
        assert len(election._outstanding) == MAX_OUTSTANDING_PRESENCES
        _hear(election, _presence("b", 5_000), 10_000)
        assert election.advise(None, 10_000) is Advice.PROBE, "the oldest are given up"
        _hear(election, _presence("b", 9_999), 10_000)
        assert election.advise(None, 10_000) is Advice.CAMPAIGN


class TestNobodyWasEverGrantedTo:
    def test_who_stands_at_the_end_of_such_a_log_campaigns_at_once(self) -> None:
        election = LogElection("a", "a-process", Peers(LEASE_MS))
        election.begin(0)
        election.never_granted(0)
        assert election.advise(None, 0) is Advice.CAMPAIGN

    def test_it_goes_by_rank_among_those_that_were_heard(self) -> None:
        election = LogElection("b", "b-process", Peers(LEASE_MS))
        election.begin(0)
        _hear(election, _presence("a"), 0)
        election.never_granted(0)
        assert election.advise(None, STEP_MS - 1) is Advice.WAIT
        assert election.advise(None, 2 * STEP_MS) is Advice.CAMPAIGN

    def test_a_leader_that_is_granted_to_has_its_lease(self) -> None:
        """Its grant was on its way when the log was read."""
        election = LogElection("a", "a-process", Peers(LEASE_MS))
        election.begin(0)
        election.never_granted(0)
        election.granted(1, 0)
        assert election.advise(None, LEASE_MS - 1) is Advice.WAIT
        assert election.advise(None, LEASE_MS) is Advice.PROBE


class TestRank:
    @pytest.mark.rule("L2")
    def test_the_first_in_the_order_of_ids_goes_at_once_and_the_others_one_step_after_the_other(self) -> None:
        campaigns = {}
        for master_id in "abc":
            election = _election(master_id)
            for other in {"a", "b", "c"} - {master_id}:
                _hear(election, _presence(other), 900)
            _prove(election, 1_000, 1_000)
            campaigns[master_id] = next(t for t in range(1_000, 3_000) if election.advise(None, t) is Advice.CAMPAIGN)
        assert campaigns["a"] == 1_000
        assert STEP_MS <= campaigns["b"] - 1_000 <= 1.5 * STEP_MS
        assert 2 * STEP_MS <= campaigns["c"] - 1_000 <= 2.5 * STEP_MS

    def test_delays_differ_between_processes_and_epochs(self) -> None:
        """L2: two that collided once do not collide for ever."""
        delays = set()
        for number in range(20):
            election = LogElection("b", f"process-{number}", Peers(LEASE_MS))
            _hear(election, _presence("a"), 900)
            delays.add(election._delay_ms(1_000))
        assert len(delays) > 10
        election = LogElection("b", "process", Peers(LEASE_MS))
        _hear(election, _presence("a"), 900)
        before = election._delay_ms(1_000)
        election.granted(2, 1_000)
        assert election._delay_ms(1_000) != before

    def test_a_peer_that_was_not_heard_of_for_three_leases_takes_no_rank_and_is_forgotten(self) -> None:
        election = _election()
        _hear(election, _presence("a"), 1_000)
        assert election._delay_ms(1_000 + PRESENCE_LEASES * LEASE_MS) >= STEP_MS
        assert election._delay_ms(1_001 + PRESENCE_LEASES * LEASE_MS) == 0
        assert not election.peers.count(1_001 + PRESENCE_LEASES * LEASE_MS)

    @pytest.mark.parametrize("role", [Role.STANDBY, Role.CANDIDATE, Role.DEPOSED])
    def test_whoever_does_not_lead_takes_a_rank(self, role: Role) -> None:
        election = _election()
        _hear(election, _presence("a", role=role), 1_000)
        assert election._delay_ms(1_000) >= STEP_MS

    def test_the_leader_takes_no_rank_by_its_presence_or_by_its_heartbeats(self) -> None:
        """It is the one who may be gone; everybody would wait for it."""
        election = _election()
        _hear(election, _presence("a", role=Role.LEADER), 1_000)
        assert election._delay_ms(1_000) == 0
        _hear(election, _presence("a"), 1_000)
        election.heard(_heartbeat(2, "a"), 1_100)
        assert election._delay_ms(1_100) == 0

    @pytest.mark.rule("L2")
    def test_however_many_say_that_they_are_there_a_lease_is_the_longest_delay(self) -> None:
        election = _election("z")
        for number in range(10_000):
            _hear(election, _presence(f"forged-{number}"), 900)
        assert election.peers.count(900) == MAX_PEERS
        assert LEASE_MS <= election._delay_ms(900) <= LEASE_MS + STEP_MS


class TestResignation:
    def test_the_first_goes_at_once_without_a_lease_of_silence(self) -> None:
        election = _election()
        election.heard(Resignation(1, "leader-1"), 300)
        assert election.advise(None, 300) is Advice.CAMPAIGN

    def test_the_others_wait_for_their_rank(self) -> None:
        election = _election()
        _hear(election, _presence("a"), 200)
        election.heard(Resignation(1, "leader-1"), 300)
        assert election.advise(None, 300 + STEP_MS - 1) is Advice.WAIT
        assert election.advise(None, 300 + 2 * STEP_MS) is Advice.CAMPAIGN

    def test_said_again_and_again_it_delays_nobody(self) -> None:
        election = _election()
        _hear(election, _presence("a"), 200)
        for now_ms in range(300, 300 + 2 * STEP_MS, 10):
            election.heard(LeaderDeath(1, "leader-1"), now_ms)
        assert election.advise(None, 300 + 2 * STEP_MS) is Advice.CAMPAIGN

    def test_a_heartbeat_that_was_overtaken_by_the_resignation_does_not_take_it_back(self) -> None:
        election = _election()
        election.heard(Resignation(1, "leader-1"), 300)
        election.heard(_heartbeat(1), 301)
        assert election.advise(None, 301) is Advice.CAMPAIGN

    def test_somebody_elses_leadership_ends_it(self) -> None:
        election = _election()
        _hear(election, _presence("a"), 290)
        election.heard(Resignation(1, "leader-1"), 300)
        election.granted(2, 400)
        assert election.advise(None, 1_399) is Advice.WAIT
        assert election.advise(None, 1_400) is Advice.PROBE


class TestStuckLeader:
    """L1: a leader that sends heartbeats and does not decide."""

    @pytest.mark.rule("L1")
    def test_an_input_that_waits_for_five_leases_leads_to_a_campaign_while_the_leader_sends_heartbeats(self) -> None:
        election = _election()
        due_ms = 200 + STUCK_LEASES * LEASE_MS
        for now_ms in range(200, due_ms, 100):
            election.heard(_heartbeat(1), now_ms)
            _prove(election, now_ms, now_ms, sequence=now_ms)
            assert election.advise(200, now_ms) is Advice.WAIT
        election.heard(_heartbeat(1), due_ms)
        _prove(election, due_ms, due_ms, sequence=due_ms)
        assert election.advise(200, due_ms) is Advice.CAMPAIGN

    def test_the_others_wait_for_their_rank(self) -> None:
        election = _election()
        due_ms = 200 + STUCK_LEASES * LEASE_MS
        _hear(election, _presence("a"), due_ms)
        election.heard(_heartbeat(1), due_ms)
        _prove(election, due_ms, due_ms)
        assert election.advise(200, due_ms + STEP_MS - 1) is Advice.WAIT
        assert election.advise(200, due_ms + 2 * STEP_MS) is Advice.CAMPAIGN

    def test_a_standby_that_was_frozen_first_reads_what_it_missed(self) -> None:
        """L2: the input that waited when it was frozen was decided long ago; its own word comes behind the leader's."""
        election = _election()
        election.heard(_heartbeat(1), 200)
        _prove(election, 200, 200)
        assert election.advise(200, 20_000) is not Advice.CAMPAIGN
        election.said(2, 20_000)
        election.heard(_heartbeat(1), 20_001)
        assert election.advise(200, 20_001) is not Advice.CAMPAIGN
        _hear(election, _presence("b", 2), 20_002)
        assert election.advise(None, 20_002) is Advice.WAIT

    def test_a_cursor_that_moves_is_not_stuck(self) -> None:
        election = _election()
        _prove(election, 900, 900)
        assert election.advise(None, 900) is Advice.WAIT


class TestStall:
    def test_a_standby_that_was_paused_believes_nothing_from_before(self) -> None:
        """L2: it wakes up after a minute; what it reads first may be a heartbeat."""
        election = _election()
        _prove(election, 900, 905)
        assert election.advise(None, 60_000) is Advice.PROBE
        election.said(2, 60_000)
        election.heard(_heartbeat(1), 60_003)
        _hear(election, _presence("b", 2), 60_003)
        assert election.advise(None, 60_004) is Advice.WAIT
        assert election.advise(None, 61_002) is Advice.WAIT

    def test_a_new_term_waits_a_whole_lease_and_forgets_what_was_proven(self) -> None:
        election = _election()
        _prove(election, 5_000, 5_001)
        election.said(2, 5_001)
        election.heard(Resignation(1, "leader-1"), 5_002)
        election.begin(6_000)
        assert election.advise(None, 6_999) is Advice.WAIT
        _hear(election, _presence("b", 2), 7_000)
        assert election.advise(None, 7_000) is Advice.PROBE

    def test_a_new_term_remembers_peers(self) -> None:
        election = _election()
        election.granted(7, 900)
        _hear(election, _presence("a"), 900)
        election.begin(1_000)
        _prove(election, 2_000, 2_000)
        assert election.advise(None, 2_000) is Advice.WAIT, "rank"
        assert election.advise(None, 2_000 + 2 * STEP_MS) is Advice.CAMPAIGN


def test_the_election_on_the_log_never_takes_a_leadership_back() -> None:
    """The log does that."""
    assert _election().may_lead()


def test_a_single_master_leads_as_soon_as_it_is_there_and_minds_nobody() -> None:
    election = SingleMaster()
    election.begin(0)
    election.said(1, 0)
    election.heard(_heartbeat(9), 0)
    election.granted(9, 0)
    assert election.advise(None, 0) is Advice.CAMPAIGN
    assert election.may_lead()


@pytest.mark.parametrize("seed", range(40))
def test_between_two_times_that_are_due_nothing_would_have_been_advised(seed: int) -> None:
    """Whoever asks only when it is due, and after each record, campaigns and probes when one does that asks every millisecond."""
    rng = random.Random(seed)
    election, now_ms, stuck_since_ms = _election("b"), 0, None
    waited_for = set()
    for sequence in range(1, 60):
        due_ms = election.next_due_ms(stuck_since_ms, now_ms)
        heard_ms = now_ms + rng.randrange(1, rng.choice((100, 700, 3 * LEASE_MS)))
        nothing_ms = range(now_ms + 1, min(due_ms, heard_ms))
        for at_ms in (*rng.sample(nothing_ms, min(5, len(nothing_ms))), *nothing_ms[-1:]):
            assert copy.deepcopy(election).advise(stuck_since_ms, at_ms) is Advice.WAIT
        if due_ms < heard_ms:
            now_ms = max(due_ms, now_ms + 1)
            waited_for.add(election.advise(stuck_since_ms, now_ms))
            continue
        now_ms = heard_ms
        match rng.randrange(5):
            case 0:
                election.heard(_heartbeat(rng.choice((1, 2))), now_ms)
            case 1:
                election.heard(Resignation(1, "leader-1"), now_ms)
            case 2:
                stuck_since_ms = rng.choice((None, now_ms))
            case 3:
                _hear(election, _presence("a"), now_ms)
            case _:
                _prove(election, now_ms - rng.randrange(20), now_ms, sequence)
    assert waited_for
