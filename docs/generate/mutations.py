"""The page docs/generated/mutations.md: rules that tests break on purpose, and what finds each, made of the mutations themselves."""

import re
from typing import Final

from tests.unit.simulation_mutations import FOUND_BY, FOUND_BY_TEST, MUTATIONS, NOT_FOUND, SELDOM

_INTRODUCTION: Final = """\
# Rules broken on purpose

<!-- Generated from tests/unit/simulation_mutations.py: do not edit this page, run `python -m docs.generate`. -->

Each mutation breaks a rule in the real code, by one method or one condition. A seed is one run of the [simulation](../simulation.md) that
finds it, and that holds while nothing is broken; a test fails while the rule is broken. Rules are those of [protocol.md](../protocol.md).

| rule | instead | mutation | found by |
|---|---|---|---|
"""
_RULE: Final = re.compile(r"([A-Z]*)(\d*)(.*)")


def render() -> str:
    """Return the page: a row for each mutation, in the order of the rules."""
    rows = sorted(MUTATIONS.values(), key=lambda mutation: (*_order_of(mutation.rule), mutation.name))
    lines = [f"| {each.rule} | {each.what} | `{each.name}` | {_found_by(each.name)} |" for each in rows]
    return _INTRODUCTION + "\n".join(lines) + "\n"


def _order_of(rule: str) -> tuple[str, int, str]:
    found = _RULE.fullmatch(rule)
    letters, number, rest = found.groups() if found else ("", "", rule)
    return letters or "~", int(number or 0), rest  # What is no rule's number stands at the end.


def _found_by(name: str) -> str:
    """Return a seed, or a test, or why it is found by neither."""
    ways = [f"seed {FOUND_BY[name]}"] if name in FOUND_BY else []
    ways += [f"`{FOUND_BY_TEST[name]}`"] if name in FOUND_BY_TEST else []
    ways += ["a seed of many hundreds: too seldom for a test that stays short"] if name in SELDOM else []
    return ", ".join(ways) or f"neither: {NOT_FOUND[name]}"
