"""The image of the Dockerfile, built by buildah without a daemon, on a base of Debian's packages alone; it runs a job.

Skipped where buildah and debootstrap are not installed, or by others than root.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_TOOLS = all(map(shutil.which, ("buildah", "debootstrap"))) and os.geteuid() == 0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak(),
    pytest.mark.timeout(3_000),
    pytest.mark.skipif(not _TOOLS, reason="an image is built by root, with buildah and debootstrap"),
]
AUTHORITIES = Path("/usr/local/share/ca-certificates")
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")

Buildah = Callable[..., str]


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    place = tmp_path_factory.mktemp("images")
    command = ["buildah", "--root", str(place / "store"), "--runroot", str(place / "run"), "--storage-driver", "vfs"]

    def run(*arguments: str) -> str:
        environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run([*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2_400, check=False)
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
        return done.stdout.strip()

    yield run
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def image(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    base = tmp_path_factory.mktemp("base")
    subprocess.run(["debootstrap", "--variant=minbase", "trixie", str(base)], check=True, capture_output=True, timeout=1_200)
    container = buildah("from", "scratch")
    buildah("add", container, str(base), "/")
    if AUTHORITIES.is_dir():  # Whom this host trusts besides, such as a proxy.
        buildah("copy", container, str(AUTHORITIES), str(AUTHORITIES))
        buildah("copy", container, str(BUNDLE), "/etc/outer-authorities.crt")
        buildah("config", "--env", "PIP_CERT=/etc/outer-authorities.crt", container)
    buildah("commit", "--rm", container, "localhost/base:1")
    shutil.rmtree(base)
    buildah("bud", "--build-arg", "BASE=localhost/base:1", "--tag", "localhost/eventflink:test", ".")
    return "localhost/eventflink:test"


def test_the_image_runs_a_job_as_the_user_and_with_the_jars_that_it_has(buildah: Buildah, image: str) -> None:
    container = buildah("from", image)
    script = """
        set -e
        cd && test "$(id -u)" = 10001 && touch /var/lib/eventflink/writable
        echo '{name: rows, vertices: [{id: rows, sql: "SELECT id FROM range(3)"}]}' > job.yaml
        EVENTFLINK_IVY_SETTINGS=/nowhere eventflink dev --json job.yaml
    """
    told = buildah("run", container, "--", "sh", "-c", script)
    assert '"failure": null' in told
    assert "tini -- eventflink" in buildah("inspect", "--format", "{{.OCIv1.Config.Entrypoint}}", image)
