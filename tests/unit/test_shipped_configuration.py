"""conf/eventflink.yaml says every key that exists, with the default that it really has."""

import re
from pathlib import Path

from eventflink.model.configuration import KEYS, Configuration, build_configuration, field_of, load_configuration

SHIPPED = Path(__file__).parents[2] / "conf" / "eventflink.yaml"
KEY_LINE = re.compile(r"^# ([a-z][A-Za-z-]*[.-][A-Za-z.-]+):(?: (.*))?$")


def read_commented_keys() -> dict[str, str]:
    matches = [KEY_LINE.match(line) for line in SHIPPED.read_text(encoding="utf-8").splitlines()]
    return {match.group(1): (match.group(2) or "") for match in matches if match}


def test_it_is_valid_as_shipped_and_changes_nothing() -> None:
    assert load_configuration(SHIPPED, {}) == build_configuration({}, "defaults")


def test_it_names_every_key() -> None:
    assert {field_of(key) for key in read_commented_keys()} == set(KEYS)


def test_the_values_in_the_comments_are_the_defaults() -> None:
    values = {key: value.strip('"') for key, value in read_commented_keys().items() if value}
    assert Configuration.model_validate(values) == build_configuration({}, "defaults")
