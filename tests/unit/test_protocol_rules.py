"""docs/protocol.md is whole: each rule says where it is in the code, which tests show it, and which mutations break it and are found."""

import re
from pathlib import Path

import pytest

from tests.support.mutated_tests import exit_codes, nodes
from tests.unit.simulation_mutations import FOUND_BY, FOUND_BY_TEST, MUTATIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")

_RULE = re.compile(r"^### ([PLSC]\d+a?) [^\n]+\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
RULES = {name: " ".join(text.split()) for name, text in _RULE.findall(PAGE)}


def named(rule: str, label: str) -> list[str]:
    """Return what the list of a rule with that label names, in backticks."""
    found = re.search(rf"- {label}: (.*?)(?= - \w+: |$)", RULES[rule])
    return re.findall(r"`([^`]+)`", found.group(1)) if found else []


def test_every_rule_that_the_code_speaks_of_is_on_the_page() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "eventflink").rglob("*.py"))
    spoken_of = {rule for group in re.findall(r"\(([PLSC]\d+a?(?:, [PLSC]\d+a?)*)\)", sources) for rule in group.split(", ")}
    assert len(spoken_of) > 20
    assert spoken_of <= set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_where_it_is_and_names_tests_that_exist(rule: str) -> None:
    assert named(rule, "Code")
    assert named(rule, "Tests")
    assert set(named(rule, "Tests")) <= set(nodes())


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_names_its_mutations_and_one_of_them_at_least_is_found(rule: str) -> None:
    assert sorted(named(rule, "Mutations")) == sorted(name for name, mutation in MUTATIONS.items() if mutation.rule == rule)
    assert {*named(rule, "Mutations")} & {*FOUND_BY, *FOUND_BY_TEST}


def test_a_test_that_finds_a_mutation_is_named_by_its_rule() -> None:
    assert [name for name, test in FOUND_BY_TEST.items() if test not in named(MUTATIONS[name].rule, "Tests")] == []


@pytest.mark.soak("eventflink.master", "eventflink.leadership", "eventflink.taskexecutor.protocol", "eventflink.gateways")
def test_a_broken_rule_fails_the_test_that_shows_it() -> None:
    """One that needs a broker is run by tests/integration/test_broken_rules.py."""
    pairs = {name: test for name, test in FOUND_BY_TEST.items() if nodes()[test].startswith("tests/unit/")}
    assert exit_codes(pairs) == dict.fromkeys(pairs, pytest.ExitCode.TESTS_FAILED)
