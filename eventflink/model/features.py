"""Which events a cluster may write: the feature level (P19).

The state holds the level; a decision raises it once every master that is there or may come back can read the newer events. An older
standby therefore meets nothing that it cannot read. The log is written at a level with the release of the Decision's schema
that has its number.
"""

from typing import Final

FIRST_LEVEL: Final = 1
"""The level of a log that nobody has raised."""

FEATURE_LEVEL: Final = 1
"""The newest level that this version reads and writes."""
