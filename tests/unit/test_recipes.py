"""The recipes of docs/developing.md, for a new event and a new command: what they say is enough, and each has at most three steps.

Followed to the letter in a copy of the sources, with other processes in it: no file but those that the recipe names is touched.
"""

from pathlib import Path

import pytest

from tests.support.recipes import COMMAND_RECIPE, EVENT_RECIPE, Copy, steps_of

MAX_STEPS = 3


@pytest.mark.parametrize("recipe", [EVENT_RECIPE, COMMAND_RECIPE])
def test_a_recipe_has_at_most_three_steps(recipe: str) -> None:
    assert 1 < len(steps_of(recipe)) <= MAX_STEPS


@pytest.mark.soak("eventflink.events", "eventflink.master", "docs/developing.md")
def test_the_recipes_are_enough(tmp_path: Path) -> None:
    """The event is written, read, told and replayed; the command read in both encodings, bounded, fenced, answered; both documented."""
    copy = Copy(tmp_path / "copy")
    copy.follow(EVENT_RECIPE)
    generic = ("tests/unit/core/test_codec.py", "tests/unit/core/test_released_schemas.py", "tests/unit/test_event_wording.py")
    pages = ("tests/unit/test_documentation.py::test_a_generated_page_is_in_step", "tests/unit/core/test_dispatch_by_name.py")
    quietly = ("python", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")
    copy.run(*quietly, "tests/unit/core/test_notice.py", *generic, *pages)
    copy.follow(COMMAND_RECIPE)
    copy.run(*quietly, "tests/unit/core/test_notice.py", "tests/unit/core/test_inbound.py", *generic, *pages)
    copy.run("python", "-m", "tests.support.followed_recipe")
