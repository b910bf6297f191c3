"""The tables of the state machines are complete, and their diagrams show all of them."""

from collections.abc import Callable

import pytest

from docs.generate.state_machines import MACHINES, StateMachine, diagram
from eventflink.model.statuses import (
    TERMINAL_EXECUTION_STATES,
    TERMINAL_JOB_STATUSES,
    ExecutionState,
    IllegalTransition,
    JobStatus,
    check_transition,
)

every_machine: Callable[..., pytest.MarkDecorator] = pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.title)


@every_machine
def test_every_state_is_a_key_and_every_target_is_of_the_same_enumeration(machine: StateMachine) -> None:
    states = type(machine.initial)
    assert set(machine.table) == set(states)
    assert all(type(target) is states for targets in machine.table.values() for target in targets)


@every_machine
def test_every_state_can_be_reached(machine: StateMachine) -> None:
    reached = {machine.initial}
    frontier = [machine.initial]
    while frontier:
        fresh = machine.table[frontier.pop()] - reached
        reached |= fresh
        frontier += fresh
    assert reached == set(type(machine.initial))


@every_machine
def test_no_state_follows_itself(machine: StateMachine) -> None:
    assert not [state for state, targets in machine.table.items() if state in targets]


@every_machine
def test_exactly_what_the_table_lists_is_legal(machine: StateMachine) -> None:
    for before in machine.table:
        for after in machine.table:
            if after in machine.table[before]:
                check_transition(machine.table, "it", before, after)
            else:
                with pytest.raises(IllegalTransition, match=f"it: {machine.title} cannot go from {before} to {after}"):
                    check_transition(machine.table, "it", before, after)


def test_what_is_terminal_is_flinks() -> None:
    assert {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED} == TERMINAL_JOB_STATUSES
    assert {ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED} == TERMINAL_EXECUTION_STATES


@every_machine
def test_a_diagram_shows_every_transition_and_no_other(machine: StateMachine) -> None:
    lines = [line.strip() for line in diagram(machine).splitlines()[1:]]
    wanted = {f"{before} --> {after}" for before, targets in machine.table.items() for after in targets}
    wanted |= {f"{state} --> [*]" for state, targets in machine.table.items() if not targets} | {f"[*] --> {machine.initial}"}
    assert set(lines) == wanted
    assert len(lines) == len(wanted)
