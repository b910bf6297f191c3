"""The Python client over recorded answers: what it shows of a cluster and a job, how it finds a cluster, and its twin."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_type

import pytest

import eventflink
from eventflink.client.asynchronous import AsyncCluster, AsyncJob
from eventflink.client.cluster import Cluster, Job
from eventflink.client.connecting import ClusterNotNamed
from eventflink.client.methods import ClusterMethods, JobMethods
from eventflink.client.options import each_of
from eventflink.client.pictures import MAX_DRAWN, ClusterView, JobView
from eventflink.documents.cluster import ClusterOverview
from eventflink.documents.one_job import ExecutionGraphInfo
from eventflink.documents.plain import plain
from eventflink.gateways.errors import NoLeader
from eventflink.gateways.steps import FoldLog
from eventflink.model.job_graph_document import InvalidJobGraph
from eventflink.model.statuses import ExecutionState, JobStatus
from eventflink.reader.questions import answer_of, look_up, question_of
from eventflink.views.jobs_and_cluster import job_view, jobs_view
from eventflink.views.plain import fields_of
from eventflink.views.queries import overview as counts
from tests.support.cluster import ScriptedCluster, deployments, graph, vertex

HOSTILE = "<img src=x onerror=alert(1)>&\"'"


def job_of(cluster: ScriptedCluster) -> JobView:
    return JobView(ExecutionGraphInfo(**fields_of(job_view(cluster.fold, "job")), log_offset=7))


def html_of(view: Any) -> ET.Element:
    """Return the fragment, which is well-formed as XML too."""
    return ET.fromstring(view._repr_html_())


def submitted(**more: Any) -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=4)
    vertices = (vertex("a", 2), vertex("b"), vertex("c"))
    document = graph(*vertices, edges=[("a", "b", "hash"), ("b", "c", "hash"), ("a", "c", "hash")]) | more
    first, _ = deployments(cluster.submit(document))
    cluster.report(first, ExecutionState.RUNNING)
    cluster.report(first, ExecutionState.FINISHED)
    return cluster


def test_a_job_is_shown_with_its_graph_and_its_progress() -> None:
    view = job_of(submitted())
    assert repr(view) == "<job job 'test job': RUNNING, 1 of 4 tasks finished, 0 restarts>"
    shown = html_of(view)
    text = "".join(shown.itertext())
    assert "1 of 4 tasks finished" in text
    assert "log offset 7" in text
    svg = "{http://www.w3.org/2000/svg}"
    nodes = {node.findtext(f"{svg}text"): node.find(f"{svg}rect") for node in shown.iter(f"{svg}g")}
    columns = {name: int(frame.get("x", "")) for name, frame in nodes.items() if name and frame is not None}
    assert list(columns) == ["a (2)", "b (1)", "c (1)"]
    assert columns["a (2)"] < columns["b (1)"] < columns["c (1)"]
    assert len(list(shown.iter(f"{svg}path"))) == 3


def test_names_are_text_and_never_markup() -> None:
    scripted = submitted(name=HOSTILE)
    shown = job_of(scripted)._repr_html_()
    listed = jobs_view(scripted.fold, (), 10)
    overview = ClusterOverview(**fields_of(replace(counts(scripted.fold), leading_master_id=HOSTILE)), epoch=1, log_offset=7)
    cluster = ClusterView(HOSTILE, overview, listed)
    assert repr(cluster) == f"<cluster {HOSTILE}: 1 TaskManagers, 3 of 4 slots free, 1 RUNNING>"
    for fragment in (shown, cluster._repr_html_()):
        assert "<img" not in fragment
        assert HOSTILE in "".join(ET.fromstring(fragment).itertext())
        assert not {element.tag for element in ET.fromstring(fragment).iter()} & {"img", "script"}


def test_a_large_graph_is_a_table_and_no_drawing() -> None:
    cluster = ScriptedCluster()
    cluster.submit(graph(*[vertex(f"v{number}") for number in range(MAX_DRAWN + 1)]))
    shown = html_of(job_of(cluster))
    assert not list(shown.iter("{http://www.w3.org/2000/svg}svg"))
    assert len(list(shown.iter("tr"))) == MAX_DRAWN + 2


def public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_twin_has_the_same_methods() -> None:
    assert public(Cluster) == public(AsyncCluster)
    assert public(Job) == public(AsyncJob)
    for methods, blocking, awaited in ((ClusterMethods, Cluster, AsyncCluster), (JobMethods, Job, AsyncJob)):
        assert all(getattr(blocking, name) is getattr(awaited, name) for name in vars(methods) if not name.startswith("_"))


def test_a_cluster_that_does_not_answer_is_shown_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    job = eventflink.connect("host:1", "cell").job("one")

    def silent(_steps: object) -> None:
        raise NoLeader("<nobody> leads")

    monkeypatch.setattr(job, "run", silent)
    assert "&lt;nobody&gt; leads" in job._repr_html_()


def test_a_cluster_is_found_as_the_command_line_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EVENTFLINK_CONFIG", "EVENTFLINK_BOOTSTRAP", "EVENTFLINK_CONTEXT", "EVENTFLINK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "eventflink.yaml").write_text(f"bootstrap.servers: configured:1\ncluster.id: cell\ndata.directory: {tmp_path}\n")
    cluster = eventflink.connect("given:1", "cell")
    assert_type(cluster, Cluster)
    assert (repr(cluster), repr(cluster.job("one"))) == ("Cluster('cell' at given:1)", "Job('one')")
    assert repr(eventflink.connect(configuration=tmp_path)) == "Cluster('cell' at configured:1)"
    assert repr(eventflink.connect("given:1", configuration=tmp_path)) == "Cluster('cell' at given:1)"
    monkeypatch.setenv("EVENTFLINK_CONFIG", str(tmp_path))
    assert repr(eventflink.connect()) == "Cluster('cell' at configured:1)"
    monkeypatch.setenv("EVENTFLINK_CONFIG", str(tmp_path / "gone.yaml"))
    with pytest.raises(ClusterNotNamed, match="gone"):
        eventflink.connect()


def test_a_document_that_is_none_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with eventflink.connect("host:1", "cell") as cluster:
        with pytest.raises(InvalidJobGraph, match=r"none\.yaml cannot be read"):
            cluster.submit(tmp_path / "none.yaml")
        with pytest.raises(InvalidJobGraph, match="the document"):
            cluster.submit({"vertices": 3})


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, eventflink; print([m for m in sys.modules if m.split('.')[0] in ('eventflink', 'confluent_kafka', 'click')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
    assert out.strip() == "['eventflink']"


def test_a_job_that_is_watched_says_each_change_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    scripted, job = ScriptedCluster(), eventflink.connect("host:1", "cell").job("job")
    scripted.register()
    [task] = deployments(scripted.submit(graph(vertex("a"))))
    scripted.report(task, ExecutionState.RUNNING)

    def perform(step: object) -> Any:
        if isinstance(step, FoldLog):
            return {"job": plain(job_view(scripted.fold, "job")), "log_offset": 7}
        passed.append(step)
        if len(passed) == 2:
            scripted.report(task, ExecutionState.FINISHED)
        return None

    passed: list[object] = []
    monkeypatch.setattr(job._connection, "_perform", perform)
    assert job.watch() is JobStatus.FINISHED
    # What an earlier test of this process left behind may say something as well.
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("<job ")]
    assert [line.split(": ")[1].split(",")[0] for line in said] == ["RUNNING", "FINISHED"]


def test_the_runs_of_a_name_are_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted, cluster = ScriptedCluster(), eventflink.connect("host:1", "cell")
    for number in range(3):
        scripted.submit(graph(vertex("a"), name="a/name"), job_id=f"run-{number}")

    def perform(step: object) -> Any:
        assert isinstance(step, FoldLog)
        question = question_of(step.path, step.parameters)
        return answer_of(question, look_up(question, scripted.fold), None)

    monkeypatch.setattr(cluster._connection, "_perform", perform)
    page = cluster.runs("a/name", first=1, limit=1)
    assert (page.total, [(run.job_id, run.version) for run in page.runs]) == (3, [("run-1", 1)])
    assert [(each.name, each.runs) for each in cluster.names("NAME").names] == [("a/name", 3)]
    assert cluster.runs("nobody").runs == []


@pytest.mark.parametrize("one", ["night.py", Path("night.py"), JobStatus.FAILED])
def test_a_single_path_or_name_is_a_list_of_itself(one: Any) -> None:
    assert each_of(one) == each_of([one]) == each_of(iter((one,))) == [one]


def test_the_arguments_of_dev_may_be_single_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not read letter by letter: the first one of a path may be the root of the file system."""
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr("eventflink.workbench.graph_run.run_graph", lambda _, paths, *__, **more: given.append((paths, more["vertices"])))
    eventflink.dev(graph(vertex("a")), code="/code/a.py", vertices="a")
    eventflink.dev(graph(vertex("a")), code=Path("/code/a.py"), vertices=["a"])
    assert given == [([Path("/code/a.py")], ["a"])] * 2
