"""The packages that a job requires: resolved and installed by uv where the job is submitted, and packed as an archive of its code.

The archive is made once for what was resolved (a lock), an interpreter and a platform, and kept in the user's cache; its bytes depend on
nothing but the packages. A member of it says that it holds packages, and for whom: by that `taskexecutor/task_packages.py` knows it. The
rule it keeps: nothing is run of a job here, and no index is asked for what is locked and was packed before.
"""

import contextlib
import hashlib
import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final

from eventflink.jobs.archive import PACKAGES_MARKER, ArchiveError, Opened, interpreter, write_archive
from eventflink.local.jars import default_cache_directory
from eventflink.processes.packages_path import SPARK_PYTHON, SPARK_PYTHON_SCRIPT

MAX_PACKAGES_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Of the files of all packages together; what they take packed, the blob server bounds (`blob.max-size`)."""

KEPT_UNUSED_S: Final = 30 * 24 * 3600.0
"""How long an archive stays in the user's cache after it was asked for last. It is made again from a lock, so this costs time alone."""

MAX_REQUIREMENTS: Final = 1_000
MAX_REQUIREMENT_LENGTH: Final = 1_024
MAX_FILE_BYTES: Final = 4 * 1024 * 1024
_MAX_PACKAGES_FILES: Final = 200_000
_RESOLVE_TIMEOUT_S: Final = 300.0
_INSTALL_TIMEOUT_S: Final = 900.0
_SHOWN_LINES: Final = 20
_OF_THE_CLUSTER: Final = ("eventflink", "pyspark", "pyspark-client", "pyspark-connect", "py4j")
"""What tasks have of their TaskExecutor, whatever a job requires."""
_LOADED_IN_TASKS: Final = frozenset(
    {
        *("annotated-types", "confluent-kafka", "cronsim", "fastavro", "fsspec", "grpcio", "pandas", "psutil", "pyarrow", "pydantic"),
        *("pyspark", "pyyaml"),
    }
)
"""What a task's process loads for eventflink and Spark, beside the job's code."""
_LEFT_OUT: Final = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"})
"""Files of a package's metadata that say how and where it was installed."""
_AS_PIP: Final = {
    "UV_DEFAULT_INDEX": "PIP_INDEX_URL",
    "UV_INDEX": "PIP_EXTRA_INDEX_URL",
    "UV_FIND_LINKS": "PIP_FIND_LINKS",
    "SSL_CERT_FILE": "PIP_CERT",
}
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PINNED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?==[^\s;]+")
_EDITABLE: Final = re.compile(r"^(?:-e|--editable)[ =]*")
_COMMIT: Final = re.compile(r"git\+\S+@[0-9a-f]{40}\b")
_CONNECT: Final = re.compile(r";\s*extra == ['\"]connect['\"]$")
_OTHER_FILES: Final = re.compile(r"-r|-c|-e|--requirement|--constraint|--editable")


class PackagesUnusable(ArchiveError):
    """The packages that a job requires cannot be resolved, installed or packed; the message says why."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a job requires, as it says it: specifiers, or a file of them."""

    specifiers: tuple[str, ...] = ()
    file: Path | None = None
    """A requirements file or a lock, by the format of pip."""

    def text(self) -> str:
        """Return it in the format of a requirements file.

        Raises:
            PackagesUnusable: the file cannot be read.

        """
        if self.file is None:
            return "".join(f"{each}\n" for each in self.specifiers)
        try:
            with self.file.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
            if len(data) > MAX_FILE_BYTES:
                raise PackagesUnusable(f"requirements: {self.file} is longer than {MAX_FILE_BYTES} bytes")
            return data.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise PackagesUnusable(f"requirements: {self.file} cannot be read: {error}") from error


def parse_requirements(value: object, directory: Path | None) -> Requirements:
    """Return what stands under `requirements` in a document: the path of a file from its directory, or a list of specifiers.

    Raises:
        ValueError: it is neither; the message says what is expected.

    Examples:
        >>> parse_requirements(["humanize>=4"], None).specifiers
        ('humanize>=4',)

    """
    if isinstance(value, str) and value:
        if directory is None and not Path(value).is_absolute():
            raise ValueError(f"'{value[:128]}' is a path, and nothing says from where: give an absolute one, or a list of requirements")
        return Requirements(file=(directory or Path()) / value)
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        raise ValueError("give the path of a requirements file, or a list of requirements such as [numpy==2.2.6, humanize]")
    if len(value) > MAX_REQUIREMENTS:
        raise ValueError(f"more than {MAX_REQUIREMENTS} requirements: name a file of them")
    for each in value:
        if not each.strip() or len(each) > MAX_REQUIREMENT_LENGTH or not each.isprintable() or each.lstrip().startswith("-"):
            raise ValueError(f"invalid requirement '{each[:64]}': name a package, such as numpy==2.2.6; options of pip stand in a file")
    return Requirements(specifiers=tuple(value))


def find_packages(requirements: Requirements, cache_directory: Path | None = None) -> Path:
    """Return where the archive is with the packages, for this interpreter and platform, made first where it is missing.

    Args:
        requirements: what the job says.
        cache_directory: where archives are kept that were made before; None: in the user's cache.

    Raises:
        PackagesUnusable: they cannot be resolved, installed or packed, or uv is not there.

    """
    text = requirements.text()
    cache = (cache_directory if cache_directory is not None else default_cache_directory()) / "packages"
    with tempfile.TemporaryDirectory(prefix="eventflink-packages-") as scratch:
        uv = _Uv(requirements, Path(scratch))
        lock = _to_install(text if is_locked(text) else uv.resolve(text))
        place = cache / f"{hashlib.sha256(json.dumps([lock, interpreter(), SPARK_PYTHON_SCRIPT, bounds()]).encode()).hexdigest()}.zip"
        if place.is_file():
            place.touch()
            return place
        if is_locked(text):
            uv.check(lock)
        members = _members_of(uv.install(lock))
        packed = Path(scratch) / "packages.zip"
        with packed.open("wb") as file:
            write_archive(file, _opened(members, lock), max_bytes=MAX_PACKAGES_BYTES, executable=_executables(members))
        if _may_change(lock):
            with packed.open("rb") as file:
                place = cache / f"{hashlib.file_digest(file, 'sha256').hexdigest()}.zip"
        cache.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(f".{os.getpid()}.part")
        shutil.copyfile(packed, part)
        part.replace(place)
        _remove_unused(cache)
        return place


def _remove_unused(cache: Path) -> None:
    """Remove the archives, and what was never finished of some, that nobody has asked for since `KEPT_UNUSED_S`."""
    for path in cache.iterdir():
        # Another process may remove the same.
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime >= KEPT_UNUSED_S:
                path.unlink()


def is_locked(text: str) -> bool:
    """Tell whether a requirements file says all: each package with its version and hashes, and none of another file."""
    lines = list(_lines(text))
    required = [line for line in lines if not line.startswith("-")]
    return bool(required) and all("--hash=" in line for line in required) and not any(_OTHER_FILES.match(line) for line in lines)


def _lines(text: str) -> Iterator[str]:
    """Yield what a requirements file says, without comments, each on one line."""
    for line in text.replace("\\\n", " ").splitlines():
        if said := re.sub(r"(^|\s)#.*$", "", line).strip():
            yield " ".join(said.split())


def _to_install(lock: str) -> str:
    """Return what of a lock is installed: not what is the cluster's, and of editable packages what they are now, for only that travels."""
    lines = [_EDITABLE.sub("", line) for line in _lines(lock)]
    return "".join(f"{line}\n" for line in lines if _name_of(line) not in _OF_THE_CLUSTER)


def _may_change(lock: str) -> bool:
    """Tell whether the same lock may stand for other packages later, as directories do: neither hash nor commit says what they hold."""
    return any("--hash=" not in line and not _COMMIT.search(line) for line in _lines(lock) if not line.startswith("-"))


def _name_of(line: str) -> str:
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""


class _Uv:
    """Runs uv for one job, in a directory of its own."""

    def __init__(self, requirements: Requirements, scratch: Path) -> None:
        self._scratch = scratch
        # What a file names by a relative path is beside it.
        self._directory = requirements.file.absolute().parent if requirements.file is not None else scratch
        self._source = requirements.file.absolute() if requirements.file is not None else scratch / "requirements.in"
        self._constraints = scratch / "constraints.txt"
        self._bounds = bounds()

    def resolve(self, text: str) -> str:
        """Return the lock of what a text requires."""
        if self._source.parent == self._scratch:
            self._source.write_text(text, encoding="utf-8")
        lock = self._scratch / "lock.txt"
        said = ["--no-header", "--no-annotate", "--generate-hashes", "--emit-index-url", "--emit-find-links"]
        while True:
            self._run("resolved", ["compile", *said, "--output-file", str(lock), str(self._source)], _RESOLVE_TIMEOUT_S)
            resolved = lock.read_text(encoding="utf-8")
            if not self._bind(resolved):
                return resolved

    def check(self, lock: str) -> None:
        """Check what was locked elsewhere against the bounds."""
        self._bind(lock)
        source = self._scratch / "locked.txt"
        source.write_text(lock, encoding="utf-8")
        self._run(
            "resolved", ["compile", "--no-deps", "--output-file", str(self._scratch / "checked.txt"), str(source)], _RESOLVE_TIMEOUT_S
        )

    def _bind(self, lock: str) -> bool:
        """Bind the packages of a lock also to what those want that tasks have of their TaskExecutor; tell whether that is anything new."""
        new = [each for each in bounds_beside(lock) if each not in self._bounds]
        self._bounds += new
        return bool(new)

    def install(self, lock: str) -> Path:
        """Return the directory in which the packages of a lock are."""
        target, source = self._scratch / "installed", self._scratch / "to-install.txt"
        target.mkdir()
        source.write_text(lock, encoding="utf-8")
        if any(not line.startswith("-") for line in _lines(lock)):
            said = ["--no-deps", "--target", str(target), *(["--require-hashes"] if is_locked(lock) else [])]
            # What uv built of a directory it takes again, whatever changed in there.
            said += ["--reinstall"] if _may_change(lock) else []
            self._run("installed", ["install", *said, "--requirements", str(source)], _INSTALL_TIMEOUT_S)
        return target

    def _run(self, what: str, arguments: Sequence[str], timeout_s: float) -> None:
        command = [_find_uv(), "pip", *arguments, "--quiet", "--python", sys.executable]
        if "--require-hashes" not in arguments:
            self._constraints.write_text("".join(f"{each}\n" for each in self._bounds), encoding="utf-8")
            command += ["--constraints", str(self._constraints)]
        try:
            done = subprocess.run(
                command, cwd=self._directory, env=_environment(os.environ), capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise PackagesUnusable(f"requirements: the packages were not {what} in {timeout_s:.0f} s") from error
        except OSError as error:
            raise PackagesUnusable(f"requirements: uv cannot be run: {error}") from error
        if done.returncode != 0:
            told = [line.rstrip() for line in done.stderr.splitlines() if line.strip()][:_SHOWN_LINES]
            bounded = {_name_of(each) for each in self._bounds} & set(re.findall(r"[a-z0-9-]+", done.stderr.lower()))
            bound = "; what eventflink loads in tasks itself bounds " + ", ".join(sorted(bounded)) if bounded else ""
            raise PackagesUnusable("\n".join([f"requirements: the packages cannot be {what}{bound}:", *told]))


def bounds() -> list[str]:
    """Return which versions a package may have that a task's process loads besides its job's code: those with which eventflink works."""
    specifiers = [line.partition(";")[0].strip() for line in importlib.metadata.requires("eventflink") or ()]
    return sorted({each.replace("[connect]", "") for each in specifiers if _name_of(each) in _LOADED_IN_TASKS})


def bounds_beside(lock: str) -> list[str]:
    """Return which versions the packages of a lock may have beside those that tasks have of their TaskExecutor, as those say themselves."""
    locked = {_name_of(line) for line in _lines(lock)}
    found: set[str] = set()
    seen: set[str] = set()
    left = sorted(_LOADED_IN_TASKS)
    while left:
        # What the job brings itself was resolved with what it wants.
        if (name := left.pop()) in seen or (name in locked and name not in _OF_THE_CLUSTER):
            continue
        seen.add(name)
        for line in _required_by(name):
            found.add(line)
            left.append(_name_of(line))
    return sorted(line for line in found if _name_of(line) in locked)


def _required_by(name: str) -> Iterator[str]:
    """Yield what a package requires that is installed here; none is, where there is no Spark."""
    try:
        required = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for each in required:
        line = _CONNECT.sub("", each) if name == "pyspark" else each
        if "extra ==" not in line:
            yield re.sub(r"\[[^\]]*\]", "", line)


def _find_uv() -> str:
    """Return where uv is: the one that is installed here as a package, or else the one on the PATH.

    Raises:
        PackagesUnusable: it is nowhere.

    """
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise PackagesUnusable("requirements: uv not found, which resolves and installs packages: pip install 'eventflink[packages]'")
    return found


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of uv, which is told what pip is told where nobody tells it otherwise."""
    told = {name: own[of_pip] for name, of_pip in _AS_PIP.items() if name not in own and of_pip in own}
    return {**own, **told}


def _members_of(directory: Path) -> dict[str, Path]:
    """Return the files of installed packages by their names, without what says how they were installed.

    Nor has it modules with names of Python's own, such as that of the package argparse: where packages are installed in the ordinary way
    Python's come first, and nobody imports these.
    """
    members: dict[str, Path] = {}
    for folder, directories, files in os.walk(directory):
        directories[:] = sorted(each for each in directories if each != "__pycache__")
        is_about = folder.endswith(".dist-info")
        for name in sorted(files):
            member = (Path(folder) / name).relative_to(directory)
            is_pythons = member.parts[0].partition(".")[0] in sys.stdlib_module_names
            if not (is_about and name in _LEFT_OUT) and name != ".lock" and not is_pythons:
                members[member.as_posix()] = directory / member
    if len(members) > _MAX_PACKAGES_FILES:
        raise PackagesUnusable(f"requirements: the packages have {len(members)} files, and at most {_MAX_PACKAGES_FILES} are taken")
    return members


def _executables(members: Mapping[str, Path]) -> frozenset[str]:
    return frozenset({SPARK_PYTHON, *(name for name, place in members.items() if place.stat().st_mode & 0o100)})


def _opened(members: Mapping[str, Path], lock: str) -> dict[str, Opened]:
    packages = [found[0] for line in _lines(lock) if (found := _PINNED.match(line))]
    said = json.dumps(interpreter() | {"packages": packages}, indent=1)
    opened: dict[str, Opened] = {
        PACKAGES_MARKER: partial(io.BytesIO, said.encode()),
        SPARK_PYTHON: partial(io.BytesIO, SPARK_PYTHON_SCRIPT.encode()),
    }
    return opened | {name: partial(_open, place) for name, place in members.items()}


def _open(place: Path) -> IO[bytes]:
    return place.open("rb")
