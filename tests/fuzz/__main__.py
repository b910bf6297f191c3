"""python -m tests.fuzz: fuzz for as long as is said, and tell how many inputs there were; ends with 1 where a law was broken."""

import argparse
import logging
import sys
from pathlib import Path

from tests.fuzz.corpus_files import CORPUS, read_case
from tests.fuzz.engine import LawBroken, check, run
from tests.fuzz.targets import TARGETS


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser("python -m tests.fuzz", description="Fuzz what reads what others write.")
    parser.add_argument("--seconds", type=float, default=60, help="for how long, of all targets together (60)")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="what is fuzzed; may be repeated (all)")
    parser.add_argument("--seed", type=int, default=0, help="where the inputs come from; the same seed makes the same ones (0)")
    parser.add_argument("--case", type=Path, help=f"run this one case instead, a file as in {CORPUS.name}/; its target has to be named")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)
    names = arguments.target or list(TARGETS)
    has_failed = False
    for name in names:
        target = TARGETS[name]()
        try:
            if arguments.case is not None:
                check(target, read_case(arguments.case))
                print(f"{arguments.case}: the laws of {name} hold")
            else:
                print(run(target, arguments.seed, arguments.seconds / len(names)).line(), flush=True)
        except LawBroken as error:
            has_failed = True
            print(error, file=sys.stderr, flush=True)
        finally:
            target.close()
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
