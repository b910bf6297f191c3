"""The resource driver `kubernetes`: a worker is a pod, whose name is that of the cluster and the worker's id.

The pod is made of a template, to which the driver adds what makes it this worker. What there is Kubernetes says: pods are listed again and
again, and no watch is kept that could be lost. Which leader may make pods stands in a ConfigMap, the fence: the one of the highest epoch.
The rules: a name is used once, so a pod that is asked for twice is made once; and the fence is read before a pod is made and after, so
a deposed leader removes what it has made. Where it dies between the two, the next leader does: it knows of no such worker.
"""

import json
import logging
import math
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from eventflink.entrypoint.resource_driver import DriverUnusable, ResourceEventHandler
from eventflink.leadership.worker_reconciliation import ListedWorker
from eventflink.master.effects import RequestWorker
from eventflink.model.backoff import Backoff
from eventflink.model.configuration import Configuration, ConfigurationError
from eventflink.model.document_text import InvalidText, read_document

MAIN_CONTAINER: Final = "taskexecutor"
"""The container of a template that becomes the TaskExecutor; it is added where the template has none of this name."""

WORKER_LABEL: Final = "eventflink/worker"
WATCH_INTERVAL_S: Final = 2.0
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_PREFIX: Final = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
"""What a cluster is called here begins names of pods and is the value of a label."""

_REQUEST_TIMEOUT_S: Final = (5.0, 15.0)
_CALL_LIMIT_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
_CLOSE_TIMEOUT_S: Final = 5.0
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_FENCE_TRIES: Final = 10
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_NEVER_STARTS: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName", "RunContainerError"}
)
"""Reasons for which a container waits that waiting does not end."""

_logger = logging.getLogger(__name__)
T = TypeVar("T")


class KubernetesDriver:
    """TaskExecutors of one cluster as pods of one namespace."""

    def __init__(self, configuration: Configuration, program: Sequence[str]) -> None:
        """Take the command line of an `eventflink` with the master's configuration, up to its command, as it is in the image.

        Raises:
            ConfigurationError: the cluster's id cannot begin the name of a pod, the template is not a Pod, or Kubernetes was not found.

        """
        self._cluster = configuration.cluster_id
        if not _PREFIX.fullmatch(self._cluster):
            raise ConfigurationError(
                f"invalid cluster.id '{self._cluster}': with resourcemanager.driver: kubernetes it begins the names of pods, "
                "so at most 40 lower-case letters, digits and '-', a letter first"
            )
        self._template = PodTemplate(configuration, program)
        self._grace_s = math.ceil(configuration.stop_timeout_ms / 1000)
        self._pods_api, self._namespace = _connect(configuration.kubernetes_namespace)
        self._lock = threading.Lock()
        self._epoch = 0
        self._handler: ResourceEventHandler | None = None
        self._told: set[str] = set()
        self._stopped: set[str] = set()
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def lead(self, epoch: int, handler: ResourceEventHandler) -> None:
        """Serve a leadership; from now on a leader of a lower epoch makes no pods any more."""
        self._raise_fence(epoch, "")
        with self._lock:
            self._epoch, self._handler = epoch, handler
            self._told.clear()
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="kubernetes-driver", daemon=True)
                self._watcher.start()

    def list_workers(self) -> list[ListedWorker]:
        """Return the workers whose pods are there, also those that are ending."""
        found = self._call(self._pods_api.list_namespaced_pod, self._namespace, label_selector=self._selector)
        workers = []
        for pod in found.items:
            how = describe_end(pod)
            workers.append(ListedWorker(pod.metadata.labels[WORKER_LABEL], is_running=how is None, diagnostics=how or ""))
        return workers

    def request_worker(self, worker: RequestWorker) -> None:
        """Make the pod of a worker, unless it is there.

        Raises:
            DriverUnusable: the application was deregistered, nobody leads, or another pod has that name.
            ApiException: Kubernetes refuses the pod, or does not answer in time.

        """
        with self._lock:
            epoch, handler = self._epoch, self._handler
        if not epoch or handler is None or self._closed.is_set():
            raise DriverUnusable("nobody leads")
        why_fenced = (
            f"a leader of a higher epoch than {epoch} followed, as ConfigMap {self._fence_name} says; remove that if the cluster began anew"
        )
        if self._is_fenced(epoch):
            handler.on_worker_terminated(worker.worker_id, why_fenced)
            return
        name = self._name_of(worker.worker_id)
        labels = {**self._labels, WORKER_LABEL: worker.worker_id, "eventflink/epoch": str(epoch)}
        try:
            self._call(self._pods_api.create_namespaced_pod, self._namespace, self._template.pod(name, labels, worker))
        except ApiException as error:
            if error.status != _CONFLICT:
                raise DriverUnusable(f"pod {name}: {_said(error)}") from error
            there = self._call(self._pods_api.read_namespaced_pod, name, self._namespace)
            if (there.metadata.labels or {}).get(WORKER_LABEL) != worker.worker_id:
                raise DriverUnusable(f"pod {name} is there already in namespace {self._namespace}, and is no worker: remove it") from None
            return
        _logger.info("WorkerStarted worker=%s pod=%s namespace=%s epoch=%d", worker.worker_id, name, self._namespace, epoch)
        if self._is_fenced(epoch):
            self._delete(worker.worker_id)
            handler.on_worker_terminated(worker.worker_id, why_fenced)

    def stop_worker(self, worker_id: str) -> None:
        """Have the pod of a worker deleted: it has `cluster.stop-timeout` to end in order."""
        with self._lock:
            self._stopped.add(worker_id)
        self._delete(worker_id)

    def deregister_application(self, status: str, diagnostics: str) -> None:
        """Have all pods deleted, and wait until they are gone; none is made any more."""
        with self._lock:
            epoch = self._epoch
        self._raise_fence(epoch, status)
        deadline = time.monotonic() + self._grace_s + _CALL_LIMIT_S
        while (there := [worker.worker_id for worker in self.list_workers()]) and time.monotonic() < deadline:
            for worker_id in there:
                if worker_id not in self._stopped:
                    self.stop_worker(worker_id)
            time.sleep(_FIRST_PAUSE_S)
        _logger.info("ApplicationDeregistered status=%s workers_left=%d diagnostics=%s", status, len(there), diagnostics)

    def close(self) -> None:
        """End the watching thread; pods live on."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join(_CLOSE_TIMEOUT_S)
        self._pods_api.api_client.close()

    # -- pods ----------------------------------------------------------------------------------------------------------

    @property
    def _labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": "eventflink",
            "app.kubernetes.io/instance": self._cluster,
            "app.kubernetes.io/component": MAIN_CONTAINER,
        }

    @property
    def _selector(self) -> str:
        return ",".join([*(f"{name}={value}" for name, value in self._labels.items()), WORKER_LABEL])

    def _name_of(self, worker_id: str) -> str:
        return f"{self._cluster}-{worker_id}"

    def _delete(self, worker_id: str) -> None:
        try:
            self._call(self._pods_api.delete_namespaced_pod, self._name_of(worker_id), self._namespace, grace_period_seconds=self._grace_s)
        except ApiException as error:
            if error.status != _NOT_FOUND:
                raise
        else:
            _logger.info("WorkerStopping worker=%s pod=%s", worker_id, self._name_of(worker_id))

    def _watch(self) -> None:
        pauses_s = Backoff(WATCH_INTERVAL_S, 10 * WATCH_INTERVAL_S)
        pause_s = WATCH_INTERVAL_S
        while not self._closed.wait(pause_s):
            try:
                workers = self.list_workers()
            except (ApiException, HTTPError) as error:
                pause_s = pauses_s.next()
                _logger.warning("WorkersNotWatched namespace=%s retry_s=%g error=%s", self._namespace, pause_s, _said(error))
                continue
            pauses_s.reset()
            pause_s = WATCH_INTERVAL_S
            with self._lock:
                # Ids are never used again, so what is gone need not be remembered.
                for remembered in (self._told, self._stopped):
                    remembered.intersection_update(worker.worker_id for worker in workers)
            for worker in workers:
                if not worker.is_running:
                    self._tell(worker)

    def _tell(self, worker: ListedWorker) -> None:
        """Tell the master that a worker has ended, once, unless it had it stopped."""
        with self._lock:
            handler = self._handler
            is_news = worker.worker_id not in self._told | self._stopped
            self._told.add(worker.worker_id)
        if is_news and handler is not None:
            _logger.warning("WorkerTerminated worker=%s", worker.worker_id)
            handler.on_worker_terminated(worker.worker_id, worker.diagnostics)

    # -- the fence -----------------------------------------------------------------------------------------------------

    @property
    def _fence_name(self) -> str:
        return f"{self._cluster}-fence"

    def _raise_fence(self, epoch: int, status: str) -> None:
        """Write an epoch, and how the cluster ended in it if it did, into the ConfigMap, unless more than that stands there."""
        for _ in range(_FENCE_TRIES):
            fence = self._read_fence()
            if fence is not None and (_epoch_in(fence), bool(fence.data.get("ended"))) >= (epoch, bool(status)):
                return
            body: dict[str, Any] = {
                "metadata": {"name": self._fence_name, "labels": self._labels},
                "data": {"epoch": str(epoch), "ended": status},
            }
            try:
                if fence is None:
                    self._call(self._pods_api.create_namespaced_config_map, self._namespace, body)
                else:
                    # Refused if somebody has written it since it was read.
                    body["metadata"]["resourceVersion"] = fence.metadata.resource_version
                    self._call(self._pods_api.replace_namespaced_config_map, self._fence_name, self._namespace, body)
            except ApiException as error:
                if error.status not in (_CONFLICT, _NOT_FOUND):
                    raise
            else:
                return
        raise DriverUnusable(f"ConfigMap {self._fence_name}: others write it all the time")

    def _is_fenced(self, epoch: int) -> bool:
        """Tell whether a higher epoch leads.

        Raises:
            DriverUnusable: the cluster ended in this one.

        """
        fence = self._read_fence()
        if fence is None:
            return False
        highest = _epoch_in(fence)
        if highest == epoch and fence.data.get("ended"):
            raise DriverUnusable(f"the cluster is shut down ({fence.data['ended']})")
        return highest > epoch

    def _read_fence(self) -> Any:
        try:
            return self._call(self._pods_api.read_namespaced_config_map, self._fence_name, self._namespace)
        except ApiException as error:
            if error.status != _NOT_FOUND:
                raise
            return None

    def _call(self, function: Callable[..., T], *args: object, **options: object) -> T:
        """Call Kubernetes; what may pass is tried again, for `_CALL_LIMIT_S` at most. Every call here may be repeated without harm.

        Raises:
            ApiException, HTTPError: it refuses, or does not answer in time.

        """
        deadline = time.monotonic() + _CALL_LIMIT_S
        pauses_s = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                return function(*args, **options, _request_timeout=_REQUEST_TIMEOUT_S)
            except (ApiException, HTTPError) as error:
                pause_s = max(pauses_s.next_jittered(random.random()), _asked_pause_s(error))  # noqa: S311 - it only spreads tries
                passes = not isinstance(error, ApiException) or error.status in _PASSING
                if not passes or time.monotonic() + pause_s > deadline:
                    raise
            if self._closed.wait(pause_s):
                raise DriverUnusable("the driver is closed")


class PodTemplate:
    """What pods of workers are made of."""

    def __init__(self, configuration: Configuration, program: Sequence[str]) -> None:
        self._program = tuple(program)
        self._pod: dict[str, Any] = {"metadata": {"labels": {}}, "spec": {"containers": []}}
        path = configuration.kubernetes_pod_template
        key = "kubernetes.pod-template-file.taskmanager"
        if path is not None:
            try:
                read = read_document(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, InvalidText) as error:
                raise ConfigurationError(f"{key}: {path} cannot be read: {error}") from error
            self._pod = _checked(read, f"{key}: {path}")
        self._image = configuration.kubernetes_image
        if not self._image and not self._main_container(self._pod).get("image"):
            raise ConfigurationError(
                "kubernetes.container.image.ref is missing: name the image of TaskExecutors, "
                f"there or in the container '{MAIN_CONTAINER}' of {key}"
            )

    @staticmethod
    def _main_container(pod: Mapping[str, Any]) -> dict[str, Any]:
        return next((each for each in pod["spec"]["containers"] if each.get("name") == MAIN_CONTAINER), {})

    def pod(self, name: str, labels: Mapping[str, str], worker: RequestWorker) -> dict[str, Any]:
        """Return the pod of a worker."""
        labels = {**self._pod["metadata"]["labels"], **labels}
        metadata = {**self._pod["metadata"], "name": name, "labels": labels}
        spec = {**self._pod["spec"], "restartPolicy": "Never"}
        main = self._main_container(self._pod)
        main = {
            # How a container ended is told by the end of its log.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "command": list(self._program),
            **main,
            "name": MAIN_CONTAINER,
            "image": main.get("image") or self._image,
            "args": [
                *("-D", f"taskmanager.id={worker.worker_id}"),
                *("-D", f"taskmanager.numberOfTaskSlots={worker.slot_count}"),
                *("-D", "taskmanager.host=$(POD_IP)"),
                "taskexecutor",
            ],
            "env": [*main.get("env", []), {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        }
        others = [each for each in spec["containers"] if each.get("name") != MAIN_CONTAINER]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "containers": [main, *others]}}


def _checked(read: object, where: str) -> dict[str, Any]:
    """Return a template whose parts are what the driver adds to; Kubernetes checks the rest.

    Raises:
        ConfigurationError: it is no pod.

    """
    if not isinstance(read, dict) or read.get("kind", "Pod") != "Pod":
        raise ConfigurationError(f"{where}: a Pod is expected, an object with 'metadata' and 'spec'")
    pod = {name: {} if read.get(name) is None else read[name] for name in ("metadata", "spec")}
    metadata, spec = pod["metadata"], pod["spec"]
    if not isinstance(metadata, dict) or not isinstance(spec, dict) or not isinstance(metadata.setdefault("labels", {}), dict):
        raise ConfigurationError(f"{where}: 'metadata', 'metadata.labels' and 'spec' have to be objects")
    containers = spec.setdefault("containers", [])
    if not isinstance(containers, list) or not all(isinstance(each, dict) for each in containers):
        raise ConfigurationError(f"{where}: 'spec.containers' has to be a list of objects")
    for each in containers:
        if not isinstance(each.get("env", []), list):
            raise ConfigurationError(f"{where}: 'env' of container '{each.get('name', '')}' has to be a list")
    return pod


def describe_end(pod: Any) -> str | None:
    """Return how a pod ended, or why it never starts; None: it runs, or is about to."""
    status = pod.status
    name = pod.metadata.name
    for container in status.container_statuses or []:
        state = container.state
        if container.name == MAIN_CONTAINER and state is not None and state.terminated is not None:
            ended = state.terminated
            log = (ended.message or "").strip().rpartition("\n")[2]
            reason = f", {ended.reason}" if ended.reason not in (None, "Error", "Completed") else ""
            return f"its pod {name} has ended (exit code {ended.exit_code}{reason})" + (f"; its log ends: {log[:400]}" if log else "")
        if state is not None and state.waiting is not None and state.waiting.reason in _NEVER_STARTS:
            return f"its pod {name} does not start: {state.waiting.reason}: {(state.waiting.message or '')[:400]}"
    if status.phase in _ENDED:
        why = ": ".join(each for each in (status.reason, status.message) if each)
        return f"its pod {name} has ended ({why or status.phase})"
    return None


def _epoch_in(fence: Any) -> int:
    text = (fence.data or {}).get("epoch", "")
    return int(text) if text.isdecimal() else 0


def _said(error: Exception) -> str:
    """Return what Kubernetes says of a call that failed."""
    if isinstance(error, ApiException):
        try:
            return f"{json.loads(error.body)['message']} ({error.status})"
        except (TypeError, ValueError, KeyError):
            return f"{error.status} {error.reason}"
    return str(error)


def _asked_pause_s(error: Exception) -> float:
    """Return for how long Kubernetes asks to be left alone."""
    headers = error.headers if isinstance(error, ApiException) else None
    asked = (headers or {}).get("Retry-After", "")
    return float(asked) if asked.isdecimal() else 0.0


def _connect(namespace: str) -> tuple[Any, str]:
    """Return the API of pods, and the namespace: of this pod, or as the user's configuration of kubectl says.

    Raises:
        ConfigurationError: neither is there.

    """
    settings = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=settings)
        found = namespace or _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except ConfigException:
        try:
            path = os.environ.get("KUBECONFIG")
            config.load_kube_config(path, client_configuration=settings)
            _, active = config.list_kube_config_contexts(path)
        except ConfigException as error:
            raise ConfigurationError(
                "resourcemanager.driver: kubernetes: Kubernetes not found: this process runs in no pod with a service account, "
                f"and there is no configuration of kubectl (KUBECONFIG, ~/.kube/config): {error}"
            ) from error
        found = namespace or active["context"].get("namespace", "default")
    settings.retries = False  # `_call` tries again.
    return client.CoreV1Api(client.ApiClient(settings)), found
