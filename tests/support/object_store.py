"""A real object store for tests: SeaweedFS, which speaks S3, in two processes, of which the one that speaks it can be away or refuse.

What is written stays while that one is away. The client that looks into a bucket has a key of its own, which is never refused. It is a
catalogue of Iceberg as well, over REST, whose tables are in a bucket of their own.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import fsspec
import pytest

from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.processes import die_with_parent
from tests.support.ports import find_free_ports

BUCKET: Final = "jobs"
LAKE: Final = "lake"
"""The catalogue of Iceberg, and its bucket, which takes files of tables alone: Spark, which looks for others as well, is refused there."""
ACCESS_KEY: Final = "key-of-jobs"
_SECRET: Final = "secret-of-jobs"
_OWNER: Final = ("key-of-the-owner", "secret-of-the-owner")
_TIMEOUT_S: Final = 120.0
_LOOPBACK: Final = "127.0.0.1"


class ObjectStore:
    """The store, and how processes reach it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = dict(zip(("master", "volume", "filer", "s3"), [find_free_ports(2) for _ in range(4)], strict=True))
        [self._catalog_port] = find_free_ports(1)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What the processes of a cluster are told of it, as Amazon's clients are told."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_ENDPOINT_URL": f"http://{_LOOPBACK}:{self._ports['s3'][0]}",
        }

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys of all objects in the bucket that begin so."""
        found = self.files().find(BUCKET, withdirs=False)
        return [key for name in found if (key := name.removeprefix(f"{BUCKET}/")).startswith(prefix)]

    def files(self) -> Any:
        """Return the store as its owner sees it."""
        key, secret = _OWNER
        options = {"key": key, "secret": secret, "endpoint_url": self.environment["AWS_ENDPOINT_URL"]}
        return fsspec.filesystem("s3", **options, use_listings_cache=False, skip_instance_cache=True)

    def start(self) -> None:
        """Start all of it, with an empty bucket."""
        arguments = [
            "server",
            f"-dir={self._directory}",
            "-filer",
            "-volume.max=20",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64",
        ]
        for part in ("master", "volume", "filer"):
            port, grpc = self._ports[part]
            arguments += [f"-{part}.port={port}", f"-{part}.port.grpc={grpc}"]
        self._run("server", *arguments, f"-ip={_LOOPBACK}", f"-ip.bind={_LOOPBACK}")
        self.answer()
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                return self._check_it_takes_objects()
            except Exception:  # noqa: BLE001 - whatever it says before it is ready
                assert time.monotonic() < deadline, (self._directory / "server.txt").read_text(errors="replace")[-4_000:]
                time.sleep(0.2)

    def _check_it_takes_objects(self) -> None:
        files = self.files()
        if not files.exists(BUCKET):
            files.mkdir(BUCKET)
        files.pipe_file(f"{BUCKET}/first", b"")
        files.rm_file(f"{BUCKET}/first")

    def answer(self, *actions: str) -> None:
        """Answer from now on, and let the key of jobs do this; all that it may need, where nothing is named."""
        self.leave()
        allowed = [f"{action}:{bucket}" for action in actions or ("Read", "Write", "List", "Tagging") for bucket in (BUCKET, LAKE)]
        owner, jobs = _identity("owner", *_OWNER, actions=["Admin"]), _identity("jobs", ACCESS_KEY, _SECRET, actions=allowed)
        settings = self._directory / "s3.json"
        settings.write_text(json.dumps({"identities": [owner, jobs]}))
        port, grpc = self._ports["s3"]
        filer = ".".join(map(str, self._ports["filer"]))
        arguments = [f"-filer={_LOOPBACK}:{filer}", f"-port={port}", f"-port.grpc={grpc}", f"-config={settings}"]
        # Two stores of one machine would have these at one port.
        self._run("s3", "s3", *arguments, f"-ip.bind={_LOOPBACK}", f"-port.iceberg={self._catalog_port}", "-port.lance=0")
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            with socket.socket() as client:
                if client.connect_ex((_LOOPBACK, port)) == 0:
                    return
            assert time.monotonic() < deadline, (self._directory / "s3.txt").read_text(errors="replace")[-4_000:]
            time.sleep(0.1)

    def make_catalog(self) -> IcebergCatalog:
        """Return the catalogue, which asks for a secret that is in a file; nothing is in it yet."""
        port, grpc = self._ports["master"]
        command = [str(Path(sys.executable).with_name("weed")), "shell", f"-master={_LOOPBACK}:{port}.{grpc}"]
        make = f"s3tables.bucket -create -name {LAKE} -account owner\n".encode()
        made = subprocess.run(command, input=make, capture_output=True, check=True, timeout=_TIMEOUT_S)
        assert f"bucket/{LAKE}".encode() in made.stdout, made
        secret = self._directory / "credential"
        secret.write_text(":".join(_OWNER))
        secret.chmod(0o600)
        properties = {
            "type": "rest",
            "uri": f"http://{_LOOPBACK}:{self._catalog_port}",
            "warehouse": f"s3://{LAKE}",
            "credential": f"${{file:{secret}}}",
            "s3.endpoint": self.environment["AWS_ENDPOINT_URL"],
            "s3.region": "us-east-1",
        }
        return IcebergCatalog(LAKE, properties)

    def leave(self) -> None:
        """Be away: whoever connects is refused."""
        if (process := self._processes.pop("s3", None)) is not None:
            process.kill()
            process.wait(_TIMEOUT_S)

    def close(self) -> None:
        """End all of it."""
        for process in self._processes.values():
            process.kill()
            process.wait(_TIMEOUT_S)

    def _run(self, name: str, *arguments: str) -> None:
        # A key that it finds in its own environment may do all.
        surroundings = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        with (self._directory / f"{name}.txt").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [str(Path(sys.executable).with_name("weed")), *arguments],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self._directory,
                env=surroundings | {"HOME": str(self._directory)},
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid wait for no lock
            )


def _identity(name: str, key: str, secret: str, *, actions: list[str]) -> dict[str, Any]:
    return {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}


@contextmanager
def object_store(directory: Path) -> Iterator[ObjectStore]:
    """Give a store with an empty bucket, whose files are in that directory; this process is told of it as those of a cluster are."""
    directory.mkdir(parents=True)
    store = ObjectStore(directory)
    try:
        store.start()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in store.environment.items():
                patch.setenv(name, value)
            # A client that was made for another store in this process would be given again: what it was told is no part of its name.
            fsspec.get_filesystem_class("s3").clear_instance_cache()
            yield store
    finally:
        store.close()
