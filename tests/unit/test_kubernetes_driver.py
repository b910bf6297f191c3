"""What the driver `kubernetes` makes pods of, and what it reads from them; `tests/integration/test_kubernetes_driver.py` has Kubernetes."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kubernetes import client

from eventflink.entrypoint.factories import create_driver
from eventflink.entrypoint.kubernetes_driver import PodTemplate, describe_end
from eventflink.master.effects import RequestWorker
from eventflink.model.configuration import ConfigurationError, load_configuration
from eventflink.model.packages import PackageMissing

WORKER = RequestWorker("worker-7", 3, None)
DRIVER = {"resourcemanager.driver": "kubernetes", "cluster.id": "orders", "kubernetes.container.image.ref": "eventflink:1"}


def template(tmp_path: Path, text: str, **settings: str) -> PodTemplate:
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    return PodTemplate(load_configuration(None, {"kubernetes.pod-template-file.taskmanager": str(path), **settings}), ["eventflink"])


def test_a_pod_is_the_template_with_what_makes_it_this_worker(tmp_path: Path) -> None:
    text = json.dumps(
        {
            "metadata": {"labels": {"team": "sales"}, "annotations": {"a": "b"}},
            "spec": {
                "restartPolicy": "Always",
                "nodeSelector": {"disk": "fast"},
                "containers": [
                    {"name": "logs", "image": "shipper:2"},
                    {"name": "taskexecutor", "image": "own:3", "command": ["run"], "args": ["lost"], "env": [{"name": "A", "value": "1"}]},
                ],
            },
        }
    )
    pod = template(tmp_path, text).pod("orders-worker-7", {"eventflink/worker": "worker-7"}, WORKER)
    assert pod["metadata"] == {
        "name": "orders-worker-7",
        "labels": {"team": "sales", "eventflink/worker": "worker-7"},
        "annotations": {"a": "b"},
    }
    assert (pod["spec"]["restartPolicy"], pod["spec"]["nodeSelector"]) == ("Never", {"disk": "fast"})
    main, logs = pod["spec"]["containers"]
    assert logs == {"name": "logs", "image": "shipper:2"}
    assert (main["name"], main["image"], main["command"]) == ("taskexecutor", "own:3", ["run"])
    assert main["args"] == [
        *("-D", "taskmanager.id=worker-7", "-D", "taskmanager.numberOfTaskSlots=3", "-D", "taskmanager.host=$(POD_IP)"),
        "taskexecutor",
    ]
    assert [each["name"] for each in main["env"]] == ["A", "POD_IP"]


@pytest.mark.parametrize("text", ["{}", "spec:", "kind: Pod\nspec: {containers: [{name: logs, image: shipper}]}"])
def test_what_a_template_leaves_out_is_filled_in(tmp_path: Path, text: str) -> None:
    pod = template(tmp_path, text, **{"kubernetes.container.image.ref": "eventflink:1"}).pod("orders-worker-7", {}, WORKER)
    main = pod["spec"]["containers"][0]
    assert (main["name"], main["image"], main["command"]) == ("taskexecutor", "eventflink:1", ["eventflink"])
    assert main["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[]", "a Pod is expected"),
        ("kind: Deployment", "a Pod is expected"),
        ("spec: []", "'metadata', 'metadata.labels' and 'spec' have to be objects"),
        ("metadata: {labels: [a]}", "'metadata', 'metadata.labels' and 'spec' have to be objects"),
        ("spec: {containers: {name: a}}", "'spec.containers' has to be a list of objects"),
        ("spec: {containers: [a]}", "'spec.containers' has to be a list of objects"),
        ("spec: {containers: [{name: a, env: {b: c}}]}", "'env' of container 'a' has to be a list"),
        ("spec: {containers: [", "cannot be read"),
        ("spec: {containers: [{name: other, image: a}]}", "kubernetes.container.image.ref is missing"),
    ],
)
def test_what_is_no_template_is_refused_with_its_key_and_file(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=f"kubernetes.*{wrong}" if "image" not in wrong else wrong):
        template(tmp_path, text)


def test_a_template_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(ConfigurationError, match=rf"kubernetes.pod-template-file.taskmanager: {path} cannot be read"):
        PodTemplate(load_configuration(None, {"kubernetes.pod-template-file.taskmanager": str(path)}), ["eventflink"])


def test_the_cluster_of_conf_is_one(tmp_path: Path) -> None:
    documents = yaml.safe_load_all((Path(__file__).parents[2] / "conf/kubernetes/eventflink.yaml").read_text())
    [files] = [each["data"] for each in documents if each["kind"] == "ConfigMap"]
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("/etc/eventflink/", f"{tmp_path}/"))
    configuration = load_configuration(tmp_path / "eventflink.yaml", {"security.cluster-secret": "off"})
    made = PodTemplate(configuration, ["eventflink"]).pod("eventflink-worker-7", {}, WORKER)
    assert made["spec"]["containers"][0]["image"] == "eventflink:0.1.0"
    assert {each["name"] for each in made["spec"]["volumes"]} == {each["name"] for each in made["spec"]["containers"][0]["volumeMounts"]}
    grace_s = made["spec"]["terminationGracePeriodSeconds"]
    assert grace_s * 1000 > configuration.stop_timeout_ms


@pytest.mark.parametrize("cluster_id", ["Orders", "my_orders", "1orders", "orders-", "a" * 41])
def test_a_cluster_whose_id_begins_no_name_of_a_pod_is_refused(cluster_id: str) -> None:
    with pytest.raises(ConfigurationError, match=f"invalid cluster.id '{cluster_id}'"):
        create_driver(load_configuration(None, {**DRIVER, "cluster.id": cluster_id}), ["eventflink"])


def test_where_no_kubernetes_is_to_be_found_it_is_said_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match=r"Kubernetes not found: .*KUBECONFIG, ~/.kube/config"):
        create_driver(load_configuration(None, DRIVER), ["eventflink"])


def test_without_the_package_it_is_said_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "kubernetes" or name.endswith(".kubernetes_driver")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(
        PackageMissing, match=r"resourcemanager.driver: kubernetes needs kubernetes, .*pip install 'eventflink\[kubernetes\]'"
    ):
        create_driver(load_configuration(None, DRIVER), ["eventflink"])


def pod(phase: str, state: dict[str, Any] | None = None, **status: Any) -> Any:
    """Return a pod as the client reads it."""
    container = {"name": "taskexecutor", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    text = {"phase": phase, "containerStatuses": [container] if state is not None else None, **status}
    answer = SimpleNamespace(data=json.dumps({"metadata": {"name": "orders-worker-7"}, "status": text}))
    return client.ApiClient().deserialize(answer, "V1Pod")


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (pod("Pending"), None),
        (pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), None),
        (pod("Running", {"running": {}}), None),
        (pod("Unknown"), None),
        (pod("Pending", {"waiting": {"reason": "InvalidImageName", "message": "no"}}), "does not start: InvalidImageName: no"),
        (
            pod("Failed", {"terminated": {"exitCode": 1, "reason": "Error", "message": "one\ntwo\n"}}),
            "ended (exit code 1); its log ends: two",
        ),
        (pod("Failed", {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}), "ended (exit code 137, OOMKilled)"),
        (pod("Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}}), "ended (exit code 0)"),
        (pod("Running", {"terminated": {"exitCode": 2, "reason": "Error"}}), "ended (exit code 2)"),
        (pod("Failed", reason="Evicted", message="low on memory"), "ended (Evicted: low on memory)"),
        (pod("Failed"), "ended (Failed)"),
    ],
)
def test_what_a_pod_says_of_itself(there: Any, told: str | None) -> None:
    assert describe_end(there) == (None if told is None else f"its pod orders-worker-7 {'has ' if told.startswith('ended') else ''}{told}")
