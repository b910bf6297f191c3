"""Packages that a job requires: what a document may say, how they are packed, and that a host unpacks them once and whole.

Installed by the real uv, from wheels that the tests make: no index is asked.
"""

import base64
import dataclasses
import hashlib
import io
import json
import os
import stat
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventflink.jobs import required_packages
from eventflink.jobs.archive import PACKAGES_MARKER, ArchiveError, ArchiveKind, interpreter, kind_of
from eventflink.jobs.job_files import described
from eventflink.jobs.required_packages import (
    PackagesUnusable,
    Requirements,
    bounds,
    bounds_beside,
    find_packages,
    is_locked,
    parse_requirements,
)
from eventflink.model.job_graph_document import InvalidJobGraph, parse_job_graph
from eventflink.processes.packages_path import PACKAGES_VARIABLE, SPARK_PYTHON, without_packages
from eventflink.taskexecutor.failure_causes import CodeUnusable
from eventflink.taskexecutor.task_packages import find_conflicts, unpacked

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "own-shapes"
version = "1.0"
"""
BACKEND = """
import pathlib
import zipfile


def build_wheel(directory, config_settings=None, metadata_directory=None):
    name, about = "own_shapes-1.0-py3-none-any.whl", "own_shapes-1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(directory, name), "w") as made:
        made.write("own_shapes/__init__.py")
        made.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\\nName: own-shapes\\nVersion: 1.0\\n")
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr(f"{about}/RECORD", "")
    return name


build_editable = build_wheel
"""
VERTEX = {"id": "v", "sql": "SELECT 1"}


def make_wheel(directory: Path, name: str, version: str, requires: str = "") -> Path:
    """Make a wheel of one module that says its version, and a program."""
    wheel = directory / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + (f"Requires-Dist: {requires}\n" if requires else "")
    members = {
        f"{name}.py": f"VERSION = '{version}'\n",
        f"{name}-{version}.data/scripts/run-{name}": "#!/bin/sh\necho here\n",
        f"{about}/METADATA": metadata,
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, text in members.items():
            archive.writestr(member, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"{member},sha256={digest},{len(text)}\n")
        archive.writestr(f"{about}/RECORD", "".join([*lines, f"{about}/RECORD,,\n"]))
    return wheel


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where uv looks for packages, and nowhere else."""
    directory = tmp_path / "wheels"
    directory.mkdir()
    for version in ("1.0", "2.0"):
        make_wheel(directory, "shapes", version)
    make_wheel(directory, "drawing", "1.0", "shapes<2")
    monkeypatch.setenv("UV_FIND_LINKS", str(directory))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return directory


def _file(directory: Path, text: str) -> Path:
    file = directory / "required.txt"
    file.write_text(text)
    return file


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def document(requirements: object) -> dict[str, Any]:
    return {"name": "j", "vertices": [VERTEX], "requirements": requirements}


class TestWhatADocumentSays:
    def test_a_list_is_taken_and_the_graph_is_that_without_it(self) -> None:
        job = described(document(["numpy==2.2.6", "humanize"]))
        assert job.requirements == Requirements(specifiers=("numpy==2.2.6", "humanize"))
        assert job.graph == described({"name": "j", "vertices": [VERTEX]}).graph
        assert job.has_code

    def test_a_path_is_from_the_document(self, tmp_path: Path) -> None:
        (tmp_path / "job.json").write_text(json.dumps(document("needs/lock.txt")))
        assert described(tmp_path / "job.json").requirements == Requirements(file=tmp_path / "needs" / "lock.txt")

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ([], "give the path of a requirements file, or a list"),
            (7, "give the path"),
            ([7], "give the path"),
            ("", "give the path"),
            (["-r other.txt"], "options of pip stand in a file"),
            (["  --index-url=x"], "options of pip stand in a file"),
            (["a\nb"], "invalid requirement"),
            (["a" * 2_000], "invalid requirement"),
            (["a"] * 1_001, "more than 1000"),
            ("relative.txt", "nothing says from where"),
        ],
    )
    def test_everything_else_is_refused_with_its_place(self, value: object, said: str) -> None:
        with pytest.raises(InvalidJobGraph, match=said) as raised:
            described(document(value))
        assert str(raised.value).startswith("the document: requirements: ")

    def test_other_faults_of_such_a_document_keep_their_lines(self, tmp_path: Path) -> None:
        (tmp_path / "job.yaml").write_text("name: j\nrequirements: [a]\nvertices:\n  - id: v\n    sqll: SELECT 1\n")
        with pytest.raises(InvalidJobGraph, match="line 5"):
            described(tmp_path / "job.yaml")

    def test_who_cannot_install_them_says_who_can(self) -> None:
        with pytest.raises(InvalidJobGraph, match=r"requirements: it is packed by eventflink's client .*code_archives"):
            parse_job_graph(document(["a"]), "request")

    def test_a_file_that_is_not_there_or_no_text_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
        for name in ("missing.txt", "bytes.txt"):
            with pytest.raises(PackagesUnusable, match=name):
                Requirements(file=tmp_path / name).text()


@pytest.mark.usefixtures("wheels")
class TestPacking:
    def test_an_archive_says_what_it_holds_and_is_the_same_bytes_each_time(self, tmp_path: Path) -> None:
        archives = [find_packages(Requirements(("drawing",)), tmp_path / name) for name in ("one", "two")]
        assert archives[0].read_bytes() == archives[1].read_bytes()
        assert archives[0].name == archives[1].name
        with zipfile.ZipFile(archives[0]) as opened:
            assert json.loads(opened.read(PACKAGES_MARKER)) == interpreter() | {"packages": ["drawing==1.0", "shapes==1.0"]}
            assert not [name for name in opened.namelist() if name.endswith((".pyc", "RECORD", "INSTALLER", ".lock"))]
            assert "drawing-1.0.dist-info/METADATA" in opened.namelist(), "importlib.metadata finds the package"
        assert kind_of(archives[0]) is ArchiveKind.PACKAGES

    def test_what_was_packed_once_is_taken_again_and_a_lock_asks_nobody(self, wheels: Path, cache: Path, tmp_path: Path) -> None:
        [wheel] = wheels.glob("shapes-1.0*")
        lock = tmp_path / "lock.txt"
        lock.write_text(f"# tested\nshapes==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
        first = find_packages(Requirements(file=lock), cache)
        for each in wheels.iterdir():
            each.unlink()
        assert find_packages(Requirements(file=lock), cache) == first
        with pytest.raises(PackagesUnusable, match="cannot be resolved"):
            find_packages(Requirements(("shapes",)), cache)

    def test_what_nobody_has_asked_for_in_a_month_is_removed_with_the_next_that_is_packed(self, cache: Path) -> None:
        unused, asked_for = (find_packages(Requirements((name,)), cache) for name in ("shapes==1.0", "shapes==2.0"))
        given_up = asked_for.with_suffix(".1.part")
        given_up.write_bytes(b"half")
        for path in (unused, asked_for, given_up):
            os.utime(path, (0, 0))
        assert find_packages(Requirements(("shapes==2.0",)), cache) == asked_for
        packed = find_packages(Requirements(("drawing",)), cache)
        assert set((cache / "packages").iterdir()) == {asked_for, packed}

    def test_bytes_that_are_not_those_of_the_lock_are_refused(self, cache: Path, tmp_path: Path) -> None:
        lock = tmp_path / "lock.txt"
        lock.write_text(f"shapes==1.0 --hash=sha256:{'0' * 64}\n")
        with pytest.raises(PackagesUnusable, match="cannot be installed"):
            find_packages(Requirements(file=lock), cache)
        assert not list(cache.rglob("*.zip"))

    def test_files_beside_a_file_are_found_from_it(self, cache: Path, tmp_path: Path) -> None:
        (tmp_path / "all.txt").write_text("-r some.txt\n")
        (tmp_path / "some.txt").write_text("shapes>=2\n")
        with zipfile.ZipFile(find_packages(Requirements(file=tmp_path / "all.txt"), cache)) as opened:
            assert b"'2.0'" in opened.read("shapes.py")

    @pytest.mark.parametrize("required", ["drawing, shapes>=2", "nothing-of-this-name", "pyspark==3.5.0", "pydantic==1.10.2"])
    def test_what_cannot_be_is_told_with_its_reason(self, cache: Path, required: str) -> None:
        name = required.rsplit(", ", maxsplit=1)[-1].partition("=")[0].rstrip(">")
        with pytest.raises(ArchiveError, match=rf"requirements: the packages cannot be resolved(?s:.*){name}"):
            find_packages(Requirements(tuple(required.split(", "))), cache)

    def test_without_uv_it_says_what_to_install(self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        with pytest.raises(PackagesUnusable, match=r"uv not found.*pip install 'eventflink\[packages\]'"):
            find_packages(Requirements(("shapes",)), cache)

    def test_a_directory_is_packed_as_it_is_now_whether_editable_or_not(self, cache: Path, tmp_path: Path) -> None:
        (tmp_path / "own" / "own_shapes").mkdir(parents=True)
        (tmp_path / "own" / "pyproject.toml").write_text(PROJECT)
        (tmp_path / "own" / "backend.py").write_text(BACKEND)
        source = tmp_path / "own" / "own_shapes" / "__init__.py"
        found: dict[str, set[Path]] = {}
        for line in ("./own", "-e ./own", "--editable=./own"):
            (tmp_path / "own.txt").write_text(f"{line}\n")
            for text in ("VERSION = 1\n", "VERSION = 2\n", "VERSION = 2\n"):
                source.write_text(text)
                place = find_packages(Requirements(file=tmp_path / "own.txt"), cache)
                with zipfile.ZipFile(place) as opened:
                    assert opened.read("own_shapes/__init__.py").decode() == text, line
                found.setdefault(text, set()).add(place)
        assert [len(places) for places in found.values()] == [1, 1], "what holds the same is one archive"

    @pytest.mark.parametrize("name", ["argparse", "asyncio", "enum"])
    def test_pythons_own_modules_stay_pythons(self, wheels: Path, cache: Path, name: str) -> None:
        make_wheel(wheels, name, "9.0")
        directory = unpacked(find_packages(Requirements((name, "shapes")), cache))
        program = f"import sys, {name}, shapes; sys.exit(hasattr({name}, 'VERSION'))"
        assert os.spawnve(os.P_WAIT, sys.executable, ["python", "-c", program], os.environ | {"PYTHONPATH": str(directory)}) == 0

    @pytest.mark.parametrize("requirement", ["pydantic==1.10.2", "typing_extensions==4.5.0", "protobuf==3.20.3"])
    @pytest.mark.parametrize("is_lock", [False, True])
    def test_what_a_tasks_process_cannot_begin_with_is_refused(
        self,
        wheels: Path,
        cache: Path,
        tmp_path: Path,
        requirement: str,
        is_lock: bool,  # noqa: FBT001 - a parameter of the test
    ) -> None:
        name, version = requirement.split("==")
        wheel = make_wheel(wheels, name, version)
        file = tmp_path / "needs.txt"
        file.write_text(requirement + (f" --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n" if is_lock else "\n"))
        with pytest.raises(PackagesUnusable, match=rf"resolved; what eventflink loads in tasks itself bounds {name.replace('_', '-')}:"):
            find_packages(Requirements(file=file), cache)

    def test_what_a_job_brings_with_its_own_needs_is_bound_by_those(self) -> None:
        pin = next(each for each in bounds_beside("pydantic-core==1\n") if each.startswith("pydantic-core"))
        assert "==" in pin
        assert bounds_beside("pydantic==2.9.2\npydantic-core==1\n") == []

    def test_the_bounds_are_of_what_a_tasks_process_loads(self) -> None:
        names = {line.split("=")[0].split("<")[0].split(">")[0] for line in bounds()}
        assert names == set(required_packages._LOADED_IN_TASKS)

    @pytest.mark.parametrize(
        ("text", "locked"),
        [
            ("", False),
            ("# nothing\n", False),
            ("a==1\n", False),
            ("a==1 --hash=sha256:00\n", True),
            ("--index-url https://example.org\na==1 \\\n  --hash=sha256:00 \\\n  --hash=sha256:01\n", True),
            ("a==1 --hash=sha256:00\nb\n", False),
            ("-r other.txt\na==1 --hash=sha256:00\n", False),
            ("-c other.txt\na==1 --hash=sha256:00\n", False),
            ("-e .\na==1 --hash=sha256:00\n", False),
        ],
    )
    def test_a_lock_is_told_from_what_has_to_be_resolved(self, text: str, locked: bool) -> None:  # noqa: FBT001 - a parameter of the test
        assert is_locked(text) is locked


@pytest.mark.usefixtures("wheels")
class TestUnpacking:
    @pytest.fixture
    def archive(self, cache: Path) -> Path:
        return find_packages(Requirements(("shapes==1.0",)), cache)

    def test_all_that_ask_at_once_get_the_one_whole_directory(self, archive: Path) -> None:
        with ThreadPoolExecutor(8) as threads:
            [directory] = {each.result() for each in [threads.submit(unpacked, archive) for _ in range(8)]}
        assert (directory / "shapes.py").read_text() == "VERSION = '1.0'\n"
        assert [each for each in archive.parent.iterdir() if each.suffix == ".unpacking"] == []
        assert stat.S_IMODE((directory / "bin" / "run-shapes").stat().st_mode) & 0o111

    def test_the_python_of_spark_has_them_before_all_else(self, archive: Path, tmp_path: Path) -> None:
        directory = unpacked(archive)
        told = tmp_path / "told"
        program = f"import os, shapes; open({str(told)!r}, 'w').write(shapes.VERSION + os.environ['{PACKAGES_VARIABLE}'])"
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
        assert os.spawnve(os.P_WAIT, str(directory / SPARK_PYTHON), ["python", "-c", program], environment) == 0
        assert told.read_text() == f"1.0{directory}"

    def test_those_of_another_interpreter_are_refused_and_nothing_is_left(self, tmp_path: Path) -> None:
        foreign = tmp_path / "foreign" / "0.zip"
        foreign.parent.mkdir()
        with zipfile.ZipFile(foreign, "w") as made:
            made.writestr(PACKAGES_MARKER, json.dumps(interpreter() | {"python": "cpython-309"}))
        with pytest.raises(CodeUnusable, match=rf"installed for cpython-309, and tasks run on {interpreter()['python']} here"):
            unpacked(foreign)
        assert not foreign.with_suffix("").exists()

    @pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside"])
    def test_no_member_gets_out_of_the_directory(self, tmp_path: Path, name: str) -> None:
        hostile = tmp_path / "in" / "0.zip"
        hostile.parent.mkdir()
        with zipfile.ZipFile(hostile, "w") as made:
            made.writestr(PACKAGES_MARKER, json.dumps(interpreter()))
            made.writestr(name, "x")
        with pytest.raises(CodeUnusable, match="not the path of a file below the top"):
            unpacked(hostile)
        assert [each.name for each in (tmp_path / "in").iterdir() if each.suffix != ".lock"] == ["0.zip"]
        assert not (tmp_path / "outside").exists()

    def test_versions_that_are_installed_otherwise_are_named(
        self, archive: Path, wheels: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = unpacked(archive)
        other = unpacked(find_packages(Requirements(("shapes==2.0",)), cache))
        again = unpacked(find_packages(Requirements(file=_file(tmp_path, f"{next(wheels.glob('shapes-1.0*'))}\n")), cache))
        monkeypatch.setattr(sys, "path", [str(own)])
        assert find_conflicts(own, is_elsewhere=False) == [], "installed nowhere else"
        monkeypatch.setattr(sys, "path", [str(own), str(other)])
        assert find_conflicts(own, is_elsewhere=False) == ["shapes 1.0 (here 2.0)"]
        assert find_conflicts(own, is_elsewhere=True) == ["shapes 1.0"]
        assert again != own
        monkeypatch.setattr(sys, "path", [str(again), str(other)])
        assert find_conflicts(again, is_elsewhere=False) == ["shapes 1.0 (here 2.0)"], "required by a path, not by its version"

    def test_a_broken_archive_is_told(self, tmp_path: Path) -> None:
        for number, data in enumerate((b"", b"no zip", io.BytesIO().getvalue())):
            (tmp_path / f"{number}.zip").write_bytes(data)
            with pytest.raises(CodeUnusable, match="cannot be unpacked"):
                unpacked(tmp_path / f"{number}.zip")


def test_what_a_task_starts_for_others_has_none_of_its_packages() -> None:
    own = {"PATH": "/bin", "PYTHONPATH": "/p:/more", PACKAGES_VARIABLE: "/p"}
    assert without_packages(own) == {"PATH": "/bin", "PYTHONPATH": "/more"}
    assert without_packages(own | {"PYTHONPATH": "/p"}) == {"PATH": "/bin"}
    assert without_packages({"PYTHONPATH": "/p"}) == {"PYTHONPATH": "/p"}, "no packages of a job"


def test_requirements_are_said_once() -> None:
    with pytest.raises(ValueError, match="give the path"):
        parse_requirements(None, None)
    assert dataclasses.asdict(parse_requirements("/a/lock.txt", None)) == {"specifiers": (), "file": Path("/a/lock.txt")}
