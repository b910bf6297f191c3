"""What a Spark elsewhere has to be: with times after which it computes for nobody no more, and rules by which a query means the same."""

from zoneinfo import ZoneInfo

import pytest

from eventflink.taskexecutor.spark_contract import (
    SERVER_SETTINGS,
    TIME_LIMITS,
    find_differences,
    find_other_meaning,
)


def test_a_spark_that_is_started_as_ours_is_as_tasks_need_it() -> None:
    assert find_differences(SERVER_SETTINGS) == []


def test_what_spark_has_by_itself_is_told_with_what_follows_and_what_to_do() -> None:
    told = find_differences({})
    assert [sentence.partition(" ")[0] for sentence in told] == [limit.key for limit in TIME_LIMITS]
    assert "spark.connect.session.manager.defaultSessionTimeout is not set, so 3600s: what a lost host has left computes on" in told[3]
    assert told[3].endswith("start that Spark with 60s")


@pytest.mark.parametrize("text", ["60s", "1m", "1min", "60000", "60000ms", "30 s"])
def test_a_time_may_be_written_as_spark_takes_it(text: str) -> None:
    assert find_differences(SERVER_SETTINGS | {TIME_LIMITS[3].key: text}) == []


@pytest.mark.parametrize("text", ["0", "0s", "61s", "1h", "2min", "1d", "60001", "soon", "", "-1"])
def test_a_longer_time_and_what_is_none_is_told(text: str) -> None:
    [told] = find_differences(SERVER_SETTINGS | {TIME_LIMITS[3].key: text})
    assert told.startswith(f"{TIME_LIMITS[3].key} is '{text}'")


ANSI, ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"


@pytest.mark.parametrize("settings", [{}, {ANSI: "true", ZONE: "Etc/UTC"}, {ZONE: "UTC"}, {ZONE: "+01:00"}])
def test_a_session_that_means_the_same_as_on_a_host_is_as_it_should_be(settings: dict[str, str]) -> None:
    assert find_other_meaning(settings, ZoneInfo("UTC")) == []


def test_rules_and_a_time_zone_by_which_a_query_means_something_else_are_told_with_the_remedy() -> None:
    told = find_other_meaning({ANSI: "false", ZONE: "Europe/Berlin"}, ZoneInfo("Africa/Lagos"))
    assert [sentence.partition(":")[0] for sentence in told] == [
        "spark.sql.ansi.enabled is 'false'",
        "spark.sql.session.timeZone is 'Europe/Berlin', which is not as on this host",
    ]
    assert all(
        sentence.endswith("start that Spark with the one that is meant, or name it in the settings of its engine") for sentence in told
    )
    assert find_other_meaning({ZONE: "Europe/Berlin"}, ZoneInfo("Europe/Paris")) == []
