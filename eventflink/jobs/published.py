"""What a subtask published, told apart from what is left of it: each output has a list of its files, written when all of them were whole.

Spark reads whatever files a directory has, so one that is gone, or is there twice, would change a result unnoticed. What was written is
said in two places: the list names each file with its size, and the log has the sums and the list's digest (`OutputLocation`). Nothing here
reads rows: how many there are stands at the end of each file. The rule it keeps: what one process says of its own disk is never believed
without what others said they wrote.
"""

import hashlib
import json
import socket
from typing import Any, Final

from eventflink.jobs.stored_files import FileFacts, StoreFailed, count_rows, find_files, read_start, write_whole
from eventflink.model.attempts import OutputLocation
from eventflink.model.places import Place

FILE_LIST: Final = "_eventflink_files.json"
"""Hidden from Spark by its first character."""

MUST_BE_SHARED: Final = (
    "every TaskExecutor, and the driver and all executors of its Spark, must see the same execution.working-directory: share it, "
    "or name one that is shared"
)
"""What to do where two processes do not see the same files."""

_MAX_LIST_BYTES: Final = 16 * 1024 * 1024
_DIGEST_BYTES: Final = 16


class OutputNotWhole(Exception):
    """What Spark wrote is not there for this process, or not all of it; the message says where, and what to do."""


class ResultUnreadable(Exception):
    """What was published is not there, is not whole or is not Parquet; the message says what of it."""


def write_file_list(output: str, place: Place, written_rows: int) -> OutputLocation:
    """Write down which files an output consists of, and return what was written.

    Args:
        output: its name.
        place: where it is.
        written_rows: how many rows Spark's executors say to have written.

    Raises:
        OutputNotWhole: there are other rows or none, so Spark has written to a file system that this process does not see; or the list
            cannot be written.
        StoreFailed: the store refused, or did not answer.

    """
    wrote = f"Spark wrote {written_rows} rows to {place}, where host {socket.gethostname()} finds"
    try:
        found = find_files(place)
    except OSError as error:
        raise OutputNotWhole(f"{wrote} nothing ({error.strerror or error}): {MUST_BE_SHARED}") from error
    try:
        found_rows = count_rows([place / name for name in found])
    except (OSError, ValueError) as error:
        raise OutputNotWhole(f"{wrote} a file that cannot be read: {error}") from error
    if found_rows != written_rows or not found:
        raise OutputNotWhole(f"{wrote} {found_rows} in {len(found)} files: {MUST_BE_SHARED}")
    listed = json.dumps(_list_of(found), ensure_ascii=False, sort_keys=True).encode()
    if len(listed) > _MAX_LIST_BYTES:
        raise OutputNotWhole(f"{place} has {len(found)} files, which no list of {_MAX_LIST_BYTES} bytes can name: coalesce its rows")
    try:
        write_whole(place / FILE_LIST, listed)
    except OSError as error:
        raise OutputNotWhole(f"the list of the files in {place} cannot be written: {error}") from error
    return OutputLocation(output, str(place), found_rows, len(found), sum(facts.size for facts in found.values()), _digest_of(listed))


def _list_of(found: dict[str, FileFacts]) -> dict[str, Any]:
    """Return the list as it is written: what a store calls the contents stands beside the sizes."""
    versions = {name: facts.version for name, facts in found.items() if facts.version}
    return {"files": {name: facts.size for name, facts in found.items()}} | ({"versions": versions} if versions else {})


def _digest_of(listed: bytes) -> str:
    return hashlib.blake2b(listed, digest_size=_DIGEST_BYTES).hexdigest()


def place_of(output: OutputLocation) -> Place:
    """Return where the files of an output are."""
    return place_at(output.location)


def place_at(location: str) -> Place:
    """Return the place that a location in the log means."""
    return Place(location.removeprefix("file://"))


def find_damage(output: OutputLocation) -> str | None:
    """Return what is wrong with an output that was published, or None where there is what the log says was written, and nothing else.

    Raises:
        StoreFailed: the store refused, or did not answer, so nobody knows.

    """
    place = place_of(output)
    try:
        listed, found = _read_list(output)
        if more := [name for name in found if name not in listed]:
            return f"{place / more[0]} was not written by the attempt that published the directory: remove it"
        if all(facts.version for facts in listed.values()):
            return None  # They are the very contents whose rows were counted.
        found_rows = count_rows([place / name for name in listed])
    except _Damage as damage:
        return str(damage)
    except (OSError, ValueError) as error:
        return f"{place} cannot be read: {error}"
    return None if found_rows == output.rows else f"{place} has {found_rows} rows, and {output.rows} were written"


def published_files(output: OutputLocation) -> list[Place]:
    """Return the files of an output that was published, in the order of their names, and no others that lie there.

    Raises:
        ResultUnreadable: one of them is gone, or has another size than was written, or the list is another one; or its store does not say.

    """
    place = place_of(output)
    try:
        return [place / name for name in sorted(_read_list(output)[0])]
    except _Damage as damage:
        here = "" if place.scheme else f", or is on another host than {socket.gethostname()}"
        raise ResultUnreadable(f"{damage}: it was removed or changed{here}") from damage
    except StoreFailed as error:
        raise ResultUnreadable(str(error)) from error
    except (OSError, ValueError) as error:
        raise ResultUnreadable(f"{place} cannot be read: {error}") from error


class _Damage(Exception):
    """What is wrong with an output."""


def _read_list(output: OutputLocation) -> tuple[dict[str, FileFacts], dict[str, FileFacts]]:
    """Return the files of an output as they were published, each of which is there as it was; and all that are there."""
    place = place_of(output)
    try:
        found = find_files(place)
    except FileNotFoundError:
        raise _Damage(f"{place} is not there") from None
    path = place / FILE_LIST
    try:
        listed = read_start(path, _MAX_LIST_BYTES + 1)
    except FileNotFoundError:
        raise _Damage(f"{place} has no list of its files" if found or not place.scheme else f"{place} is not there") from None
    if _digest_of(listed) != output.digest:
        raise _Damage(f"{path} is not the list of files that was written")
    document = json.loads(listed)
    versions = document.get("versions", {})
    published = {name: FileFacts(size, versions.get(name, "")) for name, size in document["files"].items()}
    for name, facts in published.items():
        if (now := found.get(name)) is None:
            raise _Damage(f"{place / name} is gone")
        if now.size != facts.size:
            raise _Damage(f"{place / name} has {now.size} bytes, and had {facts.size}")
        if now.version != facts.version:
            raise _Damage(f"{place / name} is another object than was written")
    return published, found
