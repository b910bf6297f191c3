"""What is read of the cluster as a whole and of its TaskManagers has the numbers of the state, in Flink's shapes, and no secrets."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from eventflink.events.codec import PayloadCodec
from eventflink.events.inputs import Canary, Heartbeat, TaskManagerRegistration
from eventflink.events.seal import NO_SEALS
from eventflink.model.resources import Hardware, ResourceProfile
from eventflink.reader import heartbeats
from eventflink.rest.application import build_application
from eventflink.rest.flink.metrics import aggregate, aggregation_modes
from tests.support.cluster import START_MS, ScriptedCluster, graph, replay, vertex
from tests.support.rest_client import commanding_client, dispatcher_of, rest_client, services_with
from tests.support.scenarios import busy_cluster

KNOWN_TO_NOBODY = {"cpuCores": -1.0, "taskHeapMemory": -1, "taskOffHeapMemory": -1, "managedMemory": -1, "networkMemory": -1}


@pytest.fixture(scope="module")
def cluster() -> ScriptedCluster:
    cluster = busy_cluster()
    cluster.block("tm2")
    return cluster


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[TestClient]:
    with rest_client(replay(cluster.log)) as client:
        yield client


def test_a_dashboard_learns_what_it_may_offer(client: TestClient) -> None:
    answer = client.get("/config").json()
    assert answer["refresh-interval"] == 3000
    assert answer["flink-version"] == client.get("/overview").json()["flink-version"] == "2.3.0-eventflink"
    assert (answer["features"]["web-submit"], answer["features"]["web-cancel"]) == (True, True)
    assert answer["timezone-offset"] % 60_000 == 0


def test_an_overview_has_the_numbers_of_the_lists(client: TestClient, cluster: ScriptedCluster) -> None:
    overview = client.get("/overview").json()
    managers = client.get("/taskmanagers").json()["taskmanagers"]
    jobs = [job["status"] for job in client.get("/jobs").json()["jobs"]]
    assert overview["taskmanagers"] == len(managers) == len(cluster.master.resource_manager.task_managers)
    assert overview["slots-total"] == sum(row["slotsNumber"] for row in managers)
    assert overview["slots-available"] == sum(row["freeSlots"] for row in managers)
    [blocked] = [row for row in managers if row["blocked"]]
    assert (overview["taskmanagers-blocked"], overview["slots-free-and-blocked"]) == (1, blocked["freeSlots"])
    assert overview["jobs-finished"] == jobs.count("FINISHED") > 0
    assert overview["jobs-running"] == len([job for job in jobs if job not in ("FINISHED", "FAILED", "CANCELED")]) > 0


def test_a_task_manager_has_the_resources_of_its_slots_and_the_slots_of_jobs(client: TestClient) -> None:
    rows = {row["id"]: row for row in client.get("/taskmanagers").json()["taskmanagers"]}
    assert rows["tm2"]["totalResource"]["cpuCores"] == 1.0
    assert rows["tm2"]["totalResource"]["taskHeapMemory"] == 1024
    assert rows["tm1"]["totalResource"] == KNOWN_TO_NOBODY | {"extendedResources": {}}
    assert rows["tm4"]["totalResource"]["extendedResources"] == {"tpu": 3.0}
    for name, row in rows.items():
        details = client.get(f"/taskmanagers/{name}").json()
        slots = details["allocatedSlots"]
        assert {key: details[key] for key in row} == row
        assert len(slots) == row["slotsNumber"] - row["freeSlots"]
        assert sum(slot["assignedTasks"] for slot in slots) == row["assignedTasks"]
    sharing = [slot for slot in client.get("/taskmanagers/tm4").json()["allocatedSlots"] if slot["jobId"] == "sharing"]
    assert [slot["resource"]["extendedResources"] for slot in sharing] == [{"tpu": 3.0}]


def test_a_task_manager_has_the_hardware_that_it_said_and_its_newest_heartbeat() -> None:
    cluster = ScriptedCluster()
    place = ("tm", "tm-1", "h", 1, 2)
    cluster.say(
        TaskManagerRegistration(*place, slot_profile=ResourceProfile(managed_bytes=1 << 30), hardware=Hardware(8, 64 << 30, 20 << 30))
    )
    cluster.register("silent")
    dispatcher = dispatcher_of(cluster)
    services = services_with(dispatcher.state, dispatcher, {})
    client = TestClient(build_application(services), base_url="http://localhost")
    codec = PayloadCodec("HeartbeatEnvelope")

    def heard() -> dict[str, int]:
        return {row["id"]: row["timeSinceLastHeartbeat"] for row in client.get("/taskmanagers").json()["taskmanagers"]}

    registered = {name: known.registered_at_ms for name, known in cluster.master.resource_manager.task_managers.items()}
    assert heard() == registered
    beats = [
        codec.encode(each) for each in (Canary("leader", 1), Heartbeat("tm", "tm-1", 1, 2, 0), Heartbeat("silent", "silent-0", 1, 2, 0))
    ]
    services.heartbeats.take([(START_MS + 60_000, value) for value in (b"no heartbeat", *beats)])
    assert heard() == {"tm": START_MS + 60_000, "silent": registered["silent"]}
    details = client.get("/taskmanagers/tm").json()
    assert details["timeSinceLastHeartbeat"] == START_MS + 60_000
    assert details["hardware"] == {"cpuCores": 8, "physicalMemory": 64 << 30, "freeMemory": 20 << 30, "managedMemory": 2 << 30}
    assert set(client.get("/taskmanagers/silent").json()["hardware"].values()) == {-1}
    page = client.get("/eventflink/v1/task_managers/tm").json()["body"]
    assert page["hardware"] == {"cpu_cores": 8, "physical_bytes": 64 << 30, "available_bytes": 20 << 30}


def test_of_instances_that_beat_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "MAX_INSTANCES", 2)
    codec, heard = PayloadCodec("HeartbeatEnvelope"), heartbeats.Heartbeats(NO_SEALS)
    heard.take([(number, codec.encode(Heartbeat("tm", instance, 1, 1, 0))) for number, instance in enumerate(("a", "b", "a", "c"), 1)])
    assert [heard.newest_of(instance) for instance in "abc"] == [3, None, 4]


@pytest.mark.parametrize("path", ["/taskmanagers/nobody", "/taskmanagers/nobody/metrics"])
def test_an_unknown_task_manager_is_not_found(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (404, {"errors": ["TaskManager not found: 'nobody' is not registered"]})


def test_metrics_are_named_and_those_that_are_asked_for_have_values(client: TestClient) -> None:
    overview = client.get("/overview").json()
    names = client.get("/jobmanager/metrics").json()
    assert {"id": "taskSlotsTotal"} in names
    assert all(set(name) == {"id"} for name in names)
    asked = client.get("/jobmanager/metrics", params={"get": "numRunningJobs,nothing,taskSlotsAvailable,numRunningJobs"}).json()
    assert asked == [
        {"id": "numRunningJobs", "value": str(overview["jobs-running"])},
        {"id": "taskSlotsAvailable", "value": str(overview["slots-available"])},
    ]
    assert client.get("/taskmanagers/tm1/metrics?get=taskSlotsTotal").json() == [{"id": "taskSlotsTotal", "value": "6"}]


def test_metrics_of_task_managers_are_aggregated_as_is_asked(client: TestClient) -> None:
    assert {"id": "taskSlotsTotal"} in client.get("/taskmanagers/metrics").json()
    [both] = client.get("/taskmanagers/metrics?get=taskSlotsTotal&taskmanagers=tm1,tm2,nobody").json()
    assert both == {"id": "taskSlotsTotal", "min": 2.0, "max": 6.0, "avg": 4.0, "sum": 8.0, "skew": 50.0}
    assert client.get("/taskmanagers/metrics?get=taskSlotsTotal&agg=max&taskmanagers=tm2").json() == [{"id": "taskSlotsTotal", "max": 2.0}]
    assert client.get("/taskmanagers/metrics?get=taskSlotsTotal&taskmanagers=nobody").json() == []
    answer = client.get("/taskmanagers/metrics?get=taskSlotsTotal&agg=median")
    assert answer.status_code == 400
    assert "there are min, max, sum, avg, skew" in answer.json()["errors"][0]


def test_values_that_are_all_nothing_are_not_skewed() -> None:
    [metric] = aggregate([{"a": 0.0}, {"a": 0.0}], "a", aggregation_modes("SKEW"))
    assert metric.skew == 0.0


def test_values_as_large_as_numbers_get_are_aggregated() -> None:
    [metric] = aggregate([{"a": 1e308}, {"a": 1e308}], "a", aggregation_modes("AVG,SKEW,MAX"))
    assert (metric.avg, metric.skew, metric.max) == (1e308, 0.0, 1e308)
    [metric] = aggregate([{"a": 1.5e308}, {"a": 0.5e308}], "a", aggregation_modes("AVG,SKEW"))
    assert (metric.avg, metric.skew) == (1e308, 50.0)


def test_the_configuration_is_shown_without_secrets(cluster: ScriptedCluster) -> None:
    secret = {
        "blob.storage.directory": "s3://me:hush@h/blobs",
        "spark.remote": "sc://h:1/;token=hush",
        "schema.registry.url": "http://me:hu@sh@h:1",
        "restart-strategy.type": "fixed-delay",
    }
    with rest_client(replay(cluster.log), **secret) as client:
        answer = client.get("/jobmanager/config")
        entries = {entry["key"]: entry["value"] for entry in answer.json()}
    assert entries["blob.storage.directory"] == "s3://******@h/blobs"
    assert entries["spark.remote"] == "sc://h:1/;token=******"
    assert entries["schema.registry.url"] == "http://******@h:1"
    assert entries["restart-strategy.type"] == "fixed-delay"
    assert entries["security.ssl.internal.enabled"] == "false"
    assert all(isinstance(value, str) for value in entries.values())


def test_the_environment_is_that_of_the_rest_process_and_says_so(client: TestClient) -> None:
    answer = client.get("/jobmanager/environment").json()
    assert "REST process" in answer["jvm"]["version"]
    assert answer["classpath"]
    threads = client.get("/jobmanager/thread-dump").json()["threadInfos"]
    assert "MainThread" in [thread["threadName"] for thread in threads]
    assert all(thread["stringifiedThreadInfo"].startswith("Thread ") for thread in threads)
    assert client.get("/jobmanager/logs").json() == {"logs": []}


def test_lists_of_what_no_job_leaves_are_empty(client: TestClient) -> None:
    assert client.get("/datasets").json() == {"dataSets": []}
    assert client.get("/jars").json() == {"address": "http://localhost", "files": []}


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("POST", "/jobs", 501, "POST /jars/upload takes a bundle"),
        ("PATCH", "/jobs/running/clientHeartbeat", 501, "does not end with its client"),
        ("DELETE", "/datasets/none", 404, "data set not found: 'none'"),
        ("GET", "/datasets/delete/none", 404, "operation not found: 'none'"),
        ("GET", "/jobmanager/log", 404, "shows no logs"),
        ("GET", "/jobmanager/stdout", 404, "shows no logs"),
    ],
)
def test_what_makes_no_sense_here_says_so(client: TestClient, method: str, path: str, status: int, says: str) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert says in answer.json()["errors"][0]


def test_a_cluster_is_shut_down() -> None:
    cluster = ScriptedCluster()
    cluster.register("tm", slots=2)
    cluster.submit(graph(vertex("a")), job_id="job")
    with commanding_client(cluster) as client:
        answer = client.delete("/cluster")
        assert (answer.status_code, answer.json()) == (200, {})
        assert int(answer.headers["X-Eventflink-Offset"]) <= int(client.get("/overview").headers["X-Eventflink-Offset"])
    request = cluster.master.shutdown.request
    assert request is not None
    assert (request.actor, request.cancel_jobs) == ("rest (declared)", False)
