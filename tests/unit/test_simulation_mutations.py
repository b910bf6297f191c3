"""Each rule that the simulation can show is broken on purpose, and a run finds it that holds while the rule is not broken.

A search begins at a seed that finds the mutation at once; how many of how many seeds do is in docs/simulation.md. Any change of what
runs makes other runs of the same seeds: then a search takes longer, up to its bound, and
`python -m tests.unit.simulation_mutations FIRST COUNT` finds new seeds to begin at.
"""

import pytest

from tests.unit.simulation_mutations import FOUND_BY, FOUND_BY_TEST, MUTATIONS, NOT_FOUND, SELDOM, finds

pytestmark = pytest.mark.slow
MOST_SEEDS = 150


@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_a_broken_rule_is_found(name: str) -> None:
    first = FOUND_BY[name]
    assert any(finds(name, seed) for seed in range(first, first + MOST_SEEDS)), f"none of {MOST_SEEDS} seeds from {first} on finds it"


def test_every_mutation_is_found_or_said_not_to_be() -> None:
    assert sorted([*FOUND_BY, *SELDOM, *FOUND_BY_TEST, *NOT_FOUND]) == sorted(MUTATIONS)
