"""How the JVMs of tests compile and collect garbage: they live for seconds or minutes, not for days."""

import contextlib
import os
from collections.abc import Iterator
from typing import Final

JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""To optimize for days takes more processor time than all that a test does, and so does a collector that runs beside the program.

A JVM that does not has a fifth of the room for compiled code, 48 MB. A Spark that runs some hundred queries fills it, and ends with
"Out of space in CodeCache for adapters"; so it gets what every other JVM has.
"""
_VARIABLE: Final = "JDK_JAVA_OPTIONS"


@contextlib.contextmanager
def fast_java() -> Iterator[None]:
    """Let a JVM that is started in the block compile for minutes, unless the environment has options for it."""
    is_set = _VARIABLE in os.environ
    if not is_set:
        os.environ[_VARIABLE] = JAVA_OPTIONS
    try:
        yield
    finally:
        if not is_set:
            os.environ.pop(_VARIABLE, None)
