"""The story of a job for people: its lines as a table."""

from typing import Final

from rich.table import Table
from rich.text import Text

from eventflink.cli.drawing import styled
from eventflink.documents.explanation import StoryOfJob

_STYLES: Final = {"failed": "red", "waits": "yellow"}


def story_title(story: StoryOfJob) -> Text:
    """Return which job it is, and how it stands."""
    said = f", {story.restarts} restarts, as of log offset {story.log_offset}"
    return Text.assemble(f"{story.name} ({story.job_id}) ", styled(story.status), said)


def draw_story(story: StoryOfJob) -> Table:
    """Return the lines of a story."""
    table = Table()
    for heading in ("offset", "epoch", "when", "what"):
        table.add_column(heading, justify="right" if heading in ("offset", "epoch") else "left", no_wrap=heading != "what")
    for line in story.lines:
        until = f"..{line.until_offset}" if line.until_offset != line.offset else ""
        table.add_row(f"{line.offset}{until}", str(line.epoch), line.at, Text(line.text, style=_STYLES.get(line.look, "")))
    return table
