"""A bundle is what its documents and modules are; what would do harm is refused before a member is read."""

import io
import stat
import warnings
import zipfile
from pathlib import Path

import pytest

from eventflink.jobs import bundle as bundles
from eventflink.jobs.bundle import Bundle, BundledJob, BundleError
from tests.support.bundles import DOCUMENT, SQL_ONLY, bundle


def jobs_of(tmp_path: Path, data: bytes) -> tuple[BundledJob, ...]:
    (tmp_path / "a.jar").write_bytes(data)
    with Bundle(tmp_path / "a.jar") as opened:
        opened.check()
        return opened.jobs()


def with_member(change: zipfile.ZipInfo, content: bytes = b"x") -> bytes:
    stream = io.BytesIO(bundle())
    with zipfile.ZipFile(stream, "a") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr(change, content)
    return stream.getvalue()


def link() -> zipfile.ZipInfo:
    made = zipfile.ZipInfo("secrets.py")
    made.create_system = 3
    made.external_attr = (stat.S_IFLNK | 0o777) << 16
    return made


def damaged() -> bytes:
    data = bytearray(bundle({"job.yaml": SQL_ONLY, "a.py": b"x" * 100}, zipfile.ZIP_STORED))
    data[data.index(b"x" * 100)] ^= 1
    return bytes(data)


def encrypted() -> bytes:
    data = bytearray(bundle())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def huge(declared: int) -> bytes:
    """Return a bundle with a member that says that it is so long."""
    data = bytearray(bundle({"job.yaml": SQL_ONLY, "a.py": b"x" * 50}))
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = declared.to_bytes(4, "little")
    return bytes(data)


def long_list() -> bytes:
    data = bytearray(bundle())
    at = len(data) - 22 + 12
    data[at : at + 4] = (5 * 1024 * 1024).to_bytes(4, "little")
    return bytes(data)


def test_the_document_that_runs_by_itself_comes_first(tmp_path: Path) -> None:
    both = bundle({"a.yaml": DOCUMENT, "job.yml": SQL_ONLY, "data.json": '{"rows": []}', "sub/job.yaml": SQL_ONLY})
    assert jobs_of(tmp_path, both) == (BundledJob("job.yml", "numbers"), BundledJob("a.yaml", "greetings"))
    assert jobs_of(tmp_path, bundle({"a.yaml": DOCUMENT})) == (BundledJob("a.yaml", "greetings"),)


def test_a_document_is_named_by_its_path_and_nothing_guesses_between_several(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_bytes(bundle({"a.yaml": DOCUMENT, "b.json": '{"name": "b", "vertices": [{"id": "v", "sql": "SELECT 1"}]}'}))
    with Bundle(tmp_path / "a.jar") as opened:
        assert opened.document("a.yaml")[0] == opened.document("a")[0] == "a.yaml"
        assert opened.document("b")[0] == "b.json"
        with pytest.raises(BundleError, match=r"several jobs.*a\.yaml, b\.json"):
            opened.document()
        with pytest.raises(BundleError, match=r"document not found in the bundle: 'org\.example\.Main'; its jobs are a\.yaml, b\.json"):
            opened.document("org.example.Main")


def test_its_code_is_what_is_neither_document_nor_left_behind(tmp_path: Path) -> None:
    members = {
        "job.yaml": DOCUMENT,
        "greetings.py": "",
        "package/data.csv": "",
        "package/__pycache__/a.pyc": "",
        "META-INF/MANIFEST.MF": "",
        ".git/HEAD": "",
    }
    target = io.BytesIO()
    (tmp_path / "a.jar").write_bytes(bundle(members))
    with Bundle(tmp_path / "a.jar") as opened:
        assert opened.has_code()
        opened.write_code(target)
    assert zipfile.ZipFile(target).namelist() == ["greetings.py", "package/data.csv"]
    (tmp_path / "b.jar").write_bytes(bundle())
    with Bundle(tmp_path / "b.jar") as opened:
        assert not opened.has_code()


def test_a_file_that_a_document_names_is_beside_it_in_the_bundle_and_nowhere_else(tmp_path: Path) -> None:
    schema = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}'
    (tmp_path / "outside.avsc").write_text(schema)

    def document(path: str) -> str:
        source = f"{{kafka: {{topic: clicks}}, format: avro, schema: {path}}}"
        sink = "{kafka: {topic: out}, format: json}"
        return f"name: j\nvertices: [{{id: v, sql: SELECT n FROM clicks, stream: {{sources: {{clicks: {source}}}, sink: {sink}}}}}]\n"

    assert jobs_of(tmp_path, bundle({"job.yaml": document("r.avsc"), "r.avsc": schema})) == (BundledJob("job.yaml", "j"),)
    for outside in (f"{tmp_path}/outside.avsc", "../outside.avsc", "outside.avsc"):
        with pytest.raises(BundleError, match=r"schema.*FileNotFoundError"):
            jobs_of(tmp_path, bundle({"job.yaml": document(outside)}))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "its end is missing"),
        (b"nonsense" * 100, "its end is missing"),
        (bundle() + b"x", "its end is missing"),
        (bundle()[10:], "'job.yaml' begins before the file does"),
        (with_member(zipfile.ZipInfo("../a.py")), r"'\.\./a\.py' is not a path below"),
        (with_member(zipfile.ZipInfo("/etc/a.py")), "'/etc/a.py' is not a path below"),
        (with_member(zipfile.ZipInfo("a\\..\\b.py")), "is not a path below"),
        (with_member(zipfile.ZipInfo("a\nb.py")), "is not a path below"),
        (with_member(zipfile.ZipInfo("x/" * 40 + "a.py")), "32 directories"),
        (with_member(zipfile.ZipInfo("job.yaml")), "'job.yaml' twice"),
        (with_member(link()), "'secrets.py' is not a regular file: links"),
        (bundle({"job.yaml": SQL_ONLY, "a.py": "x" * 1_000}, zipfile.ZIP_BZIP2), "another way than deflate"),
        (encrypted(), "is encrypted"),
        (huge(0xFFFFFF00), "4294967[0-9]* bytes together"),
        (huge(1), "damaged"),
        (long_list(), "the list of its members is longer"),
        (damaged(), "'a.py' is damaged"),
        (
            bundle({"org/example/Main.class": "", "META-INF/MANIFEST.MF": ""}),
            "classes of Java, and tasks are Python and Spark: job document not found",
        ),
        (bundle({"a.py": ""}), r"job document not found in the bundle; put one at its top \(job\.yaml\)"),
        (bundle({"job.yaml": "name: ["}), "job.yaml: not valid"),
        (bundle({"job.yaml": "name: a\nvertices: [{id: v, sqll: x}]"}), "job.yaml: .*sqll"),
        (bundle({"job.yaml": b"\xff\xfe"}), "job.yaml: not UTF-8"),
        (bundle({"job.yaml": "#" * 5_000_000}), "job.yaml: longer than"),
    ],
)
def test_what_is_no_bundle_or_would_do_harm_is_refused_with_the_reason(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(BundleError, match=says):
        jobs_of(tmp_path, data)


def test_a_bundle_has_so_many_members_and_jobs_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BundleError, match="more than 20 documents"):
        jobs_of(tmp_path, bundle({f"{number}.yaml": SQL_ONLY for number in range(21)}))
    monkeypatch.setattr(bundles, "MAX_FILES", 2)
    with pytest.raises(BundleError, match="3 members, and at most 2"):
        jobs_of(tmp_path, bundle({"job.yaml": SQL_ONLY, "a.py": "", "b.py": ""}))
