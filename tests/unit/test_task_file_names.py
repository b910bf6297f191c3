"""What a graph may name has a place on disk, and nothing that came over the network names one outside of it."""

from pathlib import Path

import pytest

from eventflink.model.attempts import AttemptId
from eventflink.model.job_graph_document import parse_job_graph
from eventflink.model.places import Place
from eventflink.model.statuses import TaskFile
from eventflink.taskexecutor.task_files import UnusableName, output_place, task_file_path

WORKING = Path("/working")
HOSTILE = ["", ".", "..", "../x", "a/../b", "/etc", "a/b", "a\\b/..", "a\n", "a\0b", "~", "-rf", ".hidden"]
HOSTILE += ["🦆", "a b", "\u202egnp", "x" * 129]


@pytest.mark.parametrize("name", ["a", "_", "_a", "__init__", "A1", "x" * 64])
def test_every_name_that_a_graph_may_have_is_the_name_of_a_directory(name: str) -> None:
    vertices = [{"id": name, "python": "m:f"}, {"id": "reader", "sql": "SELECT 1"}]
    graph = parse_job_graph({"name": "g", "vertices": vertices, "edges": [{"from": name, "to": "reader", "output": name}]}, "f")
    attempt = AttemptId("job", graph.vertices[0].vertex_id, 0, 1)
    path = output_place(Place(str(WORKING)), attempt, graph.edges[0].output)
    assert path == Place(str(WORKING / "job" / name / name / "0" / "attempt-1"))
    assert task_file_path(WORKING, attempt, TaskFile.LOG) == WORKING / "job" / f"{name}-0-1.log"


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_out_of_the_directory_of_its_attempt(name: str) -> None:
    good = AttemptId("job", "a", 0, 1)
    for attempt, output in ((good._replace(job_id=name), "out"), (good._replace(vertex_id=name), "out"), (good, name)):
        with pytest.raises(UnusableName, match="cannot name a directory"):
            output_place(Place(str(WORKING)), attempt, output)
    for attempt in (good._replace(job_id=name), good._replace(vertex_id=name)):
        with pytest.raises(UnusableName, match="cannot name a directory"):
            task_file_path(WORKING, attempt, TaskFile.STDOUT)
