"""`python -m benchmarks`: measures a cluster, with the global options and the exit codes of `eventflink`."""

import sys

from benchmarks.commands import benchmarks
from eventflink.cli.main import run
from eventflink.cli.printer import replace_what_cannot_be_encoded

if __name__ == "__main__":
    replace_what_cannot_be_encoded()
    sys.exit(run(program=benchmarks, name="python -m benchmarks"))
