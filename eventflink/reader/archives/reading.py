"""The archive of a job that the state does not hold: whatever the accepted state says of a job comes first.

The rule: an archive that is not what the log says it is is never an answer.
"""

from typing import Any, Final

from eventflink.blob.job_archives import ArchiveDamaged, ArchiveMissing, JobArchives
from eventflink.documents.one_job import JobArchive
from eventflink.documents.plain import parse
from eventflink.model.job_graph_document import is_valid_job_id
from eventflink.views.jobs_and_cluster import JobNotFound

MAX_REASON: Final = 200


def archive_of(document: dict[str, Any], location: str) -> JobArchive:
    """Return an archive from the document that was written; raises `ArchiveDamaged` where it is another version's."""
    try:
        return parse(JobArchive, document)
    except ValueError as error:
        raise ArchiveDamaged(f"the archive {location} does not read as one of this version: {str(error)[:MAX_REASON]}") from error


def read_archived(archives: JobArchives | None, missing: JobNotFound) -> JobArchive:
    """Return the archive of a job that has left the memory; blocks.

    Args:
        archives: where this process looks for archives; None: nowhere.
        missing: the state's word that it does not hold the job, and which archive there should be.

    Raises:
        JobNotFound: there is no archive either; it is `missing`.
        ArchiveMissing, ArchiveDamaged: there should be one, and it is gone or damaged.
        BlobError, OSError: the storage does not answer as it should.

    """
    if archives is None or missing.archive_digest == "" or not is_valid_job_id(missing.job_id):
        raise missing
    try:
        document = archives.read(missing.job_id, missing.archive_digest or "")
    except ArchiveMissing as error:
        if missing.archive_digest is None:
            raise missing from error
        raise ArchiveMissing(f"{error}, though it was written") from error
    return archive_of(document, f"of job '{missing.job_id}'")
