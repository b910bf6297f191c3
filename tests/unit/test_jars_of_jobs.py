"""Jars of a job: named by paths, packed as one archive, and a part of what its vertices are made of."""

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from eventflink.jobs.archive import ArchiveError, ArchiveKind, kind_of
from eventflink.jobs.jars import pack_jars
from eventflink.jobs.job_files import DescribedJob, describe_document, with_archives, with_newer_code
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, check_job_graph
from tests.support.rate_jar import write_rate_jar

VERTICES = [{"id": "s", "sql": "SELECT 1"}, {"id": "p", "python": "tasks:orders"}]


def described(jars: Any, directory: Path | None = None) -> DescribedJob:
    return describe_document({"name": "n", "vertices": VERTICES, "jars": jars}, "job.yaml", directory)


def key_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("jars", "message"),
    [
        ("lib/a.jar", "give a list of paths of jars"),
        ([], "give a list of paths of jars"),
        ([1], "give a list of paths of jars"),
        (["lib/a.zip"], "'lib/a.zip' is no path of a jar"),
        (["org.postgresql:postgresql:42.7.4"], "what Maven has is named in spark.jars.packages of the TaskExecutors, or downloaded"),
        (["lib/a.jar"], "'lib/a.jar' is a path, and nothing says from where"),
        (["/a.jar"] * 65, "more than 64 jars"),
    ],
)
def test_what_names_no_jar_is_refused_with_its_place(jars: Any, message: str) -> None:
    with pytest.raises(InvalidJobGraph, match=r"^job\.yaml: jars: ") as refused:
        described(jars)
    assert message in str(refused.value)


def test_what_cannot_be_packed_is_named(tmp_path: Path) -> None:
    jar, other = write_rate_jar(tmp_path / "a.jar", 1), write_rate_jar(tmp_path / "lib" / "a.jar", 1)
    (tmp_path / "text.jar").write_text("no zip")
    for jars, message in (
        ([tmp_path / "b.jar"], "jar not found: .*b.jar"),
        ([tmp_path / "text.jar"], "text.jar is no zip archive"),
        ([jar, other], "have the same file name"),
    ):
        with pytest.raises(ArchiveError, match=message):
            pack_jars(jars)


def test_a_graph_that_is_sent_otherwise_says_who_packs_them() -> None:
    with pytest.raises(InvalidJobGraph, match="jars: it is packed by eventflink's client"):
        check_job_graph({"name": "n", "vertices": VERTICES, "jars": ["lib/a.jar"]})


def test_statements_and_functions_are_made_of_the_jars_as_well(tmp_path: Path) -> None:
    code = tmp_path / "tasks.py"
    code.write_text("def orders(context):\n    pass\n")

    def packed(rate: int | None) -> tuple[JobGraph, list[bytes]]:
        jars = [str(write_rate_jar(tmp_path / "rates.jar", rate))] if rate is not None else []
        job = described(jars) if jars else describe_document({"name": "n", "vertices": VERTICES}, "d", None)
        archives = job.archives([code])
        return with_archives(job.graph, archives, key_of), archives

    (plain, _), (one, archives), (two, _) = packed(None), packed(1), packed(2)
    assert [kind_of(io.BytesIO(each)) for each in archives] == [ArchiveKind.CODE, ArchiveKind.JARS]
    digests = [[each.code_digest for each in graph.vertices] for graph in (plain, one, two)]
    assert all(len(set(each)) == 3 for each in zip(*digests, strict=True))
    stored = {key_of(each): each for each in archives}
    assert with_newer_code(one, [archives[0]], key_of, stored.__getitem__) == one, "the jars stay where only code is given"
