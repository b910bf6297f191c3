"""A code archive depends on names and contents only, and holds what `import` needs and nothing that tools leave behind."""

import errno
import importlib
import io
import os
import zipfile
from pathlib import Path

import pytest

from eventflink.jobs.archive import ArchiveError, build_archive


def write(path: Path, text: str = "x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(archive: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(archive)).namelist()


def test_the_same_code_is_the_same_bytes(tmp_path: Path) -> None:
    """Timestamps, modes and the order in which files were made do not count."""
    for order, copy in (("ab", "one"), ("ba", "two")):
        for name in order:
            path = write(tmp_path / copy / f"{name}.py", name)
            path.chmod(0o600 if copy == "one" else 0o755)
            os.utime(path, (1, 1) if copy == "one" else None)
    assert build_archive([tmp_path / "one"]) == build_archive([tmp_path / "two"])
    write(tmp_path / "two" / "b.py", "changed")
    assert build_archive([tmp_path / "one"]) != build_archive([tmp_path / "two"])


def test_a_package_keeps_its_name_and_a_plain_folder_is_a_root(tmp_path: Path) -> None:
    write(tmp_path / "pkg" / "__init__.py")
    write(tmp_path / "pkg" / "sub" / "module.py")
    write(tmp_path / "root" / "tool.py")
    single = write(tmp_path / "single.py")
    archive = build_archive([tmp_path / "pkg", tmp_path / "root", single])
    assert names(archive) == ["pkg/__init__.py", "pkg/sub/module.py", "single.py", "tool.py", "pkg/sub/"]


def test_a_package_without_that_file_is_named_by_it(tmp_path: Path) -> None:
    write(tmp_path / "pkg" / "sub" / "module.py")
    assert names(build_archive([tmp_path / "pkg" / "__init__.py"])) == ["pkg/sub/module.py", "pkg/", "pkg/sub/"]
    write(tmp_path / "pkg" / "__init__.py")
    assert names(build_archive([tmp_path / "pkg" / "__init__.py"])) == ["pkg/__init__.py", "pkg/sub/module.py", "pkg/sub/"]


def test_a_relative_path_means_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "pkg" / "__init__.py")
    monkeypatch.chdir(tmp_path / "pkg")
    assert names(build_archive([Path()])) == ["pkg/__init__.py"]


def test_what_tools_leave_behind_stays_out(tmp_path: Path) -> None:
    write(tmp_path / "a.py")
    for name in ("__pycache__/a.pyc", ".git/HEAD", ".venv/bin/python", "env/pyvenv.cfg", "env/lib.py", "b.pyc"):
        write(tmp_path / name)
    assert names(build_archive([tmp_path])) == ["a.py"]


def test_modules_can_be_imported_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "code" / "archived_module_of_this_test.py", "ANSWER = 42\n")
    write(tmp_path / "code" / "archived_package_of_this_test" / "sub" / "module.py", "ANSWER = 43\n")
    (tmp_path / "code.zip").write_bytes(build_archive([tmp_path / "code"]))
    monkeypatch.syspath_prepend(str(tmp_path / "code.zip"))
    assert __import__("archived_module_of_this_test").ANSWER == 42
    assert importlib.import_module("archived_package_of_this_test.sub.module").ANSWER == 43


def test_errors_name_the_path(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1" / "a.py", "1"), write(tmp_path / "2" / "a.py", "2")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArchiveError, match=r"missing.*No such file"):
        build_archive([tmp_path / "missing"])
    with pytest.raises(ArchiveError, match=r"both be 'a\.py'"):
        build_archive([one, two])
    with pytest.raises(ArchiveError, match="empty: holds no file"):
        build_archive([tmp_path / "empty"])
    with pytest.raises(ArchiveError, match=r"big.csv.*limit"):
        build_archive([write(tmp_path / "big.csv", "x" * 1001)], max_bytes=1000)
    with pytest.raises(ArchiveError, match="neither a file nor"):
        build_archive([Path("/dev/null")])
    assert names(build_archive([one, one])) == ["a.py"]


def test_a_directory_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that runs as root may read each, so the file system is asked by way of one that may not."""
    write(tmp_path / "m.py")
    (tmp_path / "private").mkdir()

    def exists(path: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", exists)
    with pytest.raises(ArchiveError, match=r"private/pyvenv\.cfg: Permission denied"):
        build_archive([tmp_path])
