"""docker-compose.yml is one that Compose takes, as far as that can be said without a Docker engine: by the schema of its specification."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

COMPOSE_FILE = Path(__file__).parents[2] / "docker-compose.yml"


def check(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_compose_file_fits_the_specification() -> None:
    checked = check(COMPOSE_FILE)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("start_period: 5s", "start_periodd: 5s"), ("condition: service_healthy", "condition: healthy"), ("image:", "imag:")],
)
def test_a_mistake_in_it_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    text = COMPOSE_FILE.read_text()
    assert right in text
    broken.write_text(text.replace(right, wrong))
    checked = check(broken)
    assert (checked.returncode, "Schema validation errors" in checked.stdout) == (1, True)


def test_what_refers_to_another_part_of_it_finds_that() -> None:
    """The schema knows no references: a service, a port or a volume that is named and not there is found here."""
    document = yaml.safe_load(COMPOSE_FILE.read_text())
    services, redpanda = document["services"], document["services"]["redpanda"]
    console = services["console"]
    options = dict(part.removeprefix("--").split("=", 1) for part in redpanda["command"] if "=" in part)
    advertised = dict(address.split("://") for address in options["advertise-kafka-addr"].split(","))
    listening = {name: address.split(":")[1] for name, address in (part.split("://") for part in options["kafka-addr"].split(","))}
    published = {port.split(":")[2]: ":".join(port.split(":")[:2]) for port in (*redpanda["ports"], *console["ports"])}
    assert set(console["depends_on"]) <= set(services)
    assert all("healthcheck" in services[name] for name, d in console["depends_on"].items() if d["condition"] == "service_healthy")
    assert console["environment"]["KAFKA_BROKERS"] == advertised["internal"] == f"redpanda:{listening['internal']}"
    assert console["environment"]["SCHEMAREGISTRY_URLS"] == f"http://redpanda:{options['schema-registry-addr'].split(':')[1]}"
    assert advertised["external"] == f"localhost:{published[listening['external']].split(':')[1]}"
    assert {volume.split(":")[0] for volume in redpanda["volumes"]} == set(document["volumes"])
    assert all(host.startswith("127.0.0.1:") for host in published.values())
