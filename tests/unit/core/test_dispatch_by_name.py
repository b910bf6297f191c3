"""Who decides an input and who replays an event follows from their names: nothing is forgotten, and no method is there for nothing."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import eventflink.master
from eventflink.events import log_events as e
from eventflink.master.inputs import INPUT_CLASSES
from eventflink.master.job_master import JobMaster
from eventflink.master.master import FOR_THE_RECORD, RULES, Master, names_of
from eventflink.master.settings import MasterSettings
from eventflink.master.state import COMPONENTS, ClusterState

ROOM = Path(str(eventflink.master.__file__)).parent


@pytest.fixture
def master() -> Master:
    return Master(MasterSettings())


def _named(owner: Any, *prefixes: str) -> set[str]:
    return {name for name in dir(owner) if name.startswith(prefixes)}


def test_an_event_that_no_component_replays_is_found_at_once(master: Master) -> None:
    class JobPraised:
        pass

    with pytest.raises(TypeError, match="no component replays JobPraised"):
        master._replays_of(JobPraised, "job_praised")


def test_an_input_that_nobody_decides_is_found_at_once(master: Master) -> None:
    with pytest.raises(TypeError, match="decide_praise_job: an input is decided in one place, not in 0"):
        master._decider_of("praise_job")


def test_an_input_that_two_decide_is_found_at_once(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RULES[0], "decide_cancel_job", lambda _state, _command: [], raising=False)
    with pytest.raises(TypeError, match="decide_cancel_job: an input is decided in one place, not in 2"):
        master._decider_of("cancel_job")


def _steps_by(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Have all methods that check or apply an event noted instead of called; return the list of what is noted."""
    noted: list[str] = []

    def note(owner: type[Any], method: str) -> None:
        monkeypatch.setattr(owner, method, lambda _self, _event: noted.append(f"{owner.__name__}.{method}"))

    for owner in map(type, ClusterState().components().values()):
        for method in (f"check_{name}", f"apply_{name}"):
            if hasattr(owner, method):
                note(owner, method)
    return noted


@pytest.mark.parametrize(("cls", "name"), list(names_of(e.EVENTS.values())), ids=[name for _, name in names_of(e.EVENTS.values())])
def test_all_checks_of_an_event_come_before_any_change(monkeypatch: pytest.MonkeyPatch, cls: type[Any], name: str) -> None:
    noted = _steps_by(monkeypatch, name)
    monkeypatch.setattr(Master, "_replay_in_job", lambda _self, _method: lambda _event, _at_ms: noted.append("JobMaster.apply"))
    Master(MasterSettings()).apply(object.__new__(cls), 1)
    kinds = [step.partition(".")[2].partition("_")[0] for step in noted]
    assert kinds == sorted(kinds, key=lambda kind: kind != "check")


def test_a_released_task_manager_is_checked_and_replayed_in_the_order_of_the_components(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = _steps_by(monkeypatch, "task_manager_released")
    Master(MasterSettings()).apply(e.TaskManagerReleased("tm", "tm-1", "idle"), 1)
    assert noted == [
        "Workers.check_task_manager_released",
        "SlotManager.check_task_manager_released",
        "ResourceManager.apply_task_manager_released",
        "Blocklist.apply_task_manager_released",
        "Workers.apply_task_manager_released",
        "SlotManager.apply_task_manager_released",
        "Uploads.apply_task_manager_released",
    ]


def test_what_is_for_the_record_is_replayed_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls, name in names_of(e.EVENTS.values()):
        if cls in FOR_THE_RECORD:
            noted = _steps_by(monkeypatch, name)
            Master(MasterSettings()).apply(object.__new__(cls), 1)
            assert not noted


def test_every_method_that_applies_or_checks_bears_the_name_of_an_event(master: Master) -> None:
    """One that does not would never be called."""
    names = {f"{verb}_{name}" for _, name in names_of(e.EVENTS.values()) for verb in ("apply", "check")}
    for owner in (JobMaster, *master.components().values()):
        assert _named(owner, "apply_", "check_") <= names, owner


def test_every_rule_of_the_list_decides_an_input() -> None:
    names = {f"decide_{name}" for _, name in names_of(INPUT_CLASSES)}
    for module in RULES:
        assert _named(module, "decide_") & names, module


def test_the_components_are_what_a_state_consists_of() -> None:
    assert tuple(ClusterState().components()) == COMPONENTS == ClusterState.__slots__


# -- the room -----------------------------------------------------------------------------------------------------


def test_nothing_is_imported_for_type_checking_alone() -> None:
    """Such an import hides a circle."""
    assert not [path.name for path in ROOM.glob("*.py") if "TYPE_CHECKING" in path.read_text(encoding="utf-8")]


def _writes(module: ModuleType) -> Iterator[str]:
    """Yield the functions outside a class that set or delete a field of something that they were given."""
    for function in ast.parse(inspect.getsource(module)).body:
        if not isinstance(function, ast.FunctionDef):
            continue
        given = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        for node in ast.walk(function):
            targets = (
                node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target] if isinstance(node, ast.AugAssign) else []
            )
            for target in targets:
                owner = target
                while isinstance(owner, ast.Attribute | ast.Subscript):
                    owner = owner.value
                if owner is not target and isinstance(owner, ast.Name) and owner.id in given:
                    yield f"{module.__name__}.{function.name}"


@pytest.mark.parametrize("module", RULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_rule_writes_nothing_of_what_it_is_given(module: ModuleType) -> None:
    assert not list(_writes(module))
