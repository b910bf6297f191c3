"""`python -m docs.generate` releases the schemas that changed and writes every page of docs/generated/ again, in a checkout of the sources.

`--replace-newest` takes back the newest release of each schema that changed (`schemas.py`). What it wrote is printed, a file a line.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from docs.generate import configuration, events, metrics, protocol_tests, schemas, state_machines
from docs.generate.page import ROOT, Page

PAGES: Final = (
    Page("configuration.md", configuration.render),
    Page("events.md", events.render),
    Page("metrics.md", metrics.render),
    Page("protocol-tests.md", protocol_tests.render),
    Page("state-machines.md", state_machines.render),
)
"""Every page that repeats the code, and so is made of it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is not in step with the code; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description="Write schemas and pages that are made of the code.")
    parser.add_argument("--replace-newest", action="store_true", help="take back the newest release: nobody has written with it yet")
    options = parser.parse_args(arguments)
    try:
        released = schemas.release(ROOT / "schemas", schemas.documents(), replace_newest=options.replace_newest)
    except schemas.IncompatibleChange as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"schemas/{name}\n" for name in released))
    for page in PAGES:
        if not page.path.exists() or page.path.read_text(encoding="utf-8") != page.render():
            page.path.write_text(page.render(), encoding="utf-8")
            sys.stdout.write(f"docs/generated/{page.file_name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
