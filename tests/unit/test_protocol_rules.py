"""docs/protocol.md is whole: each rule says where it is in the code, tests show it, and mutations break it and are found.

Tests name the rules that they show by `@pytest.mark.rule`, mutations by `@breaks`.
"""

import re
from pathlib import Path

import pytest

from docs.generate.protocol_tests import Rule, rules
from tests.support.mutated_tests import exit_codes, nodes
from tests.support.named_tests import named_tests, showing
from tests.unit.simulation_mutations import FOUND_BY, FOUND_BY_TEST, MUTATIONS

ROOT = Path(__file__).parents[2]
RULES = pytest.mark.parametrize("rule", rules().values(), ids=lambda rule: rule.number)


def test_every_rule_of_the_page_is_read() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    assert list(rules()) == re.findall(r"^### (\S+)", page, re.MULTILINE)


def test_every_rule_that_the_code_speaks_of_is_on_the_page() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "eventflink").rglob("*.py"))
    spoken_of = {rule for group in re.findall(r"\(([PLSC]\d+[a-z]?(?:, [PLSC]\d+[a-z]?)*)\)", sources) for rule in group.split(", ")}
    assert len(spoken_of) > 20
    assert spoken_of <= set(rules())


def test_a_marker_names_rules_that_exist_each_once() -> None:
    assert [test.node for test in named_tests() if not {*test.rules} <= {*rules()} or len({*test.rules}) < len(test.rules)] == []


@RULES
def test_a_rule_says_where_it_is_and_links_to_what_shows_it(rule: Rule) -> None:
    (code,) = re.findall(r"^- Code: (.*?)(?=^- )", rule.text, re.MULTILINE | re.DOTALL)
    assert re.search(r"`[^`]+`", code)
    assert re.findall(r"\(generated/protocol-tests\.md#(\w+)\)", rule.text) == [rule.number.lower()]


@RULES
def test_a_test_shows_the_rule(rule: Rule) -> None:
    assert showing(rule.number)


@RULES
def test_a_mutation_breaks_the_rule_and_is_found(rule: Rule) -> None:
    assert {name for name, mutation in MUTATIONS.items() if mutation.rule == rule.number} & {*FOUND_BY, *FOUND_BY_TEST}


def test_a_mutation_breaks_a_rule_of_the_page_or_of_two_others() -> None:
    assert {mutation.rule for mutation in MUTATIONS.values()} - {*rules()} == {"resource drivers", "slots"}


def test_a_test_that_finds_a_mutation_is_marked_with_its_rule() -> None:
    shows = {(test.name, rule) for test in named_tests() for rule in test.rules}
    assert [name for name, test in FOUND_BY_TEST.items() if (test, MUTATIONS[name].rule) not in shows] == []


@pytest.mark.soak("eventflink.master", "eventflink.leadership", "eventflink.taskexecutor.protocol", "eventflink.gateways")
def test_a_broken_rule_fails_the_test_that_shows_it() -> None:
    """One that needs a broker is run by tests/integration/test_broken_rules.py."""
    pairs = {name: test for name, test in FOUND_BY_TEST.items() if nodes()[test].startswith("tests/unit/")}
    assert exit_codes(pairs) == dict.fromkeys(pairs, pytest.ExitCode.TESTS_FAILED)
