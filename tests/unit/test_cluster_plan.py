"""What `masters` and `workers` say becomes a plan: one daemon a line, with an id that the next start finds again."""

import socket
from pathlib import Path
from typing import Any

import pytest

from eventflink.cli.cluster import own_hosts
from eventflink.cli.cluster.host_files import MAX_LINES, read_masters, read_workers
from eventflink.cli.cluster.plan import check_ids, plan_masters, plan_workers
from eventflink.model.configuration import Configuration, ConfigurationError, build_configuration
from eventflink.processes.pid_files import DaemonKind

SHIPPED = Path(__file__).parents[2] / "conf"


def configured(**values: Any) -> Configuration:
    return build_configuration({key.replace("__", "."): value for key, value in values.items()}, "f")


def as_written(host: str) -> str:
    return host


def masters_of(tmp_path: Path, content: str, configuration: Configuration | None = None) -> list[tuple[str, str, int]]:
    (tmp_path / "masters").write_text(content)
    plan = plan_masters(read_masters(tmp_path), configuration or configured(), as_written)
    assert {daemon.kind for daemon in plan} == {DaemonKind.MASTER}
    return [(daemon.daemon_id, daemon.host, daemon.query_port) for daemon in plan]


def workers_of(tmp_path: Path, content: str, configuration: Configuration | None = None) -> list[tuple[str, str]]:
    (tmp_path / "workers").write_text(content)
    return [(d.daemon_id, d.host) for d in plan_workers(read_workers(tmp_path), configuration or configured(), as_written)]


def test_a_line_is_a_process_and_comments_are_none(tmp_path: Path) -> None:
    content = "# the masters\n\nhost-a:8081   # the first\n  host-b\nhost-a\n[::1]:9000\n10.0.0.1:81\n"
    assert masters_of(tmp_path, content) == [
        ("master-host-a", "host-a", 8081),
        ("master-host-b", "host-b", 0),
        ("master-host-a-2", "host-a", 0),
        ("master-1", "::1", 9000),
        ("master-10.0.0.1", "10.0.0.1", 81),
    ]
    assert workers_of(tmp_path, "a\na\n#a\nfe80::1\na") == [("tm-a", "a"), ("tm-a-2", "a"), ("tm-fe80-1", "fe80::1"), ("tm-a-3", "a")]
    assert workers_of(tmp_path, "# none yet\n") == []


def test_further_lines_leave_the_ids_of_the_others(tmp_path: Path) -> None:
    before = {daemon_id for daemon_id, _ in workers_of(tmp_path, "a\nb\na\n")}
    after = {daemon_id for daemon_id, _ in workers_of(tmp_path, "c\na\na\nb\na\n")}
    assert before < after
    assert after - before == {"tm-c", "tm-a-3"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("host:", "no port follows the colon"),
        ("host:0", "'0' is not a port from 1 to 65535"),
        ("host:65536", "'65536' is not a port"),
        ("host:" + "9" * 5000, "is not a port"),
        ("host:http", "'http' is not a port"),
        ("host:٣", "'٣' is not a port"),
        ("-oProxyCommand=x", "'-oProxyCommand=x' is not a valid host"),
        ("ho$t", "'ho$t' is not a valid host"),
        ("h" * 254, "is not a valid host"),
        ("user@host", "env.ssh.opts (-l USER)"),
        ("one two", "one host a line"),
        ("[::1", "is written [address]:port"),
        ("[::1]8081", "is written [address]:port"),
        ("[]:1", "'' is not a valid host"),
    ],
)
def test_a_line_that_is_wrong_is_named_with_its_file(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "masters").write_text(f"# first\ngood\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        read_masters(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'masters'}:3: ")
    assert said in str(caught.value)


def test_a_worker_has_no_port(tmp_path: Path) -> None:
    (tmp_path / "workers").write_text("host:8081\n")
    with pytest.raises(ConfigurationError, match=r"workers:1: 'host:8081': a worker is a host without a port"):
        read_workers(tmp_path)


def test_files_that_are_missing_empty_or_endless_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"masters: cannot be read"):
        read_masters(tmp_path)
    (tmp_path / "masters").write_text("# nobody\n")
    with pytest.raises(ConfigurationError, match=r"masters: no host is named"):
        read_masters(tmp_path)
    (tmp_path / "workers").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match=r"workers: cannot be read"):
        read_workers(tmp_path)
    (tmp_path / "workers").write_text("a\n" * (MAX_LINES + 1))
    with pytest.raises(ConfigurationError, match=rf"workers:{MAX_LINES + 1}: more than {MAX_LINES} hosts"):
        read_workers(tmp_path)


def test_masters_that_would_take_each_other_s_port_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"masters:2: a:81 stands in .*masters:1 already"):
        masters_of(tmp_path, "a:81\nA:81\n".replace("A", "a"))
    with pytest.raises(ConfigurationError, match=r"masters:2: the master of .*masters:1 answers reads on port 81 of a already"):
        masters_of(tmp_path, "a\na\n", configured(jobmanager__query__port=81))
    assert len(masters_of(tmp_path, "a\nb\n", configured(jobmanager__query__port=81))) == 2
    with pytest.raises(ConfigurationError, match=r"blob.server.port is 82 for both"):
        masters_of(tmp_path, "a\na\n", configured(blob__server__port=82))
    with pytest.raises(ConfigurationError, match=r"masters:2: a second master needs a high-availability.type other than none"):
        masters_of(tmp_path, "a\nb\n", build_configuration({"high-availability.type": "none"}, "f"))


def test_a_configured_id_names_one_daemon_and_no_more(tmp_path: Path) -> None:
    assert masters_of(tmp_path, "a\n", configured(jobmanager__id="first")) == [("first", "a", 0)]
    with pytest.raises(ConfigurationError, match=r"jobmanager.id is 'first', and .*masters:2 names a second one"):
        masters_of(tmp_path, "a\nb\n", configured(jobmanager__id="first"))
    with pytest.raises(ConfigurationError, match=r"taskmanager.id is 'first'"):
        workers_of(tmp_path, "a\na\n", configured(taskmanager__id="first"))
    same = configured(jobmanager__id="same", taskmanager__id="same")
    (tmp_path / "masters").write_text("a\n")
    (tmp_path / "workers").write_text("a\n")
    plan = [*plan_masters(read_masters(tmp_path), same, as_written), *plan_workers(read_workers(tmp_path), same, as_written)]
    with pytest.raises(ConfigurationError, match=r"'same' would name 2 daemons"):
        check_ids(plan)
    with pytest.raises(ConfigurationError, match=r"'broker' would name 2 daemons"):
        check_ids(plan_masters(read_masters(tmp_path), configured(jobmanager__id="broker"), as_written))


def test_this_host_is_known_by_its_names_and_addresses() -> None:
    for name in ("localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", socket.gethostname()):
        assert own_hosts.is_here(name), name
    for name in ("192.0.2.1", "2001:db8::1", "no-such-host.invalid"):
        assert not own_hosts.is_here(name), name
        assert own_hosts.own_name(name) == name
    assert own_hosts.own_name("localhost") == own_hosts.own_name("127.0.0.1") == socket.gethostname()


def test_the_shipped_files_name_one_process_of_each_kind_here() -> None:
    assert [line.host for line in read_masters(SHIPPED)] == ["localhost"]
    assert [line.host for line in read_workers(SHIPPED)] == ["localhost"]
