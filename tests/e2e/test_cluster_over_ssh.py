"""A cluster of two hosts: this one, and one that is reached by a real ssh (an sshd of the test's own, on this machine)."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.daemon_cluster import ROOT, DaemonCluster
from tests.support.running_cluster import wait_until

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
MASTER = f"master-{socket.gethostname()}"
REST = f"rest-{socket.gethostname()}"

pytestmark = pytest.mark.skipif(
    not SSHD or not shutil.which("ssh") or not shutil.which("ssh-keygen"),
    reason="needs an OpenSSH server (package openssh-server) and client",
)


@pytest.fixture
def ssh_options(tmp_path: Path) -> Iterator[str]:
    """Run an sshd with keys of its own; the options lead to it as `far`, and as `closed` to a port where nobody listens."""
    assert SSHD is not None
    directory = tmp_path / "ssh"
    directory.mkdir(mode=0o700)
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)], check=True, timeout=120)
    shutil.copy(directory / "user_key.pub", directory / "authorized_keys")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # Where a privileged sshd separates its privileges.
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        port, closed = first.getsockname()[1], second.getsockname()[1]
    (directory / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {directory}/host_key\nAuthorizedKeysFile {directory}/authorized_keys\n"
        f"PidFile {directory}/sshd.process\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    common = f"  HostName 127.0.0.1\n  IdentityFile {directory}/user_key\n  IdentitiesOnly yes\n  UserKnownHostsFile {directory}/known\n"
    common += "  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"
    (directory / "config").write_text(f"Host far\n  Port {port}\n{common}Host closed\n  Port {closed}\n{common}")
    log = (directory / "sshd.log").open("w")
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(directory / "sshd_config")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(port) or server.poll() is not None, "the sshd")
        assert server.poll() is None, (directory / "sshd.log").read_text()
        yield f"-F {directory}/config"
    finally:
        server.terminate()
        server.wait(120)
        log.close()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_other_hosts_do_their_part_and_one_that_fails_stops_none_of_the_others(
    bootstrap: str, cluster_id: str, ssh_options: str, tmp_path: Path
) -> None:
    far_pids = tmp_path / "far" / "pids"
    program = f"env PYTHONPATH={ROOT} {sys.executable} -m eventflink.cli -D env.pid.dir={far_pids}"
    keys = {"bootstrap.servers": bootstrap, "cluster.id": cluster_id, "env.ssh.opts": ssh_options, "env.remote.program": program}
    cluster = DaemonCluster(tmp_path, "localhost", "far closed", **keys)
    try:
        started = cluster.run("-D", "taskmanager.numberOfTaskSlots=3", "cluster", "start")
        print(started.stdout + started.stderr)
        assert started.returncode == 1
        assert [line.split(" (process ")[0] for line in started.stdout.splitlines()] == [
            f"master {MASTER} on localhost is started",
            "TaskExecutor tm-far on far is started",
            f"REST process {REST} on localhost is started",
        ]
        assert "closed: ssh: connect to host 127.0.0.1 port" in started.stderr
        assert "let only the master's own host in" in started.stderr
        far = json.loads((far_pids / cluster_id / "tm-far.pid").read_text())
        assert psutil.pid_exists(far["process_id"]), "it outlives the ssh that started it"

        code, daemons, document = cluster.status()
        assert (code, daemons["tm-far"]["state"], daemons["tm-far"]["process_id"]) == (1, "running", far["process_id"])
        assert len(document["failures"]) == 1
        cluster.name("localhost", "far")
        code, daemons, document = cluster.status()
        assert (code, document["failures"], daemons["tm-far"]["slots"]) == (0, [], 3)

        stopped = cluster.run("cluster", "stop")
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
        assert stopped.stdout.splitlines() == [
            f"REST process {REST} on localhost is stopped",
            "TaskExecutor tm-far on far is stopped",
            f"master {MASTER} on localhost is stopped",
        ]
        assert cluster.pid_files() == []
        wait_until(lambda: not [line for line in cluster.processes() if "sshd" not in line], "the end of all processes", 120)
    finally:
        cluster.close()
