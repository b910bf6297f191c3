"""Each rule that the simulation can show is broken on purpose, and a run finds it that holds while the rule is not broken.

A run of one seed shows it: how many of how many seeds do is in docs/simulation.md. Any change of what runs makes other runs of the same
seeds; a seed that has become stale fails in `make soak`, and `python -m tests.unit.simulation_mutations FIRST COUNT` finds others.
"""

import os

import pytest

from tests.unit.simulation_mutations import FOUND_BY, FOUND_BY_TEST, MUTATIONS, NOT_FOUND, SELDOM, finds

pytestmark = pytest.mark.slow
MOST_SEEDS = 150
SOAK_SEED = int(os.environ.get("SOAK_SEED", "0"))
STALE = "seed {} does not find it any more: python -m tests.unit.simulation_mutations 0 150 {}"


@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_a_broken_rule_is_found(name: str) -> None:
    if not finds(name, FOUND_BY[name]):
        pytest.skip(STALE.format(FOUND_BY[name], name))


@pytest.mark.soak("eventflink.lab.simulation", "eventflink.taskexecutor.protocol", "eventflink.snapshots")
@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_a_broken_rule_is_found_by_its_seed_and_by_seeds_that_were_never_run(name: str) -> None:
    assert finds(name, FOUND_BY[name]), STALE.format(FOUND_BY[name], name)
    seeds = range(SOAK_SEED, SOAK_SEED + MOST_SEEDS)
    assert any(finds(name, seed) for seed in seeds), f"no seed of {seeds} finds it"


def test_every_mutation_is_found_or_said_not_to_be() -> None:
    assert sorted([*FOUND_BY, *SELDOM, *FOUND_BY_TEST, *NOT_FOUND]) == sorted(MUTATIONS)
