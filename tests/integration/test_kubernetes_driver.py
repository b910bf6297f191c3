"""The driver `kubernetes` keeps the laws of resource drivers, on a real API server; a job runs in TaskExecutors that Kubernetes starts."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.utils import create_from_yaml

from eventflink.entrypoint.kubernetes_driver import KubernetesDriver
from eventflink.entrypoint.resource_driver import DriverUnusable
from eventflink.events.log_events import TaskManagerReleased, WorkerRequested, WorkerRequestFailed
from eventflink.model.configuration import load_configuration
from eventflink.model.statuses import JobStatus
from tests.support.driver_laws import ONE, TIMEOUT_S, DriverLaws, Heard, Provider, listed, wait_for
from tests.support.kubernetes_api import NAMESPACE, KubernetesApi, Node, kubernetes_api, why_not
from tests.support.running_cluster import RunningCluster, running_cluster, wait_until

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

SLEEPS = [sys.executable, "-c", "import time; print('it sleeps', flush=True); time.sleep(600)"]
"""A program that takes the arguments of a TaskExecutor and is none."""


MANIFEST = Path(__file__).parents[2] / "conf/kubernetes/eventflink.yaml"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """An API server, on which the cluster of conf/ was made."""
    with kubernetes_api(tmp_path_factory.mktemp("kubernetes")) as started:
        create_from_yaml(started.core.api_client, str(MANIFEST), namespace=NAMESPACE)
        yield started


@pytest.fixture
def node(api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A node, beside which drivers have the rights of a master's pod."""
    monkeypatch.setenv("KUBECONFIG", str(api.configuration_of("eventflink-master")))
    made = Node(api, tmp_path)
    made.start()
    yield made
    made.close()
    api.clear()


class Namespace(Provider):
    """The namespace of the tests, with one cluster's pods."""

    def __init__(self, node: Node, **settings: str) -> None:
        self.node = node
        settings = {"cluster.id": "orders", "kubernetes.container.image.ref": "eventflink:1", "cluster.stop-timeout": "5000", **settings}
        self.configuration = load_configuration(None, settings)

    def make(self) -> KubernetesDriver:
        return KubernetesDriver(self.configuration, SLEEPS)

    def kill(self, worker_id: str) -> None:
        self.node.kill(f"orders-{worker_id}")
        wait_for(lambda: any(pod.status.phase == "Failed" for pod in self.node.api.pods()), f"{worker_id} has ended")

    def running(self) -> set[str]:
        return {name.removeprefix("orders-") for name in self.node.running()}


@pytest.fixture
def provider(node: Node) -> Namespace:
    return Namespace(node)


class TestKubernetesDriver(DriverLaws):
    """All laws, and what is Kubernetes' own."""

    def test_how_a_pod_ended_is_told_with_the_end_of_its_log(self, provider: Namespace, driver: KubernetesDriver, heard: Heard) -> None:
        driver.request_worker(ONE)
        wait_for(lambda: "it sleeps" in provider.node.log_of("orders-worker-1") if provider.running() else False, "it runs")
        provider.kill("worker-1")
        assert heard.told.get(timeout=TIMEOUT_S) == (
            "worker-1",
            f"its pod orders-worker-1 has ended (exit code {128 + signal.SIGKILL}); its log ends: it sleeps",
        )

    def test_a_pod_that_waits_in_vain_is_told(self, node: Node) -> None:
        driver = Namespace(node, **{"kubernetes.container.image.ref": "missing/eventflink:1"}).make()
        heard = Heard()
        driver.lead(1, heard)
        driver.request_worker(ONE)
        _, why = heard.told.get(timeout=TIMEOUT_S)
        assert why == "its pod orders-worker-1 does not start: ImagePullBackOff: cannot pull missing/eventflink:1"
        assert not listed(driver)["worker-1"].is_running
        driver.stop_worker("worker-1")
        wait_for(lambda: not listed(driver), "it is gone")
        driver.close()

    def test_a_pod_of_somebody_else_with_the_name_is_left_alone_and_named(
        self, provider: Namespace, driver: KubernetesDriver, heard: Heard
    ) -> None:
        container = {"name": "main", "image": "theirs", "command": SLEEPS}
        theirs = {"metadata": {"name": "orders-worker-1"}, "spec": {"containers": [container]}}
        provider.node.api.core.create_namespaced_pod(NAMESPACE, theirs)
        with pytest.raises(DriverUnusable, match="pod orders-worker-1 is there already in namespace work, and is no worker"):
            driver.request_worker(ONE)
        driver.deregister_application("SUCCEEDED", "")
        assert [pod.metadata.name for pod in provider.node.api.pods()] == ["orders-worker-1"]
        assert heard.told.empty()

    def test_what_kubernetes_refuses_is_said_in_its_words(self, node: Node, tmp_path: Path) -> None:
        template = tmp_path / "pod.yaml"
        template.write_text("spec: {containers: [{name: taskexecutor, resources: {limits: {memory: much}}}]}")
        driver = Namespace(node, **{"kubernetes.pod-template-file.taskmanager": str(template)}).make()
        driver.lead(1, Heard())
        with pytest.raises(DriverUnusable, match=r"pod orders-worker-1: .*quantities must match"):
            driver.request_worker(ONE)
        driver.close()

    def test_what_a_leader_makes_while_another_one_follows_is_removed(
        self, provider: Namespace, driver: KubernetesDriver, heard: Heard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        following, make = provider.make(), driver._pods_api.create_namespaced_pod

        def make_late(*args: object, **options: object) -> object:
            following.lead(2, Heard())
            return make(*args, **options)

        monkeypatch.setattr(driver._pods_api, "create_namespaced_pod", make_late)
        driver.request_worker(ONE)
        _, why = heard.told.get(timeout=TIMEOUT_S)
        assert why.startswith("a leader of a higher epoch than 1 followed, as ConfigMap orders-fence says")
        wait_for(lambda: not listed(following), "its pod is gone")
        following.close()

    def test_a_server_that_does_not_answer_for_a_while_costs_time_alone(
        self, provider: Namespace, driver: KubernetesDriver, heard: Heard
    ) -> None:
        def answers_in_the_end(*args: object, **options: object) -> object:
            if refusals:
                refusals.pop()
                raise ApiException(status=429, reason="Too Many Requests")
            return make(*args, **options)

        refusals, make = [1, 2, 3], driver._pods_api.create_namespaced_pod
        driver._pods_api.create_namespaced_pod = answers_in_the_end
        driver.request_worker(ONE)
        wait_for(lambda: provider.running() == {"worker-1"}, "it runs")
        assert heard.told.empty()


@pytest.fixture
def cluster(bootstrap: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """A cluster whose masters have Kubernetes start TaskExecutors."""
    settings = {
        "resourcemanager.driver": "kubernetes",
        "kubernetes.container.image.ref": "eventflink:1",
        "resourcemanager.taskmanager-timeout": 1_000,
        "taskmanager.numberOfTaskSlots": 1,
        "slotmanager.number-of-slots.max": 2,
        "spark.start-early": "false",
    }
    with running_cluster(bootstrap, tmp_path / "cluster", **settings) as running:
        yield running


def test_a_job_gets_a_pod_which_the_next_leader_adopts_and_which_goes_when_it_is_idle(
    node: Node, cluster: RunningCluster, api: KubernetesApi
) -> None:
    cluster.start_master("first")
    gate = cluster.directory / "task"
    job_id = cluster.run_task("wait_for_file", path=str(gate))
    cluster.wait_for_running(job_id)
    before = node.running()
    assert before == {f"{cluster.cluster_id}-worker-1"}
    cluster.kill("first")
    cluster.start_master("second")
    gate.with_suffix(".go").touch()
    cluster.wait_for_status(job_id, JobStatus.FINISHED)
    wait_until(lambda: not api.pods(), "the idle pod is removed")
    events = [type(event) for _, decision in cluster.decisions() for event in decision.events]
    assert (events.count(WorkerRequested), events.count(TaskManagerReleased), events.count(WorkerRequestFailed)) == (1, 1, 0)
    assert cluster.job(job_id).restarts.count == 0
