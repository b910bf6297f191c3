"""What people write by hand: job graphs in JSON and YAML, and files of configuration.

The law: a document is accepted, and then means the same when it is written again, or it is refused by one error that says where it comes
from; within bounded time and memory, whatever its aliases, its nesting and its numbers are.
"""

import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from eventflink.cli.logging_file import read_logging_file
from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import JobSubmission
from eventflink.events.topics import Topic
from eventflink.model.configuration import KEYS, Configuration, ConfigurationError, load_configuration
from eventflink.model.job_graph import JobGraph
from eventflink.model.job_graph_document import InvalidJobGraph, graph_digest, parse_job_graph, to_document
from tests.fuzz.corpus_files import ENVELOPES, Message
from tests.fuzz.generation import changed_documents, json_bytes, mutated
from tests.support.cluster import graph, sharing, stream, vertex

MOST_GROWTH_KIB: Final = 256 * 1024
"""Of this process's memory, by one document."""

MOST_MESSAGE: Final = 20_000
ROOT: Final = Path(__file__).parents[2]

_ODD_YAML: Final = (
    b"a: &a [x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (n + 1, n + 1, *[n] * 8) for n in range(97, 109)),
    b"&a {name: x, vertices: [*a]}",
    b"a: &a {b: *a}",
    b"[" * 5_000,
    b"{a: " * 5_000,
    b"- " * 5_000,
    b"a: 2020-99-99\nb: 0x\nc: 1_0\nd: .inf\ne: !!int x\nf: 1:2:3",
    b"when: 2026-02-30T25:61:61Z",
    b"? [a]\n: 1\n? {b: c}\n: 2",
    b"!!python/object/apply:os.system [x]",
    b"a: !!binary x\nb: !!set {a}\nc: !!omap [a: 1]\nd: !!timestamp x",
    b"<<: *x",
    b"<<: [{a: 1}, 2]",
    b"a: 1\na: 2",
    b"\xff\xfe\x00",
    b"\xef\xbb\xbfa: 1",
    b'a: "\\ud800"',
    b"%YAML 9.9\n---\na: 1\n---\nb: 2",
    b"a: " + b"9" * 5_000,
    b"a: 1e" + b"9" * 400,
    b"\x00",
    b"",
    b"null",
    b"a: |\n  x\n b",
)

_GRAPHS: Final[tuple[dict[str, Any], ...]] = (
    graph(vertex("a", 2), vertex("b", 2, cpu_cores=0.5, task_heap_memory="1g"), edges=[("a", "b", "hash")], code_archives=["a" * 64]),
    graph(
        sharing("a", extended_resources={"gpu": 1}),
        sharing("b"),
        restart_strategy={"type": "failure-rate", "attempts": 2, "interval_ms": 9, "delay_ms": 1},
    ),
    graph(stream("s", 2), checkpointing={"interval_ms": 100, "timeout_ms": 10, "retained": 3}, restore={"path": "/s"}),
    graph(
        {
            "id": "s",
            "parallelism": 1,
            "sql": "SELECT 1",
            "parameters": {"a": [1, {"b": None}]},
            "stream": {
                "sources": {
                    "k": {"kafka": {"topic": "t", "bootstrap_servers": "h:1", "schema": {"type": "record", "name": "r", "fields": []}}}
                },
                "sink": {"kafka": {"topic": "t"}},
                "trigger": {"interval_ms": 5},
            },
        },
        scheduler="adaptive",
    ),
)


class Documents:
    """Graphs, and files of configuration, as people write them."""

    name = "documents"
    bursts = 2

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._submissions = PayloadCodec(ENVELOPES[Topic.SUBMISSIONS])
        self._readers = {"graph": self._read_graph, "eventflink.yaml": self._read_configuration, "logging.yaml": self._read_logging}

    def messages(self) -> st.SearchStrategy[Message]:
        """Return texts for each kind of file."""
        odd = st.sampled_from(_ODD_YAML)
        graphs = changed_documents(_GRAPHS)
        shipped = (ROOT / "conf" / "eventflink.yaml").read_bytes()
        named = yaml.safe_dump({key: "x" for key in KEYS if not key.endswith("*")}).encode()
        values = st.sampled_from(
            ["0", "-1", "1", "10s", "1g", "x", "true", "", "[]", "{}", "9" * 40, "1e400", ".nan", "2020-99-99", "a,b", "~"]
        )
        keys = st.one_of(
            st.sampled_from(sorted(KEYS)),
            st.sampled_from(["kafka.x", "kafka.master.y", "kafka.", "rest.prot", "a.b.c", "1", ".", "taskmanager"]),
        )
        lines = st.lists(st.builds("{}: {}\n".format, keys, values), max_size=4).map(lambda made: "".join(made).encode())
        texts = {
            "graph": st.one_of(
                graphs.map(json_bytes),
                graphs.map(lambda document: yaml.safe_dump(document, allow_unicode=True).encode()),
                mutated([json_bytes(document) for document in _GRAPHS]),
                mutated([yaml.safe_dump(document).encode() for document in _GRAPHS]),
                odd,
                mutated(_ODD_YAML),
            ),
            "eventflink.yaml": st.one_of(lines, lines, mutated([shipped, named]), odd, mutated(_ODD_YAML)),
            "logging.yaml": st.one_of(odd, mutated(_ODD_YAML)),
        }
        return st.one_of([st.builds(Message, st.just(to), text) for to, text in texts.items()])

    def check(self, case: Sequence[Message]) -> None:
        """Read each of them."""
        for message in case:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self._readers[message.to](message.value)
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWTH_KIB, "it takes too much memory"

    def _read_graph(self, value: bytes) -> None:
        try:
            parsed = parse_job_graph(value.decode("utf-8", "replace"), "graph.yaml")
        except InvalidJobGraph as error:
            _check_error(error, "graph.yaml: ")
            return
        assert isinstance(parsed, JobGraph)
        again = parse_job_graph(to_document(parsed), "again")
        assert graph_digest(again) == graph_digest(parsed), "written again, it is another graph"
        record = self._submissions.encode(JobSubmission(job_id="job", job_graph=parsed), sent_at_ms=0)
        assert self._submissions.decode(record)[0].job_graph == parsed

    def _read_configuration(self, value: bytes) -> None:
        path = self._written(value)
        try:
            made = load_configuration(path, {})
        except ConfigurationError as error:
            _check_error(error, str(path))
            return
        assert isinstance(made, Configuration)

    def _read_logging(self, value: bytes) -> None:
        path = self._written(value)
        try:
            read_logging_file(path)
        except ConfigurationError as error:
            _check_error(error, str(path))

    def _written(self, value: bytes) -> Path:
        path = Path(self._directory.name) / "file.yaml"
        path.write_bytes(value)
        return path

    def close(self) -> None:
        """Remove the files."""
        self._directory.cleanup()


def _check_error(error: Exception, place: str) -> None:
    text = str(error)
    assert text.startswith(place), f"it does not say where: {text[:200]}"
    assert len(text) > len(place) + 2, "it does not say what is wrong"
    assert len(text) < MOST_MESSAGE, f"it says too much: {len(text)} characters"
