"""The registry, the server and what they promise: bounds in time and number, one failure costs one collector, nothing is global."""

import asyncio
import contextlib
import http.client
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import prometheus_client
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from eventflink.metrics import metric_catalogue as c
from eventflink.metrics import registry as registry_module
from eventflink.metrics.definitions import Histogram, MetricType
from eventflink.metrics.registry import MetricRegistry, Samples, ask_directly
from eventflink.metrics.server import MAX_SCRAPES, MetricsServer, NoFreePort, ServerSettings
from eventflink.metrics.service import new_registry, serve_metrics
from eventflink.metrics.threads import dump_threads, profile
from eventflink.model.configuration import ConfigurationError, build_configuration
from eventflink.model.metric_settings import MetricScope, read_ports, scope_labels
from tests.support.running_cluster import wait_until
from tests.support.scrapes import Scrape, get, scrape_address, scrape_registry

FAILURES = "eventflink_metrics_collector_failures_total"


def registry_of(**configuration: Any) -> MetricRegistry:
    keys = {"cluster.id": "cell", "taskmanager.host": "here", "data.directory": "/", **configuration}
    return new_registry(build_configuration(keys, "test"), MetricScope.JOBMANAGER, {"jm_id": "m-1"})


@contextlib.contextmanager
def serving(registry: MetricRegistry, **settings: Any) -> Iterator[str]:
    server = MetricsServer(registry, ServerSettings("127.0.0.1", (0,), **settings))
    try:
        yield f"127.0.0.1:{server.start()}"
    finally:
        server.stop()


# -- the configuration ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ports"),
    [("", []), ("0", [0]), ("9249", [9249]), ("9249-9251", [9249, 9250, 9251]), ("9249,9260", [9249, 9260]), ("65535", [65_535])],
)
def test_ports_are_one_or_a_range(text: str, ports: list[int]) -> None:
    assert list(read_ports(text)) == ports


@pytest.mark.parametrize("text", ["9250-9249", "x", "65536", "9249-", "0-3", "9249,", "-1", "9249-70000"])
def test_other_ports_are_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"metrics\.reporter\.prom\.port: (invalid ports: )?'"):
        build_configuration({"metrics.reporter.prom.port": text}, "test")


def test_a_port_may_be_a_number() -> None:
    assert build_configuration({"metrics.reporter.prom.port": 9249}, "test").metrics_ports == "9249"


def test_the_variables_of_a_scope_format_are_labels() -> None:
    assert scope_labels(MetricScope.TASKMANAGER, "<host>.taskmanager.<tm_id>") == ("host", "tm_id")
    assert scope_labels(MetricScope.JOBMANAGER, "") == ()


@pytest.mark.parametrize(
    ("key", "text", "wrong"),
    [
        ("metrics.scope.jm", "<tm_id>", "<tm_id> is not a variable of this scope: <cluster_id>, <host>, <jm_id>"),
        ("metrics.scope.jm", "production.<host>", "'production' can be no part of it"),
        ("metrics.scope.tm", "<host>.<host>", "<host> stands in it twice"),
        ("metrics.scope.jm-job", "<host>.jobmanager.<job_name>", "<job_id> must stand in it"),
        ("metrics.scope.task", "<job_id>.<task_id>.<subtask_index>", "<task_attempt_num> must stand in it"),
    ],
)
def test_a_scope_format_that_cannot_be_is_refused_by_name(key: str, text: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"{key}: {wrong}")):
        build_configuration({key: text}, "test")


def test_labels_are_as_the_scope_formats_say() -> None:
    registry = registry_of(**{"metrics.scope.jm": "<jm_id>", "metrics.scope.jm-job": "<job_id>"})
    registry.add_source(
        "some",
        ask_directly,
        {"a": lambda _, s: s.add(c.EPOCH, 3), "b": lambda _, s: s.add(c.JOB_AGE, 4, scope={"job_id": "j", "job_name": "n"})},
    )
    labels = {s.name: s.labels for s in scrape_registry(registry).samples}
    assert labels["eventflink_jobmanager_epoch"] == {"jm_id": "m-1"}
    assert labels["eventflink_jobmanager_job_age_seconds"] == {"job_id": "j"}
    assert labels["process_open_fds"] == labels["eventflink_process_threads"] == {"jm_id": "m-1"}


# -- collecting -----------------------------------------------------------------------------------------------------


def test_the_process_and_its_host_are_told() -> None:
    scrape = scrape_registry(registry_of())
    assert scrape.one("eventflink_process_threads") >= 1
    assert 1e6 < scrape.one("process_resident_memory_bytes") < 1e11
    assert scrape.one("process_open_fds") <= scrape.one("process_max_fds")
    assert scrape.one("eventflink_host_memory_available_bytes") < scrape.one("eventflink_host_memory_bytes")
    assert scrape.one("eventflink_host_data_directory_free_bytes") < scrape.one("eventflink_host_data_directory_bytes")
    assert scrape.one("eventflink_host_cpus") >= 1
    assert scrape.one("eventflink_host_cpu_seconds_total", mode="user") > 0
    assert len(scrape.values("eventflink_host_load_average")) == 3
    quiet = scrape_registry(registry_of(**{"metrics.system-resource": False})).names
    assert "eventflink_process_threads" in quiet
    assert not {name for name in quiet if name.startswith("eventflink_host_")}


def test_a_data_directory_that_is_not_there_yet_has_the_disk_on_which_it_will_be() -> None:
    scrape = scrape_registry(registry_of(**{"data.directory": "/not/there/yet"}))
    assert scrape.one("eventflink_host_data_directory_bytes") > 0


def test_the_global_registry_is_not_touched() -> None:
    before = prometheus_client.generate_latest()
    registry = registry_of()
    registry.add_source("some", ask_directly, {"epoch": lambda _, s: s.add(c.EPOCH, 3)})
    scrape_registry(registry)
    assert b"eventflink" not in before + prometheus_client.generate_latest()


def test_a_histogram_is_told_in_cumulative_buckets() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.observe(value)
    registry = registry_of()
    registry.add_source("some", ask_directly, {"h": lambda _, s: s.add_histogram(c.DECIDE_LATENCY, histogram)})
    scrape = scrape_registry(registry)
    name = "eventflink_jobmanager_decide_latency_seconds"
    assert [scrape.one(f"{name}_bucket", le=le) for le in ("0.1", "1.0", "+Inf")] == [2, 3, 4]
    assert scrape.one(f"{name}_count") == 4
    assert scrape.one(f"{name}_sum") == pytest.approx(7.65)


def test_wrong_labels_are_the_collectors_failure(caplog: pytest.LogCaptureFixture) -> None:
    registry = registry_of()
    registry.add_source("some", ask_directly, {"wrong": lambda _, s: s.add(c.EPOCH, 3, "what"), "right": lambda _, s: s.add(c.RANK, 1)})
    scrape_registry(registry)
    time.sleep(0.25)
    scrape = scrape_registry(registry)
    assert scrape.by("collector", FAILURES) == {"wrong": 2}
    assert scrape.one("eventflink_jobmanager_rank") == 1
    assert len([r for r in caplog.records if "MetricsNotCollected collector=wrong" in r.message]) == 1


def test_what_is_asked_later_fails_alone() -> None:
    def collect(_: None, samples: Samples) -> None:
        samples.add(c.EPOCH, 3)
        samples.later += [lambda s: s.add(c.RANK, 1), lambda s: s.add(c.EPOCH, 1, "too", "many")]

    registry = registry_of()
    registry.add_source("some", ask_directly, {"two": collect})
    scrape = scrape_registry(registry)
    assert (scrape.one("eventflink_jobmanager_epoch"), scrape.one("eventflink_jobmanager_rank")) == (3, 1)
    assert scrape.by("collector", FAILURES) == {"two": 1}


def test_a_source_that_never_answers_is_waited_for_once_and_asked_once() -> None:
    asked: list[Callable[[None], Any]] = []

    def never(work: Callable[[None], Any]) -> "Future[Any]":
        asked.append(work)
        return Future()

    registry = registry_of()
    registry.add_source("deaf", never, {"epoch": lambda _, s: s.add(c.EPOCH, 3)})
    registry.add_source("good", ask_directly, {"rank": lambda _, s: s.add(c.RANK, 1)})
    for number in (1, 2):
        began = time.monotonic()
        scrape = scrape_registry(registry)
        assert time.monotonic() - began > 0.9
        assert scrape.by("collector", FAILURES) == {"deaf": number}
        assert scrape.one("eventflink_jobmanager_rank") == 1
        time.sleep(0.25)
    assert len(asked) == 1


def test_scrapes_in_quick_succession_share_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "SHARED_S", 60)
    counts: list[int] = []
    registry = registry_of()

    def count(_: None, samples: Samples) -> None:
        counts.append(1)
        samples.add(c.EPOCH, len(counts))

    registry.add_source("some", ask_directly, {"epoch": count})
    assert [scrape_registry(registry).one("eventflink_jobmanager_epoch") for _ in range(5)] == [1] * 5
    monkeypatch.setattr(registry_module, "SHARED_S", 0)
    assert scrape_registry(registry).one("eventflink_jobmanager_epoch") == 2


def test_names_are_as_prometheus_wants_them() -> None:
    assert len({metric.name for metric in c.METRICS}) == len(c.METRICS)
    for metric in c.METRICS:
        assert re.fullmatch(r"(eventflink|process|python)_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.metric_type is MetricType.COUNTER), metric.name
        assert not set(metric.labels) & set(metric.scope.variables)


# -- serving --------------------------------------------------------------------------------------------------------


def test_it_serves_prometheus_text_and_openmetrics() -> None:
    with serving(registry_of()) as address:
        status, content_type, _ = get(address, "/metrics")
        assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert scrape_address(address).one("eventflink_process_threads") > 1
        _, content_type, text = get(address, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert content_type.startswith("application/openmetrics-text")
        assert "process_cpu_seconds" in {family.name for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]
        assert get(address, "/")[0] == get(address, "/nothing")[0] == 404


def test_the_first_free_port_of_the_range_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = MetricsServer(registry_of(), ServerSettings("127.0.0.1", range(port, port + 20)))
        try:
            assert port < server.start() < port + 20
        finally:
            server.stop()
        with pytest.raises(NoFreePort, match=f"metrics.reporter.prom.port {port}: .*127.0.0.1"):
            MetricsServer(registry_of(), ServerSettings("127.0.0.1", range(port, port + 1))).start()


@pytest.mark.parametrize(("bound", "others_ask"), [("127.0.0.1", "127.0.0.1"), ("localhost", "localhost"), ("0.0.0.0", "worker-1")])
def test_the_address_that_others_are_told_is_one_that_answers(bound: str, others_ask: str) -> None:
    server = MetricsServer(registry_of(), ServerSettings(bound, range(1)))
    try:
        port = server.start()
        assert server.address_by("worker-1") == f"{others_ask}:{port}"
    finally:
        server.stop()


def test_metrics_that_cannot_be_served_stop_nobody(caplog: pytest.LogCaptureFixture) -> None:
    keys = {"metrics.reporter.prom.port": "1-2", "metrics.reporter.prom.bind-host": "192.0.2.1"}
    assert serve_metrics(registry_of(), build_configuration(keys, "test")) is None
    assert "MetricsNotServed" in caplog.text


def test_scrapes_under_way_are_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventflink.metrics.server.SCRAPE_TIMEOUT_S", 0.5)
    release = threading.Event()
    registry = registry_of()
    registry.add_source("slow", ask_directly, {"slow": lambda _, __: release.wait(20)})  # type: ignore[dict-item]
    with serving(registry) as address:
        answers: list[int] = []
        threads = [threading.Thread(target=lambda: answers.append(get(address, "/metrics")[0])) for _ in range(MAX_SCRAPES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [504] * MAX_SCRAPES
        assert get(address, "/metrics")[0] == 503  # They were given up, but their threads still wait.
        release.set()
        wait_until(lambda: get(address, "/metrics")[0] == 200, "it answers again")


def test_stacks_and_profiles_are_refused_unless_they_are_allowed() -> None:
    with serving(registry_of()) as address:
        for path, key in (("/threads", "metrics.thread-dump.enabled"), ("/profile?seconds=0.1", "metrics.profiler.enabled")):
            status, _, text = get(address, path)
            assert status == 403
            assert key in text
    with serving(registry_of(), thread_dump=True, profiler=True, max_profile_s=2) as address:
        assert "Thread" in get(address, "/threads")[2]
        assert get(address, "/profile?seconds=0.1&clock=wall")[0] == 200
        for path in ("/profile?seconds=3", "/profile?seconds=0", "/profile?seconds=nan", "/profile?seconds=x", "/profile?clock=sun"):
            assert get(address, path)[0] == 400, path


def get_or_lose(address: str, path: str) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        get(address, path)


def test_one_profile_at_a_time_and_none_outlives_its_server() -> None:
    def is_made() -> bool:
        return any(thread.name.startswith("metrics-profile") for thread in threading.enumerate())

    with serving(registry_of(), profiler=True, max_profile_s=60) as address:
        asking = threading.Thread(target=lambda: get_or_lose(address, "/profile?seconds=50&clock=wall"))
        asking.start()
        wait_until(is_made, "a profile is made")
        assert get(address, "/profile?seconds=1")[0] == 503
        assert get(address, "/metrics")[0] == 200
    asking.join(40)
    assert not asking.is_alive()
    wait_until(lambda: not is_made(), "it is made no more")


# -- threads --------------------------------------------------------------------------------------------------------


def spin(ended: threading.Event) -> None:
    while not ended.is_set():
        sum(range(1_000))


@contextlib.contextmanager
def busy_and_idle() -> Iterator[None]:
    ended = threading.Event()
    threads = [threading.Thread(target=spin, args=(ended,), name="busy; one"), threading.Thread(target=ended.wait, name="idle")]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_thread_dump_shows_every_thread_where_it_is() -> None:
    with busy_and_idle():
        text = dump_threads()
    assert re.search(r'Thread \d+ "busy; one" native_id=\d+\n(.*\n)*?.*in spin\n', text)
    assert '"idle"' in text
    assert "(writes this dump)" in text


def test_a_profile_of_the_processor_shows_who_computes_and_not_who_waits() -> None:
    with busy_and_idle():
        began = time.process_time()
        text = profile(0.6, "cpu", threading.Event())
        used_us = (time.process_time() - began) * 1e6
    weights = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in text.splitlines()}
    assert next(iter(weights)).startswith("busy,_one;")
    assert any(":spin" in stack for stack in weights)
    assert not any(stack.startswith("idle;") for stack in weights)
    assert 0 < sum(weights.values()) <= 1.2 * used_us + 50_000


def test_the_main_thread_of_a_process_that_was_forked_is_seen_at_work() -> None:
    """Python's id of it is that of the process that forked."""
    program = """if True:
        import os, threading
        from eventflink.metrics.threads import profile
        def work():
            while not ended.is_set():
                sum(range(1_000))
        if (child := os.fork()) == 0:
            ended = threading.Event()
            threading.Thread(target=lambda: (print(profile(0.5, "cpu", ended), flush=True), ended.set())).start()
            work()
        else:
            os.waitpid(child, 0)
    """
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True).stdout
    assert re.search(r"^MainThread;\S*:work \d+$", seen, re.MULTILINE), seen


def test_a_profile_by_the_wall_shows_who_waits_as_well() -> None:
    with busy_and_idle():
        text = profile(0.3, "wall", threading.Event())
    assert {line.partition(";")[0] for line in text.splitlines()} >= {"busy,_one", "idle"}


def test_a_hanging_loop_can_still_be_looked_at() -> None:
    """The server has a thread of its own: the dump says where the loop that should decide hangs."""
    release = threading.Event()

    async def hang() -> None:
        release.wait(20)

    def loop() -> None:
        asyncio.run(hang())

    thread = threading.Thread(target=loop, name="decides")
    with serving(registry_of(), thread_dump=True) as address:
        thread.start()
        try:
            wait_until(lambda: re.search(r'"decides".*\n(.*\n)*?.*in hang\n', get(address, "/threads")[2]), "it hangs", 15)
            assert Scrape.of(get(address, "/metrics")[2]).one("eventflink_process_threads") > 2
        finally:
            release.set()
            thread.join()


def test_the_access_log_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with serving(registry_of()) as address:
        scrape_address(address)
    assert [r.message.split()[0] for r in caplog.records] == ["MetricsServerStarted"]
