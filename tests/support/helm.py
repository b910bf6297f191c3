"""Helm, and the chart of conf/: what it makes of it, and the plain manifest that is made of it for those who have no Helm.

`python -m tests.support.helm` builds Helm from its Go module, once, into the user's cache, and writes conf/kubernetes/eventflink.yaml.
Tests of the chart are skipped where it was not built.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from eventflink.local.jars import default_cache_directory

VERSION: Final = "3.22.0"
HELM: Final = default_cache_directory() / "kubernetes" / f"helm-{VERSION}"
CHART: Final = Path(__file__).parents[2] / "conf/kubernetes/chart"
MANIFEST: Final = CHART.with_name("eventflink.yaml")
_BUILD_S: Final = 3_600.0
_ANSWER_S: Final = 300.0
_OF_HELM: Final = re.compile("^# Source:|Another configuration|checksum/|helm.sh/|/managed-by")
"""What is said in a release alone."""
_HEAD: Final = """\
# A cluster on Kubernetes: two masters, which have a pod started for each TaskExecutor, and a REST process (docs/resource-drivers.md).
#
#   kubectl create secret generic eventflink-cluster-secret --from-literal=cluster-secret="$(openssl rand -hex 32)"
#   kubectl create secret generic eventflink-store --from-literal=AWS_ACCESS_KEY_ID=… --from-literal=AWS_SECRET_ACCESS_KEY=…
#   kubectl apply -f conf/kubernetes/eventflink.yaml
#   kubectl port-forward deployment/eventflink-rest 8081         # the dashboard, on http://localhost:8081
#
# To be set before: the image (three times; the Dockerfile makes it), bootstrap.servers, and the bucket. Who has Helm installs the chart
# beside this file, of which `python -m tests.support.helm` makes it.
"""


def why_not() -> str:
    """Return why there is no Helm here; empty: there is one."""
    return "" if HELM.is_file() else "no Helm was built: python -m tests.support.helm"


def helm(*arguments: str, kubectl_configuration: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Helm, and return what it says."""
    environment = os.environ | ({"KUBECONFIG": str(kubectl_configuration)} if kubectl_configuration is not None else {})
    return subprocess.run([HELM, *arguments], env=environment, capture_output=True, text=True, timeout=_ANSWER_S, check=False)


def manifest() -> str:
    """Return the chart with its own values as one file, whose secret others make."""
    rendered = helm("template", "eventflink", str(CHART), "--set", "clusterSecret.existing=eventflink-cluster-secret")
    rendered.check_returncode()
    lines = [line for line in rendered.stdout.splitlines(keepends=True) if not _OF_HELM.search(line)]
    return _HEAD + "".join(lines).removeprefix("---\n")


def _build() -> None:
    if HELM.is_file():
        return
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | {"CGO_ENABLED": "0", "GOBIN": scratch}
        subprocess.run(["go", "install", f"helm.sh/helm/v3/cmd/helm@v{VERSION}"], env=environment, check=True, timeout=_BUILD_S)
        HELM.parent.mkdir(parents=True, exist_ok=True)
        part = HELM.with_suffix(f".{os.getpid()}.part")
        part.write_bytes((Path(scratch) / "helm").read_bytes())
        part.chmod(0o755)
        part.replace(HELM)


if __name__ == "__main__":
    _build()
    MANIFEST.write_text(manifest(), encoding="utf-8")
