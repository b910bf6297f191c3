"""What the state of a cluster weighs: the memory of a process of its own before and after it has read it.

`python -m benchmarks.state_memory BOOTSTRAP CLUSTER_ID` reads the state as a command does, from the newest snapshot or from
the first record, and prints one JSON object.
"""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

import psutil

from eventflink.model.cluster_access import access_to
from eventflink.snapshots.loading import read_state

TIMEOUT_S: Final = 600.0


class MemoryNotMeasured(Exception):
    """The process whose memory was to be measured failed; the message says how."""


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """One process that read the state."""

    before_bytes: int
    """Resident, with everything imported."""
    after_bytes: int
    """Resident, with the state."""
    seconds: float
    """From before the first connection to the state at the end of the log."""


def measure_memory(bootstrap: str, cluster_id: str) -> MemoryFigures:
    """Read the state in a process of its own.

    Raises:
        MemoryNotMeasured: it failed, or took longer than ten minutes.

    """
    command = [sys.executable, "-m", "benchmarks.state_memory", bootstrap, cluster_id]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        raise MemoryNotMeasured(f"reading the state failed with exit code {error.returncode}: {error.stderr[-2000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise MemoryNotMeasured(f"reading the state took longer than {TIMEOUT_S:.0f} s") from error
    return MemoryFigures(**json.loads(done.stdout))


def main(arguments: Sequence[str]) -> int:
    """Read the state and print the figures."""
    bootstrap, cluster_id = arguments
    process = psutil.Process()
    before = process.memory_info().rss
    started = time.perf_counter()
    fold = read_state(access_to(bootstrap, cluster_id))
    seconds = time.perf_counter() - started
    gc.collect()
    sys.stdout.write(json.dumps(asdict(MemoryFigures(before, process.memory_info().rss, round(seconds, 3)))))
    return 0 if fold.last_offset >= 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
