"""What was released stays readable for ever: its files do not change, and today's schemas read what it wrote."""

import copy
import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many

from docs.generate import schemas
from docs.generate.__main__ import main
from docs.generate.schemas import (
    FINGERPRINTS,
    Document,
    IncompatibleChange,
    documents,
    envelope_names,
    fingerprint_of_document,
    incompatibilities,
    inlined,
    pins_of,
    read_document,
    read_pins,
    release,
    released_files,
)
from eventflink.events.codec import DecisionCodec, PayloadCodec, ReportsCodec
from eventflink.events.decision import InputCause
from eventflink.events.schemas import fingerprint_of, schema_directory

SCHEMAS = schema_directory()
TODAY = documents()
NAMES = envelope_names()
FILES = sorted(SCHEMAS.glob("*.avsc"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)


def test_every_envelope_is_released() -> None:
    assert [n for n in NAMES if not released_files(SCHEMAS, n)] == []
    assert {f.name for n in NAMES for f in released_files(SCHEMAS, n)} == {f.name for f in FILES}


def test_a_released_file_never_changes() -> None:
    """FINGERPRINTS pins each by its CRC-64-AVRO and the SHA-256 of its bytes."""
    assert FILES
    assert read_pins(SCHEMAS) == pins_of(SCHEMAS)


@pytest.mark.parametrize("name", NAMES)
def test_the_newest_release_is_what_is_written_today(name: str) -> None:
    """`python -m docs.generate` brings it there, or says why it must not; a change of words alone waits for the next release."""
    newest = read_document(released_files(SCHEMAS, name)[-1])
    assert fingerprint_of_document(newest) == fingerprint_of_document(inlined(TODAY, name))


@pytest.mark.parametrize("name", NAMES)
def test_todays_schema_reads_every_release(name: str) -> None:
    for path in released_files(SCHEMAS, name):
        assert incompatibilities(read_document(path), inlined(TODAY, name)) == []


@every_file
def test_a_release_is_whole(path: Path) -> None:
    """It parses by itself, without the files of today."""
    assert fastavro.parse_schema(read_document(path), named_schemas={})


@every_file
def test_records_written_with_a_release_can_be_decoded(path: Path) -> None:
    name = path.name.split(".")[1]
    codec: Any = {"Decision": DecisionCodec, "TaskManagerEnvelope": ReportsCodec}.get(name, PayloadCodec)
    codec = codec() if name == "Decision" else codec(name)
    schema = fastavro.parse_schema(read_document(path), named_schemas={})
    for fields in generate_many(schema, 50):
        stream = io.BytesIO()
        stream.write(b"\xc3\x01" + fingerprint_of(schema))
        fastavro.schemaless_writer(stream, schema, fields)
        assert codec.decode(stream.getvalue()) is not None


# -- the checker itself, broken on purpose -------------------------------------------------------------------------------


@dataclass
class Released:
    """Today's schemas in a folder, released, and the documents of the next release."""

    folder: Path
    documents: dict[str, Document]

    def change(self, record: str, change: Callable[[dict[str, Any]], object]) -> None:
        change(self.documents[record])

    def release(self, *, replace_newest: bool = False) -> list[str]:
        return release(self.folder, self.documents, replace_newest=replace_newest)


@pytest.fixture
def released(tmp_path: Path) -> Released:
    """Return today's schemas, released."""
    made = Released(tmp_path, copy.deepcopy(TODAY))
    assert len(made.release()) == len(NAMES)
    return made


def _field(document: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [f for f in document["fields"] if f["name"] == name]
    return dict(found)


def _replace_field(document: dict[str, Any], name: str, /, **changes: Any) -> None:
    document["fields"] = [f | changes if f["name"] == name else f for f in document["fields"]]


FORBIDDEN: dict[str, tuple[str, Callable[[dict[str, Any]], None], str]] = {
    "a field is gone": ("JobCleanedUp", lambda d: d["fields"].pop(), "JobCleanedUp.job_id: the field is gone"),
    "a field is renamed": ("JobEvicted", lambda d: _replace_field(d, "job_id", name="job"), "JobEvicted.job_id: the field is gone"),
    "a field is retyped": (
        "SlotFreed",
        lambda d: _replace_field(d, "allocation_id", type="long"),
        "SlotFreed.allocation_id: string became long",
    ),
    "a field becomes nullable": (
        "SlotFreed",
        lambda d: _replace_field(d, "allocation_id", type=["null", "string"]),
        "SlotFreed.allocation_id: string became union",
    ),
    "a field becomes a list": (
        "SlotFreed",
        lambda d: _replace_field(d, "allocation_id", type={"type": "array", "items": "string"}),
        "SlotFreed.allocation_id: string became array",
    ),
    "the items of a list are retyped": (
        "JobEdge",
        lambda d: _replace_field(d, "keys", type={"type": "array", "items": "bytes"}),
        "JobEdge.keys[]: string became bytes",
    ),
    "a field is of another record": (
        "TaskFailed",
        lambda d: _replace_field(d, "cause", type="eventflink.OutputLocation"),
        "TaskFailed.cause: FailureCause became OutputLocation",
    ),
    "a field is added without a default": (
        "JobEvicted",
        lambda d: d["fields"].append({"name": "more", "type": "string"}),
        "JobEvicted.more: a new field needs a default",
    ),
    "a branch of a union is gone": (
        "Decision",
        lambda d: d["fields"][-2]["type"]["items"].remove("eventflink.DrillStepOrdered"),
        "Decision.events[]: the branch DrillStepOrdered is gone",
    ),
    "null is taken from a union": (
        "FailureCause",
        lambda d: _replace_field(d, "stack_trace", type=["string"], default=""),
        "FailureCause.stack_trace: the branch null is gone",
    ),
    "a symbol is gone": ("JobStatus", lambda d: d["symbols"].remove("SUSPENDED"), "JobStatus: the symbol SUSPENDED is gone"),
    "a symbol is renamed": (
        "TaskFile",
        lambda d: d.update(symbols=[s.replace("LOG", "LOGS") for s in d["symbols"]]),
        "TaskFile: the symbol LOG is gone",
    ),
}

ALLOWED: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "a field with a default": ("JobEvicted", lambda d: d["fields"].append({"name": "more", "type": "string", "default": ""})),
    "a field in front": ("JobEvicted", lambda d: d["fields"].insert(0, {"name": "more", "type": "long", "default": 0})),
    "a branch": ("CommandEnvelope", lambda d: _replace_field(d, "payload", type=[*_field(d, "payload")["type"], "eventflink.JobEvicted"])),
    "a symbol": ("TaskFile", lambda d: d["symbols"].append("CORE")),
}


@pytest.mark.parametrize("case", FORBIDDEN)
def test_a_change_that_would_lose_records_is_refused(released: Released, case: str) -> None:
    record, change, says = FORBIDDEN[case]
    before = pins_of(released.folder)
    released.change(record, change)
    with pytest.raises(IncompatibleChange) as caught:
        released.release()
    assert says in str(caught.value)
    assert pins_of(released.folder) == before == read_pins(released.folder), "nothing was written"


@pytest.mark.parametrize("case", ALLOWED)
def test_what_only_adds_becomes_the_next_release(released: Released, case: str) -> None:
    released.change(*ALLOWED[case])
    written = released.release()
    assert written
    assert all(name.endswith(".2.avsc") for name in written)
    assert read_pins(released.folder) == pins_of(released.folder)
    assert released.release() == []


def test_only_envelopes_that_changed_are_released_again(released: Released) -> None:
    released.change("LeaderHeartbeat", lambda d: d["fields"].append({"name": "more", "type": "string", "default": ""}))
    assert released.release() == ["eventflink.LeadershipEnvelope.2.avsc"]


def test_a_change_of_words_releases_nothing(released: Released) -> None:
    released.change("LeaderHeartbeat", lambda d: d.update(doc="Another explanation."))
    assert released.release() == []
    assert released.release(replace_newest=True) == ["eventflink.LeadershipEnvelope.1.avsc"], "unless its release is taken back"
    assert "Another explanation." in (released.folder / "eventflink.LeadershipEnvelope.1.avsc").read_text(encoding="utf-8")
    assert released.release(replace_newest=True) == []


def test_a_default_is_needed_for_every_older_release(released: Released) -> None:
    """Dropped in the third what the second gave the first: that one would not be readable."""
    released.change("JobEvicted", lambda d: d["fields"].append({"name": "more", "type": "string", "default": ""}))
    released.release()
    released.change("JobEvicted", lambda d: d["fields"][-1].pop("default"))
    released.change("JobEvicted", lambda d: d["fields"].append({"name": "third", "type": "string", "default": ""}))
    with pytest.raises(IncompatibleChange, match=r"would not read eventflink.Decision.1.avsc: JobEvicted.more: a new field needs"):
        released.release()


def test_the_newest_release_can_be_taken_back_while_nobody_wrote_with_it(released: Released) -> None:
    released.change("JobStatus", lambda d: d["symbols"].remove("SUSPENDED"))
    assert all(name.endswith(".1.avsc") for name in released.release(replace_newest=True))
    assert released.release() == []


def test_a_file_that_was_changed_behind_its_pin_is_noticed(released: Released) -> None:
    path = released.folder / "eventflink.Decision.1.avsc"
    path.write_text(path.read_text(encoding="utf-8") + " ", encoding="utf-8")
    assert read_pins(released.folder) != pins_of(released.folder)
    (released.folder / FINGERPRINTS).unlink()
    assert read_pins(released.folder) == {}


def test_a_schema_is_compatible_with_itself_and_so_is_its_copy() -> None:
    for name in NAMES:
        document = inlined(TODAY, name)
        assert incompatibilities(document, copy.deepcopy(document)) == []


def test_the_command_says_what_it_did(released: Released, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    top = released.folder.parent / "checkout"
    shutil.copytree(released.folder, top / "schemas")
    monkeypatch.setattr("docs.generate.__main__.ROOT", top)
    monkeypatch.setattr("docs.generate.__main__.PAGES", ())
    monkeypatch.setattr("docs.generate.schemas.documents", lambda: released.documents)
    assert main([]) == 0
    assert capsys.readouterr().out == ""
    released.change("TaskFile", lambda d: d["symbols"].remove("LOG"))
    assert main([]) == 1
    assert "TaskFile: the symbol LOG is gone" in capsys.readouterr().err
    assert main(["--replace-newest"]) == 0
    assert "schemas/eventflink.Decision.1.avsc" in capsys.readouterr().out


# -- what no schema can be made of --------------------------------------------------------------------------------------


def test_a_class_without_words_and_a_field_of_another_type_are_named() -> None:
    with pytest.raises(ValueError, match=r"InputCause\.place is declared nowhere"):
        schemas._doc_of(InputCause, "place")
    with pytest.raises(TypeError, match="no schema has a <class 'complex'>"):
        schemas._type_of(complex, {})
