"""Each rule that the simulation can show is broken on purpose, and a run finds it that holds while the rule is not broken.

A run of one seed shows it. Any change of what runs makes other runs of the same seeds, so that a seed becomes stale:
`python -m tests.unit.simulation_mutations FIRST COUNT` finds others. What is tested here is the simulation: all of it is for `make soak`.
"""

import os

import pytest

from tests.unit.simulation_mutations import FOUND_BY, FOUND_BY_TEST, MUTATIONS, NOT_FOUND, SELDOM, finds

pytestmark = pytest.mark.slow
SOAK_SEED = int(os.environ.get("SOAK_SEED", "0"))
SOAK_SEEDS = int(os.environ.get("SOAK_SEEDS", "0"))
LONG_SOAK_SEEDS = 1_000
SEEDS_OF_EACH = 20


@pytest.mark.soak("tests.simulation", "eventflink.testing.simulation", "eventflink.taskexecutor.protocol", "eventflink.snapshots")
@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_a_broken_rule_is_found(name: str) -> None:
    seed = FOUND_BY[name]
    assert finds(name, seed), f"seed {seed} does not find it any more: python -m tests.unit.simulation_mutations 0 150 {name}"


@pytest.mark.soak("tests.simulation", "eventflink.testing.simulation")
@pytest.mark.timeout(4 * 3_600)
def test_most_broken_rules_are_found_by_seeds_that_were_never_run() -> None:
    """Some are found by one seed of a thousand; that most are is what makes a run of new seeds worth its time."""
    if LONG_SOAK_SEEDS > SOAK_SEEDS:
        pytest.skip(f"for a long soak, of {LONG_SOAK_SEEDS} seeds or more")
    seeds = range(SOAK_SEED, SOAK_SEED + SEEDS_OF_EACH)
    found = [name for name in FOUND_BY if any(finds(name, seed) for seed in seeds)]
    assert 2 * len(found) > len(FOUND_BY), sorted(set(FOUND_BY) - set(found))


def test_every_mutation_is_found_or_said_not_to_be() -> None:
    assert sorted([*FOUND_BY, *SELDOM, *FOUND_BY_TEST, *NOT_FOUND]) == sorted(MUTATIONS)
