"""Where a master writes the archives of ended jobs: its own, and copies in Flink's format if they are wanted.

What Flink's REST API answers is the business of the room `rest`, which this one does not know: whoever starts a master hands it in.
"""

from dataclasses import dataclass

from eventflink.blob.flink_archives import FlinkArchives, Render
from eventflink.blob.job_archives import JobArchives
from eventflink.blob.open_storage import open_storage
from eventflink.model.configuration import Configuration

_KEY = "jobmanager.archive.fs.dir"


@dataclass(frozen=True, slots=True)
class ArchivePlaces:
    """Where the archives of a cluster go."""

    own: JobArchives | None
    """None: nowhere."""
    flink: FlinkArchives | None
    """None: there are no copies in Flink's format."""


def open_archives(configuration: Configuration, render: Render | None) -> ArchivePlaces:
    """Return the places that a configuration names; nothing is opened yet. `render` makes copies in Flink's format; None: there are none.

    Raises:
        BlobStorageUnusable: masters cannot share the directory.

    """
    if not configuration.archive_root:
        return ArchivePlaces(None, None)
    own = JobArchives(open_storage(configuration.archive_location, _KEY), configuration.job_store_cache_size)
    return ArchivePlaces(own, FlinkArchives(open_storage(configuration.archive_root, _KEY), render) if render is not None else None)
