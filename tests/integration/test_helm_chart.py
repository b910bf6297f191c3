"""The chart of conf/kubernetes: Helm finds no fault in it, an API server takes what it makes, and the plain manifest is made of it."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import AppsV1Api
from kubernetes.client.exceptions import ApiException

from eventflink.entrypoint.kubernetes_driver import PodTemplate
from eventflink.model.configuration import load_configuration
from tests.support import kubernetes_api
from tests.support.driver_laws import ONE
from tests.support.helm import CHART, MANIFEST, helm, manifest, why_not
from tests.support.kubernetes_api import NAMESPACE, KubernetesApi

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

SETTINGS = {
    "configuration": {
        "cluster.id": "orders",
        "bootstrap.servers": "kafka-1:9093",
        "spark.local.memory": "2g",
        "rest.bind-address": "0.0.0.0",
    },
    "image": {"repository": "registry.example.com/eventflink", "tag": "1", "pullSecrets": [{"name": "registry"}]},
    "taskExecutor": {"tolerations": [{"key": "spark", "operator": "Exists"}], "nodeSelector": {"disk": "fast"}},
    "volumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
    "volumeMounts": [{"name": "tls", "mountPath": "/etc/tls"}],
}


def rendered(*arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what Helm makes of the chart, by kind and name."""
    made = helm("template", "sales", str(CHART), "--namespace", NAMESPACE, *arguments)
    assert made.returncode == 0, made.stderr
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(made.stdout) if each}


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "values.json"
    path.write_text(json.dumps(SETTINGS))
    return path


def test_helm_finds_no_fault(settings: Path) -> None:
    for more in ([], ["--values", str(settings)]):
        checked = helm("lint", "--strict", str(CHART), *more)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_plain_manifest_is_made_of_the_chart() -> None:
    assert MANIFEST.read_text(encoding="utf-8") == manifest(), "python -m tests.support.helm"


def test_what_is_set_is_in_the_configuration_and_in_the_pod_of_a_task_executor(settings: Path, tmp_path: Path) -> None:
    made = rendered("--values", str(settings))
    for name, text in made["ConfigMap", "sales"]["data"].items():
        (tmp_path / name).write_text(text.replace("/etc/eventflink/", f"{tmp_path}/"))
    configuration = load_configuration(tmp_path / "eventflink.yaml", {"security.cluster-secret": "off", "rest.bind-address": "127.0.0.1"})
    assert (configuration.cluster_id, configuration.bootstrap_servers) == ("orders", "kafka-1:9093")
    pod = PodTemplate(configuration, ["eventflink"]).pod("orders-worker-1", {}, ONE)["spec"]
    assert pod["containers"][0]["image"] == "registry.example.com/eventflink:1"
    assert (pod["nodeSelector"], pod["tolerations"], pod["imagePullSecrets"]) == (
        {"disk": "fast"},
        [{"key": "spark", "operator": "Exists"}],
        [{"name": "registry"}],
    )
    assert {each["name"] for each in pod["volumes"]} == {each["name"] for each in pod["containers"][0]["volumeMounts"]} >= {"tls"}
    assert ("Service", "sales-rest") in made
    assert ("Service", "sales-rest") not in rendered()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("master.replicas=0", "/master/replicas"),
        ("rest.service.type=Ingress", "/rest/service/type"),
        ("maste.replicas=2", "'maste'"),
        ("configuration=", "/configuration"),
    ],
)
def test_a_value_that_is_none_is_refused_with_its_place(wrong: str, says: str) -> None:
    refused = helm("template", "sales", str(CHART), "--set", wrong)
    assert refused.returncode != 0
    assert says in refused.stderr


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    if why := kubernetes_api.why_not():
        pytest.skip(why)
    with kubernetes_api.kubernetes_api(tmp_path_factory.mktemp("kubernetes")) as started:
        # The strictest of Kubernetes' standards for pods: what is against it is refused.
        label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        started.core.patch_namespace(NAMESPACE, label)
        yield started


def test_a_release_is_installed_changed_and_removed_and_its_secret_stays(api: KubernetesApi, settings: Path) -> None:
    def release(*arguments: str) -> str:
        done = helm(*arguments, "--namespace", NAMESPACE, kubectl_configuration=api.kubectl_configuration)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "port-forward deployment/sales-rest 8081" in release("install", "sales", str(CHART))
    secret = api.core.read_namespaced_secret("sales-cluster-secret", NAMESPACE)
    assert len(base64.b64decode(secret.data["cluster-secret"])) == 64
    apps = AppsV1Api(api.core.api_client)
    before = apps.read_namespaced_deployment("sales-master", NAMESPACE)
    release("upgrade", "sales", str(CHART), "--values", str(settings))
    assert api.core.read_namespaced_secret("sales-cluster-secret", NAMESPACE).data == secret.data
    after = apps.read_namespaced_deployment("sales-master", NAMESPACE)
    annotations = [each.spec.template.metadata.annotations for each in (before, after)]
    assert annotations[0] != annotations[1], "another configuration starts the masters anew"
    for name in ("sales-master", "sales-rest"):  # No controller makes their pods here.
        template = api.core.api_client.sanitize_for_serialization(apps.read_namespaced_deployment(name, NAMESPACE).spec.template)
        api.core.create_namespaced_pod(NAMESPACE, template | {"metadata": template["metadata"] | {"name": name}}, dry_run="All")
    files = api.core.read_namespaced_config_map("sales", NAMESPACE).data
    worker = yaml.safe_load(files["pod.yaml"])
    worker["spec"]["containers"][0]["image"] = "eventflink:1"
    api.core.create_namespaced_pod(NAMESPACE, worker | {"metadata": {"name": "orders-worker-1"}}, dry_run="All")
    release("uninstall", "sales")
    assert api.core.read_namespaced_secret("sales-cluster-secret", NAMESPACE).data == secret.data
    with pytest.raises(ApiException):
        api.core.read_namespaced_config_map("sales", NAMESPACE)
