"""What a master needs to write archives in Flink's format: the shapes of the room `rest`, loaded only where they are wanted."""

from eventflink.blob.flink_archives import Render
from eventflink.model.configuration import Configuration


def flink_render(configuration: Configuration) -> Render | None:
    """Return what makes archives in Flink's format; None: the configuration wants none."""
    if not configuration.flink_archives:
        return None
    from eventflink.rest.flink.archive_format import flink_archive  # noqa: PLC0415 - a web framework, which no other master loads

    return flink_archive
