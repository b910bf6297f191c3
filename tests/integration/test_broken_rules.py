"""Rules of docs/protocol.md that only a real broker can show, broken on purpose: the test that shows a rule fails then."""

import pytest

from tests.support.mutated_tests import exit_codes, nodes
from tests.unit.simulation_mutations import FOUND_BY_TEST


def test_a_rule_that_is_broken_before_a_real_broker_fails_the_test_that_shows_it(bootstrap: str) -> None:
    pairs = {name: test for name, test in FOUND_BY_TEST.items() if nodes()[test].startswith("tests/integration/")}
    assert pairs
    assert exit_codes(pairs, EVENTFLINK_TEST_BOOTSTRAP=bootstrap) == dict.fromkeys(pairs, pytest.ExitCode.TESTS_FAILED)
