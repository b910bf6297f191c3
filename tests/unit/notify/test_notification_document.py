"""The notification document: what cannot be right is refused, with the file and the place."""

from pathlib import Path

import pytest

from eventflink.cli.failures import ExitCode
from eventflink.cli.main import run
from eventflink.notify.document import TEXT_FIELDS, HappeningType, InvalidNotifications, JobChoice, parse_notifications

GOOD = """
receivers:
  chat: {type: slack, url: "${file:/etc/eventflink/slack}"}
  ops: {type: http, url: "https://ops.example.org/", headers: {Authorization: "${env:OPS}"}}
  mail: {type: mail, host: mail.example.org, sender: a@example.org, to: [b@example.org], user: a, password: "${env:MAIL}"}
  topic: {type: kafka, topic: alerts}
rules:
  nightly:
    events: [job-failed, run-skipped]
    jobs: {names: ["nightly*"], labels: {tier: "1"}}
    receivers: [chat, ops]
    text: "{job_name} failed"
    repeat_after: 4h
lineage: {receivers: [topic]}
"""


def test_names_may_have_any_space_that_breaks_no_line() -> None:
    document = parse_notifications(GOOD.replace("nightly*", "夜間\u3000バッチ\u00a0*"), "notify.yaml")
    assert document.rules["nightly"].jobs == JobChoice(names=["夜間\u3000バッチ\u00a0*"], labels={"tier": "1"})


def test_a_document_says_who_is_told_of_what() -> None:
    document = parse_notifications(GOOD, "notify.yaml")
    assert [receiver.type for receiver in document.receivers.values()] == ["slack", "http", "mail", "kafka"]
    assert document.memory_ms == 4 * 3_600_000


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("[job-failed, run-skipped]", "[job-failled]", "rules.nightly.events[0] (line 9, column 14): must be"),
        ("type: kafka", "type: kafak", "receivers.topic (line 6, column 3): 'type' must be http, slack, kafka, file or mail"),
        ("topic: alerts", "topc: alerts", "receivers.topic.topic (line 6, column"),
        ("[chat, ops]", "[chad]", "rules.nightly.receivers: receiver not found: 'chad' (did you mean 'chat'?)"),
        ("{job_name} failed", "{jobname} failed", "unknown field 'jobname' (did you mean 'job_name'?)"),
        ("{job_name} failed", "{job_name.__class__}", "unknown field 'job_name.__class__'"),
        ("{job_name} failed", "{job_name", "not a template"),
        ("4h", "4 hours", "rules.nightly.repeat_after (line 13, column 5): must be a whole number with ms, s, m, h or d"),
        ("${env:OPS}", "Bearer abc", "Authorization: a secret is named here, not written"),
        ("${env:MAIL}", "hunter2", "password: a secret is named here, not written"),
        ("user: a, ", "", "'user' and 'password' go together"),
        ("https://ops", "ftp://ops", "receivers.ops.url"),
        ("lineage: {receivers: [topic]}", "lineage: {receivers: [chat]}", "'chat' takes texts for people"),
        ("lineage:", "linage:", "linage (line 14, column 1): unknown key (did you mean 'lineage'?)"),
        ("[b@example.org]", "b@example.org", "receivers.mail.to (line 5, column"),
        ("[b@example.org]", r'["b@example.org\n"]', "receivers.mail.to[0] (line 5, column 74): invalid text: 'b@example.org"),
        ("a@example.org", r'"a\nb"', "receivers.mail.sender (line 5, column"),
        ("mail.example.org", r'"xn--é.."', "receivers.mail.host (line 5, column"),
        ("{type: kafka, topic: alerts}", r'{type: file, path: "a\0b"}', "has a line break or another control character"),
        ('"${env:OPS}"', r'"${env:OPS}", x: "a\nb"', "has a line break or another control character"),
        ('"${env:OPS}"', '"${env:OPS}", x: "✓"', "invalid header: x has a character that HTTP cannot carry"),
        ('"${env:OPS}"', '"${env:OPS}", "x y": "z"', "invalid header: 'x y'; a name has letters"),
        ("https://ops.example.org/", "https://", "receivers.ops.url (line 4, column"),
        ("https://ops.example.org/", "https://[::1", "invalid url: its host cannot be read; give an address such as"),
        ("https://ops.example.org/", "https://ops:77777", "its port is no number up to 65535"),
        ("https://ops.example.org/", "https://ops/a b", "invalid url: it has a space or another"),
        (
            "[job-failed, run-skipped]",
            "[leader-changed, input-parked]",
            "rules.nightly (line 8, column 3): jobs: leader-changed",
        ),
        ("{job_name} failed", "{job_name!r}", "field 'job_name' has more than its name: write {job_name}"),
    ],
)
def test_what_is_wrong_is_said_with_the_file_and_the_place(before: str, after: str, said: str) -> None:
    assert before in GOOD
    with pytest.raises(InvalidNotifications) as caught:
        parse_notifications(GOOD.replace(before, after, 1), "notify.yaml")
    assert str(caught.value).startswith("invalid notify.yaml: ")
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "receivers: {a: {type: file, path: x}}", "a: [", "{}"])
def test_a_document_that_sends_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidNotifications, match=r"^invalid notify\.yaml: "):
        parse_notifications(text, "notify.yaml")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["notify", "missing.yaml"], "'missing.yaml' does not exist"),
        (["notify", "bad.yaml"], "invalid bad.yaml: receivers (line 1, column 1): must be a mapping"),
        (["notify", "binary.yaml"], "invalid binary.yaml: it is not UTF-8 text"),
        (["notify", "good.yaml", "--job", "a"], "--job goes with --from, --until or --dry-run"),
        (["notify"], "notify.yaml not found: there is no configuration directory"),
        (["-c", "there", "notify"], "notify.yaml: No such file or directory"),
        (["notify", "good.yaml", "--from", "yesterday"], "'yesterday' is neither an offset nor a time"),
    ],
)
def test_a_command_that_is_wrong_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text("receivers: []")
    (tmp_path / "binary.yaml").write_bytes(b"\xff")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "eventflink.yaml").write_text("")
    assert run(arguments) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_the_document_of_the_page_is_right_and_the_page_names_every_event_and_field() -> None:
    page = (Path(__file__).parents[3] / "docs" / "notifying.md").read_text(encoding="utf-8")
    document = parse_notifications(page.split("```yaml\n")[1].split("```")[0], "notifying.md")
    assert set(document.rules) == {"nightly", "restarts", "cluster"}
    events, fields = page.split("| `events` |")[1].split("| key of a rule |")[0], page.split("Fields of a text:")[1].split("\n\n")[0]
    assert not {str(each) for each in HappeningType if f"`{each}`" not in events}
    assert not {each for each in TEXT_FIELDS if f"`{each}`" not in fields}
