"""What a subtask published, told apart from what is left of it: each output has a list of its files, written when all of them were whole.

Spark reads whatever files a directory has, so one that is gone, or is there twice, would change a result unnoticed. What was written is
said in two places: the list names each file with its size, and the log has the sums and the list's digest (`OutputLocation`). Nothing here
reads rows: how many there are stands at the end of each file. The rule it keeps: what one process says of its own disk is never believed
without what others said they wrote.
"""

import hashlib
import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from eventflink.model.attempts import OutputLocation

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


def write_file_list(output: str, directory: Path, written_rows: int) -> OutputLocation:
    """Write down which files an output consists of, and return what was written.

    Args:
        output: its name.
        directory: where it is.
        written_rows: how many rows Spark's executors say to have written.

    Raises:
        OutputNotWhole: there are other rows or none, so Spark has written to a file system that this process does not see; or the list
            cannot be written.

    """
    wrote = f"Spark wrote {written_rows} rows to {directory}, where host {socket.gethostname()} finds"
    try:
        paths = _data_files(directory)
    except OSError as error:
        raise OutputNotWhole(f"{wrote} nothing ({error.strerror or error}): {MUST_BE_SHARED}") from error
    try:
        found_rows = _count_rows(paths)
    except (OSError, ValueError) as error:
        raise OutputNotWhole(f"{wrote} a file that cannot be read: {error}") from error
    if found_rows != written_rows or not paths:
        raise OutputNotWhole(f"{wrote} {found_rows} in {len(paths)} files: {MUST_BE_SHARED}")
    sizes = {str(path.relative_to(directory)): path.stat().st_size for path in paths}
    listed = json.dumps({"files": sizes}, ensure_ascii=False, sort_keys=True).encode()
    if len(listed) > _MAX_LIST_BYTES:
        raise OutputNotWhole(f"{directory} has {len(paths)} files, which no list of {_MAX_LIST_BYTES} bytes can name: coalesce its rows")
    try:
        temporary = directory / f"{FILE_LIST}.part"
        temporary.write_bytes(listed)
        temporary.replace(directory / FILE_LIST)
    except OSError as error:
        raise OutputNotWhole(f"the list of the files in {directory} cannot be written: {error}") from error
    return OutputLocation(output, str(directory), found_rows, len(sizes), sum(sizes.values()), _digest_of(listed))


def _digest_of(listed: bytes) -> str:
    return hashlib.blake2b(listed, digest_size=_DIGEST_BYTES).hexdigest()


def _count_rows(paths: Iterable[Path]) -> int:
    """Return how many rows files of Parquet say at their ends to have; `ValueError` where one does not."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - who looks at lists only does not wait for it

    return sum(int(pq.read_metadata(path).num_rows) for path in paths)


def directory_of(output: OutputLocation) -> Path:
    """Return where the files of an output are."""
    return Path(output.location.removeprefix("file://"))


def find_damage(output: OutputLocation) -> str | None:
    """Return what is wrong with an output that was published, or None where there is what the log says was written, and nothing else."""
    directory = directory_of(output)
    try:
        sizes = _read_list(output)
        if more := [path for path in _data_files(directory) if str(path.relative_to(directory)) not in sizes]:
            return f"{more[0]} was not written by the attempt that published the directory: remove it"
        found_rows = _count_rows(directory / name for name in sizes)
    except _Damage as damage:
        return str(damage)
    except (OSError, ValueError) as error:
        return f"{directory} cannot be read: {error}"
    return None if found_rows == output.rows else f"{directory} has {found_rows} rows, and {output.rows} were written"


def published_files(output: OutputLocation) -> list[Path]:
    """Return the files of an output that was published, in the order of their names, and no others that lie there.

    Raises:
        ResultUnreadable: one of them is gone, or has another size than was written, or the list is another one.

    """
    directory = directory_of(output)
    try:
        return [directory / name for name in sorted(_read_list(output))]
    except _Damage as damage:
        raise ResultUnreadable(f"{damage}: it was removed or changed, or is on another host than {socket.gethostname()}") from damage
    except (OSError, ValueError) as error:
        raise ResultUnreadable(f"{directory} cannot be read: {error}") from error


class _Damage(Exception):
    """What is wrong with an output."""


def _read_list(output: OutputLocation) -> dict[str, int]:
    """Return the files of an output with their sizes; each of them exists."""
    directory = directory_of(output)
    if not directory.is_dir():
        raise _Damage(f"{directory} is not there")
    path = directory / FILE_LIST
    if not path.is_file():
        raise _Damage(f"{directory} has no list of its files")
    with path.open("rb") as file_list:
        listed = file_list.read(_MAX_LIST_BYTES + 1)
    if _digest_of(listed) != output.digest:
        raise _Damage(f"{path} is not the list of files that was written")
    sizes: dict[str, int] = json.loads(listed)["files"]
    for name, size in sizes.items():
        file = directory / name
        try:
            found = file.stat().st_size
        except FileNotFoundError:
            raise _Damage(f"{file} is gone") from None
        if found != size:
            raise _Damage(f"{file} has {found} bytes, and had {size}")
    return sizes


def _data_files(directory: Path) -> list[Path]:
    """Return the files that Spark reads: neither hidden ones, nor what is in hidden directories."""
    found = []
    for folder, names, files in os.walk(directory, onerror=_raise):
        names[:] = [name for name in names if not name.startswith(("_", "."))]
        found += [Path(folder) / name for name in files if not name.startswith(("_", "."))]
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error
