"""Names that a cold-start drill and the masters of its scratch cluster agree on."""

from typing import Final

SCRATCH_MARK: Final = "-drill-"
"""In the id of every scratch cluster; a master rehearses only under such an id."""

CLEAN_UP_NOTED: Final = "CleanUpNoted"
"""What a rehearsing master logs in the place of a clean-up."""

ARCHIVE_NOTED: Final = "ArchiveNoted"
"""What it logs in the place of an archive."""
