"""The dashboard's files are served from memory, each with its type and tag; its pages are one document; nothing else can be asked for."""

import base64
import hashlib
import re
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from eventflink.rest.dashboard_files import dashboard_files, import_map_hash
from tests.support.cluster import new_fold
from tests.support.rest_client import rest_client

PAGE = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def client() -> Iterator[TestClient]:
    with rest_client(new_fold()) as client:
        yield client


def test_the_root_leads_to_the_dashboard(client: TestClient) -> None:
    answer = client.get("/", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/ui/")
    assert "<!doctype html>" in client.get("/").text


def test_a_file_has_its_type_and_is_not_sent_again_to_who_has_it(client: TestClient) -> None:
    answer = client.get("/ui/theme.css")
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert client.get("/ui/app.js").headers["content-type"] == "text/javascript; charset=utf-8"
    again = client.get("/ui/theme.css", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_address_of_a_page_is_answered_with_the_document_and_that_of_a_missing_file_is_not(client: TestClient) -> None:
    assert client.get("/ui/jobs/some.job.js/graph", headers=PAGE).text == client.get("/ui/").text
    assert client.get("/ui/pages/missing.js").status_code == 404


@pytest.mark.parametrize(
    "path", ["../application.py", "..%2fapplication.py", "%2e%2e/application.py", "/etc/passwd", "vendor/../../server.py"]
)
def test_no_path_leads_out_of_the_dashboard(client: TestClient, path: str) -> None:
    answer = client.get(f"/ui/{path}")
    assert answer.status_code == 404
    assert "errors" in answer.json() or "detail" in answer.json()


def test_vendored_libraries_are_what_their_sums_say_and_have_their_licences() -> None:
    from importlib.resources import files  # noqa: PLC0415 - what is on the disk, not what is served

    vendor = files("eventflink.rest") / "dashboard" / "vendor"
    lines = (line.split("  ") for line in (vendor / "SHA256SUMS").read_text().splitlines())
    sums = {name: digest for digest, name in lines}
    there = {f"{folder.name}/{file.name}": file for folder in vendor.iterdir() if folder.is_dir() for file in folder.iterdir()}
    assert {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in there.items()} == sums
    assert {name.partition("/")[0] for name in sums} == {name.partition("/")[0] for name in sums if name.endswith("/LICENSE")}


def test_the_import_map_leads_to_files_and_its_hash_is_that_of_the_script(client: TestClient) -> None:
    document = client.get("/ui/").text
    [script] = re.findall(r'<script type="importmap">(.*?)</script>', document, re.DOTALL)
    assert import_map_hash() == f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
    assert all(client.get(path).status_code == 200 for path in re.findall(r'"(/ui/[^"]+)"', document))


def test_every_module_that_is_imported_is_there() -> None:
    """A name that is mistyped would be found by whoever opens that page first."""
    served = dashboard_files()
    for name, file in served.items():
        if not name.endswith(".js") or name.startswith("vendor/"):
            continue
        for imported in re.findall(r"""(?:from|import)\s*\(?["'](\.[^"']+)["']""", file.content.decode()):
            parts = name.split("/")[:-1]
            for part in imported.split("/"):
                parts = parts[:-1] if part == ".." else parts if part == "." else [*parts, part]
            assert "/".join(parts) in served, f"{name} imports {imported}"
