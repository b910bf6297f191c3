"""A real API server of Kubernetes on a real etcd, and a stand-in for its nodes, which runs containers as processes of this host.

`python -m tests.support.kubernetes_api` builds the API server from its Go modules, once, into the user's cache: no registry of packages
has the program. Tests on it are skipped where it was not built.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from eventflink.local.jars import default_cache_directory
from tests.support.ports import find_free_ports

VERSION: Final = "1.36.3"
API_SERVER: Final = default_cache_directory() / "kubernetes" / f"kube-apiserver-{VERSION}"
NAMESPACE: Final = "work"
LOOK_INTERVAL_S: Final = 0.1
_READY_S: Final = 120.0
_BUILD_S: Final = 3_600.0
_MODULE: Final = "k8s.io/kubernetes"
_STAGED: Final = re.compile(r"^\s*(k8s\.io/[a-z-]+) => \./staging", re.MULTILINE)


def why_not() -> str:
    """Return why no API server can be started here; empty: one can."""
    if not API_SERVER.is_file():
        return "no API server of Kubernetes was built: python -m tests.support.kubernetes_api"
    return "" if shutil.which("etcd") else "etcd not found: apt-get install etcd-server"


def build() -> None:
    """Build the API server, if it is not there."""
    if API_SERVER.is_file():
        return
    with tempfile.TemporaryDirectory() as scratch:

        def run(*command: str) -> str:
            environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
            return subprocess.run(
                command, cwd=scratch, env=environment, check=True, timeout=_BUILD_S, text=True, stdout=subprocess.PIPE
            ).stdout

        # Its own go.mod says that parts of it lie beside it, and those are published as modules of their own.
        (Path(scratch) / "go.mod").write_text("module build\n")
        told = json.loads(run("go", "mod", "download", "-json", f"{_MODULE}@v{VERSION}"))
        own = Path(told["GoMod"]).read_text(encoding="utf-8")
        parts = [f"replace {name} => {name} v0.{VERSION.partition('.')[2]}" for name in _STAGED.findall(own)]
        [go] = [line for line in own.splitlines() if line.startswith("go ")]
        (Path(scratch) / "go.mod").write_text("\n".join(["module build", go, f"require {_MODULE} v{VERSION}", *parts]))
        (Path(scratch) / "main.go").write_text(f'package main\n\nimport _ "{_MODULE}/cmd/kube-apiserver/app"\n\nfunc main() {{}}\n')
        run("go", "mod", "tidy")
        major, minor, _ = VERSION.split(".")
        names = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
        flags = " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in names.items())])
        run("go", "build", "-trimpath", "-ldflags", flags, "-o", "kube-apiserver", f"{_MODULE}/cmd/kube-apiserver")
        API_SERVER.parent.mkdir(parents=True, exist_ok=True)
        part = API_SERVER.with_suffix(f".{os.getpid()}.part")
        shutil.copy2(Path(scratch) / "kube-apiserver", part)
        part.replace(API_SERVER)


@dataclass(slots=True)
class KubernetesApi:
    """An API server that is ready, with a namespace for tests."""

    core: client.CoreV1Api
    kubectl_configuration: Path
    """For KUBECONFIG, of somebody who may do anything."""

    def pods(self) -> list[Any]:
        """Return all pods of the namespace."""
        return list(self.core.list_namespaced_pod(NAMESPACE).items)

    def configuration_of(self, account: str) -> Path:
        """Return a configuration of kubectl with what a service account of the namespace may do, as its pods have it."""
        request = {"spec": {"audiences": ["https://tests"], "expirationSeconds": 3600}}
        token = self.core.create_namespaced_service_account_token(account, NAMESPACE, request).status.token
        told = yaml.safe_load(self.kubectl_configuration.read_text(encoding="utf-8"))
        told["users"] = [{"name": "tests", "user": {"token": token}}]
        path = self.kubectl_configuration.with_name(f"{account}.yaml")
        path.write_text(yaml.safe_dump(told), encoding="utf-8")
        return path

    def clear(self) -> None:
        """Remove everything that a test has left in the namespace."""
        for pod in self.pods():
            with contextlib.suppress(ApiException):
                self.core.delete_namespaced_pod(pod.metadata.name, NAMESPACE, grace_period_seconds=0)
        for each in self.core.list_namespaced_config_map(NAMESPACE).items:
            with contextlib.suppress(ApiException):
                self.core.delete_namespaced_config_map(each.metadata.name, NAMESPACE)


@contextmanager
def kubernetes_api(directory: Path) -> Iterator[KubernetesApi]:
    """Start etcd and the API server with what they keep below a directory, and end them."""
    etcd_port, peer_port, port = find_free_ports(3)
    token = secrets.token_hex(16)
    (directory / "tokens.csv").write_text(f"{token},tests,tests,system:masters\n")
    subprocess.run(["openssl", "genrsa", "-out", str(directory / "key.pem"), "2048"], check=True, capture_output=True, timeout=_READY_S)
    etcd_url = f"http://127.0.0.1:{etcd_port}"
    etcd = ["etcd", "--data-dir", str(directory / "etcd"), "--listen-client-urls", etcd_url, "--advertise-client-urls", etcd_url]
    etcd += ["--listen-peer-urls", f"http://127.0.0.1:{peer_port}", "--log-level", "error"]
    server = [str(API_SERVER), "--etcd-servers", etcd_url, "--cert-dir", str(directory), "--token-auth-file", str(directory / "tokens.csv")]
    server += ["--secure-port", str(port), "--bind-address", "127.0.0.1", "--authorization-mode", "RBAC", "--watch-cache=false"]
    server += ["--service-account-issuer", "https://tests", "--service-account-key-file", str(directory / "key.pem")]
    server += ["--service-account-signing-key-file", str(directory / "key.pem"), "--disable-admission-plugins", "ServiceAccount"]
    user = {"name": "tests", "user": {"token": token}}
    cluster = {
        "name": "tests",
        "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(directory / "apiserver.crt")},
    }
    context = {"name": "tests", "context": {"cluster": "tests", "user": "tests", "namespace": NAMESPACE}}
    configuration = {"apiVersion": "v1", "kind": "Config", "current-context": "tests"}
    kubectl = directory / "kubectl.yaml"
    kubectl.write_text(yaml.safe_dump({**configuration, "users": [user], "clusters": [cluster], "contexts": [context]}))
    with contextlib.ExitStack() as stack:
        for name, command in (("etcd", etcd), ("kube-apiserver", server)):
            log = stack.enter_context((directory / f"{name}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
        settings = client.Configuration(host=f"https://127.0.0.1:{port}", api_key={"authorization": f"Bearer {token}"})
        settings.ssl_ca_cert = str(directory / "apiserver.crt")
        _await((directory / "apiserver.crt").is_file, directory)
        api = KubernetesApi(client.CoreV1Api(client.ApiClient(settings)), kubectl)
        stack.callback(api.core.api_client.close)
        _await(lambda: _makes_namespace(api), directory)
        yield api


def _makes_namespace(api: KubernetesApi) -> bool:
    try:
        api.core.create_namespace({"metadata": {"name": NAMESPACE}})
    except (ApiException, HTTPError):
        return False
    return True


def _await(is_there: Callable[[], bool], directory: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while not is_there():
        log = (directory / "kube-apiserver.log").read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, f"no API server within {_READY_S:g} s; its log ends: {log}"
        time.sleep(0.2)


@dataclass(slots=True)
class _Container:
    process: subprocess.Popen[bytes]
    log: Path
    killed_at_s: float = 0.0
    """By the monotonic clock; 0: it was not asked to end."""


@dataclass(slots=True)
class Node:
    """Runs the first container of each pod of the namespace as a process, and says what became of it, as a kubelet does.

    An image whose name begins with `missing/` cannot be pulled.
    """

    api: KubernetesApi
    directory: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    containers: dict[str, _Container] = field(default_factory=dict)
    """By pod."""
    _closing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to run what pods ask for."""
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Kill everything that runs."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(30)
        for each in self.containers.values():
            _signal(each.process, signal.SIGKILL)
            each.process.wait(30)

    def running(self) -> set[str]:
        """Return the names of the pods whose process runs."""
        return {name for name, each in list(self.containers.items()) if each.process.poll() is None}

    def kill(self, pod: str) -> None:
        """Kill the process of a pod."""
        _signal(self.containers[pod].process, signal.SIGKILL)

    def log_of(self, pod: str) -> str:
        """Return what the process of a pod printed."""
        return self.containers[pod].log.read_text(errors="replace")

    def _run(self) -> None:
        while not self._closing.wait(LOOK_INTERVAL_S):
            for pod in self.api.pods():
                with contextlib.suppress(ApiException):
                    self._look_after(pod)

    def _look_after(self, pod: Any) -> None:
        name = pod.metadata.name
        container = self.containers.get(name)
        if pod.metadata.deletion_timestamp is not None:
            if container is not None and container.process.poll() is None:
                if not container.killed_at_s:
                    container.killed_at_s = time.monotonic() + (pod.metadata.deletion_grace_period_seconds or 0)
                    _signal(container.process, signal.SIGTERM)
                elif time.monotonic() > container.killed_at_s:
                    _signal(container.process, signal.SIGKILL)
                return
            self.api.core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
        elif container is None and pod.status.phase == "Pending":
            self._begin(pod)
        elif container is not None and pod.status.phase == "Running" and (code := container.process.poll()) is not None:
            message = container.log.read_text(errors="replace")[-2000:]
            ended = {"exitCode": code if code >= 0 else 128 - code, "reason": "Error" if code else "Completed", "message": message}
            self._say(pod, "Failed" if code else "Succeeded", {"terminated": ended})

    def _begin(self, pod: Any) -> None:
        name, spec = pod.metadata.name, pod.spec.containers[0]
        if not pod.spec.node_name:
            # Else the API server removes it at once when it is to be deleted, without asking the node.
            target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node"}}
            self.api.core.create_namespaced_binding(NAMESPACE, target, _preload_content=False)
            return
        if spec.image.startswith("missing/"):
            self._say(pod, "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": f"cannot pull {spec.image}"}})
            return
        told = {each.name: each.value if each.value is not None else "127.0.0.1" for each in spec.env or []}
        command = [re.sub(r"\$\((\w+)\)", lambda found: told.get(found[1], found[0]), part) for part in [*spec.command, *(spec.args or [])]]
        log = self.directory / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, env=self.environment | told, stdout=file, stderr=file, start_new_session=True)
        self.containers[name] = _Container(process, log)
        self._say(pod, "Running", {"running": {}})

    def _say(self, pod: Any, phase: str, state: dict[str, Any]) -> None:
        spec = pod.spec.containers[0]
        status = {"name": spec.name, "image": spec.image, "imageID": "", "ready": phase == "Running", "restartCount": 0, "state": state}
        self.api.core.patch_namespaced_pod_status(pod.metadata.name, NAMESPACE, {"status": {"phase": phase, "containerStatuses": [status]}})


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


if __name__ == "__main__":
    build()
    sys.stdout.write(f"{API_SERVER}\n")
