"""YAML as people and programs hand it in: read within bounds, and refused by one line that says where it is wrong.

Every document that eventflink reads and has not written itself is read here: libyaml composes by recursion, and a deep document ends the
process; aliases of aliases fill the memory; and what stands for a date, a number or a key may be none.
"""

import re
from typing import Any, Final

import yaml

MAX_NESTING: Final = 100
MAX_ALIASED: Final = 1024 * 1024

_MAX_DIGITS: Final = 4_300
"""Python reads no decimal number of more. YAML has numbers to the base 60 as well, and PyYAML takes the square of their length for them."""

_NUMBER: Final = re.compile(r"[+-]?(?:0[bx][0-9a-fA-F_]*|[0-9_:]*)")


class InvalidYaml(ValueError):
    """A text that is no YAML, or exceeds a bound; the message is one line."""


def load_yaml(text: str) -> Any:
    """Return what a text says: YAML, or JSON.

    Raises:
        InvalidYaml: it says nothing, or too much.

    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_bounds(text, loader)
        return yaml.load(text, Loader=loader)  # noqa: S506 - both are safe loaders
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise InvalidYaml(f"{error.problem or error.context or 'no YAML'}{place}") from error
    except InvalidYaml:
        raise
    # What a scalar with a tag of its own stands for is converted without a look at it: `!!int x`, `!!float ''`, `2020-99-99`.
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidYaml(str(error).partition("\n")[0] or type(error).__name__) from error


def _check_bounds(text: str, loader: type[Any]) -> None:
    open_nodes: list[tuple[str | None, int]] = []
    """The collections that have begun: the anchor of each, and how long the document was before it, were its aliases written out."""
    lengths: dict[str, int] = {}
    length = 0
    for event in yaml.parse(text, Loader=loader):
        before = length
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, before))
            if len(open_nodes) > MAX_NESTING:
                raise InvalidYaml(f"nested more than {MAX_NESTING} levels deep")
            length += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            lengths |= {anchor: length - before} if anchor is not None else {}
        elif isinstance(event, yaml.ScalarEvent):
            length += 1 + len(event.value)
            # Neither quoted nor a block, or with a tag: so it may stand for a number.
            if len(event.value) > _MAX_DIGITS and not event.implicit[1] and _NUMBER.fullmatch(event.value):
                raise InvalidYaml(f"a number of more than {_MAX_DIGITS} digits")
            lengths |= {event.anchor: length - before} if event.anchor is not None else {}
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in lengths:
                raise InvalidYaml(f"the alias '{event.anchor}' stands for nothing, or for what it is in")
            length += lengths[event.anchor]
            if length > len(text) + MAX_ALIASED:
                raise InvalidYaml(f"its aliases stand for more than {MAX_ALIASED} characters")
