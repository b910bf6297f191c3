"""The page docs/generated/state-machines.md: the diagrams of the state machines, drawn from their tables.

Nothing about a machine is written here twice: the page shows what the tables say, and a test holds the page to it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from eventflink.model.statuses import (
    EXECUTION_TRANSITIONS,
    JOB_TRANSITIONS,
    ROLE_TRANSITIONS,
    SLOT_TRANSITIONS,
    ExecutionState,
    JobStatus,
    Role,
    SlotState,
    Table,
    is_terminal,
)


@dataclass(frozen=True, slots=True)
class StateMachine:
    """One table, with where it begins and what it is about."""

    title: str
    about: str
    table: Table
    initial: StrEnum


MACHINES: Final = (
    StateMachine("JobStatus", "Where a job stands.", JOB_TRANSITIONS, JobStatus.INITIALIZING),
    StateMachine("ExecutionState", "Where one attempt of one subtask stands.", EXECUTION_TRANSITIONS, ExecutionState.CREATED),
    StateMachine("SlotState", "Where one slot of one TaskManager stands.", SLOT_TRANSITIONS, SlotState.FREE),
    StateMachine("Role", "What a master is to the log.", ROLE_TRANSITIONS, Role.STANDBY),
)

_HEADER: Final = """# State machines

Drawn from the tables in `eventflink/model/statuses.py` by `python -m docs.generate`.
What a table does not list is illegal: the caller that tries it gets `IllegalTransition` and an untouched state.
"""


def diagram(machine: StateMachine) -> str:
    """Return the Mermaid diagram of one machine, its states in the order of their enumeration."""
    lines = ["stateDiagram-v2", f"    [*] --> {machine.initial}"]
    for state, targets in machine.table.items():
        lines += [f"    {state} --> {target}" for target in type(state) if target in targets]
        if is_terminal(machine.table, state):
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines)


def render() -> str:
    """Return the whole page, in Markdown."""
    parts = [_HEADER]
    parts += [f"\n## {m.title}\n\n{m.about}\n\n```mermaid\n{diagram(m)}\n```\n" for m in MACHINES]
    return "".join(parts)
