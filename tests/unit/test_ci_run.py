"""`.ci/run` with entries of a matrix: what it cannot run is said before anything is installed or tested."""

import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (["nonsense"], "invalid entry 'nonsense': name a Python such as python3.13, a Kafka such as kafka-4.2.0, or both with a comma"),
        (["kafka-4.0.0,spark-4.1.0"], "invalid entry 'kafka-4.0.0,spark-4.1.0'"),
        (["kafka-4.0.0", "python3.99"], "Python not found: python3.99"),
    ],
)
def test_an_entry_that_cannot_be_run_is_refused_at_once(entries: list[str], said: str) -> None:
    done = subprocess.run([str(RUN), *entries], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
