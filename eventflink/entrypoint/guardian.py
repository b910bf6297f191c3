"""The guardian of one master: a process of its own that says on `leadership` that its master's leadership is over, as its last will has it.

Started by `guardian_link.py` in a session of its own, it reads wills from standard input, each a line, and knows nothing of what they say.
When the input ends, the last one is produced, unless it is empty: a master that has resigned, or that another one has followed, has made
it void. Then the guardian ends, and after a lease in any case: by then its word is of no use to anybody.
"""

import argparse
import base64
import logging
import sys

from eventflink.events.topics import Topic
from eventflink.log.last_record import produce_last_record
from eventflink.processes.guardian_process import read_owner

_LOGGER = logging.getLogger(__name__)


def line_of(will: bytes) -> bytes:
    """Return a will as a line."""
    return base64.b64encode(will) + b"\n"


def main() -> int:
    """Watch one master until it ends; return the exit code."""
    parser = argparse.ArgumentParser(description="Watches one master; started by it.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--cluster-id", required=True)
    parser.add_argument("--process-id", required=True, type=int)
    parser.add_argument("--timeout-ms", required=True, type=int)
    arguments = parser.parse_args()
    will = b""
    for line in read_owner():
        will = base64.b64decode(line)
    if not will:
        return 0
    told = produce_last_record(arguments.bootstrap, arguments.cluster_id, Topic.LEADERSHIP, "leader", will, arguments.timeout_ms / 1000)
    _LOGGER.info("LeaderDeathReported process_id=%d told=%s", arguments.process_id, told)
    return 0 if told else 1


if __name__ == "__main__":
    sys.exit(main())
