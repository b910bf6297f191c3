"""The page docs/generated/protocol-tests.md: what shows each rule of docs/protocol.md, made of the tests' markers and of the mutations.

The rules, their order and their titles are those of docs/protocol.md.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from docs.generate.page import ROOT
from tests.support.named_tests import showing
from tests.unit.simulation_mutations import FOUND_BY, FOUND_BY_TEST, MUTATIONS, NOT_FOUND, SELDOM, Mutation

_INTRODUCTION: Final = """\
# What shows the protocol's rules

<!-- Generated from the tests' markers and tests/unit/simulation_mutations.py: do not edit this page, run `python -m docs.generate`. -->

Of each rule of [protocol.md](../protocol.md): the tests that show it, which are marked with its number, and the mutations that break it
in the real code, by one method or one condition. A seed is one run of the [simulation](../simulation.md) that finds a mutation, and that
holds while nothing is broken; a test that finds one fails while the rule is broken.
"""
_ELSEWHERE: Final = """
## Rules of other pages

What the simulation holds slots ([slots.md](../slots.md)) and resource drivers ([resource-drivers.md](../resource-drivers.md)) to is broken
as well.

"""
_RULE: Final = re.compile(r"^### ([PLSC]\d+[a-z]?) ([^\n]+)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of docs/protocol.md."""

    number: str
    title: str
    text: str

    @property
    def link(self) -> str:
        """Where the rule stands, from a page of docs/generated/."""
        return "../protocol.md#" + re.sub(r"[^\w\- ]", "", f"{self.number} {self.title}".lower()).replace(" ", "-")


@cache
def rules() -> dict[str, Rule]:
    """Return the rules by their numbers, in the order in which they stand on their page."""
    page = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    return {number: Rule(number, title, text) for number, title, text in _RULE.findall(page)}


def render() -> str:
    """Return the page: a section for each rule, and one for what is no rule of the protocol and is broken as well."""
    others = [mutation for mutation in MUTATIONS.values() if mutation.rule not in rules()]
    elsewhere = _ELSEWHERE + "\n".join(_mutations(others)) + "\n"
    return _INTRODUCTION + "".join(f"\n{section}\n" for section in map(_section, rules().values())) + elsewhere


def _section(rule: Rule) -> str:
    lines = [f"## {rule.number}", "", f"[{rule.title}]({rule.link}).", "", "| test | in |", "|---|---|"]
    lines += [f"| `{test.name}` | `{test.file}` |" for test in showing(rule.number)]
    broken = [mutation for mutation in MUTATIONS.values() if mutation.rule == rule.number]
    return "\n".join([*lines, "", *_mutations(broken)])


def _mutations(mutations: Iterable[Mutation]) -> Iterator[str]:
    yield "| broken so | mutation | found by |"
    yield "|---|---|---|"
    for mutation in sorted(mutations, key=lambda each: (each.rule, each.name)):
        yield f"| {mutation.what} | `{mutation.name}` | {_found_by(mutation.name)} |"


def _found_by(name: str) -> str:
    """Return a seed, or a test, or why it is found by neither."""
    ways = [f"seed {FOUND_BY[name]}"] if name in FOUND_BY else []
    ways += [f"`{FOUND_BY_TEST[name]}`"] if name in FOUND_BY_TEST else []
    ways += ["a seed of many hundreds: too seldom for a test that stays short"] if name in SELDOM else []
    return ", ".join(ways) or f"neither: {NOT_FOUND[name]}"
