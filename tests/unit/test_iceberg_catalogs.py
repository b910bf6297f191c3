"""The catalogues of Iceberg that a task may name: found by name, with secrets that are read where they are used."""

import sys
from pathlib import Path

import pytest

from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.secret_masks import hide, masked
from eventflink.streams.failures import SinkUnavailable, TableUnusable
from eventflink.streams.iceberg_catalogs import load_named_catalog


def test_a_catalogue_is_loaded_with_its_secrets_which_nothing_shows(tmp_path: Path) -> None:
    reference = tmp_path / "uri"
    reference.write_text(f"sqlite:///{tmp_path}/catalog.db")
    reference.chmod(0o600)
    lake = IcebergCatalog("lake", {"type": "sql", "uri": f"${{file:{reference}}}"})
    catalog = load_named_catalog([IcebergCatalog("other", {"type": "sql"}), lake], "lake", hide)
    assert (catalog.name, catalog.list_namespaces()) == ("lake", [])
    assert masked(f"of sqlite:///{tmp_path}/catalog.db") == "of ***"


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"type": "sql", "uri": "${file:/nowhere/uri}"}, r"iceberg\.catalogs\.lake\.uri: /nowhere/uri cannot be read"),
        ({"type": "puddle"}, r"iceberg\.catalogs\.lake: pyiceberg makes no catalogue of these keys: 'puddle' is not a valid CatalogType"),
        ({"type": "sql"}, r"iceberg\.catalogs\.lake: pyiceberg makes no catalogue of these keys: .*uri"),
        ({"type": "hive", "uri": "thrift://nowhere:1"}, r"iceberg\.catalogs\.lake: pyiceberg makes no catalogue of these keys: .*hive"),
    ],
)
def test_what_makes_no_catalogue_is_told_with_its_keys(properties: dict[str, str], says: str) -> None:
    with pytest.raises(TableUnusable, match=says):
        load_named_catalog([IcebergCatalog("lake", properties)], "lake", hide)


def test_a_catalogue_that_does_not_answer_may_do_so_for_the_next_attempt() -> None:
    lake = IcebergCatalog("lake", {"type": "rest", "uri": "http://127.0.0.1:9"})
    with pytest.raises(SinkUnavailable, match="the catalogue of Iceberg 'lake' failed: ConnectionError: "):
        load_named_catalog([lake], "lake", hide)


def test_a_name_that_no_catalogue_has_is_told_with_those_that_there_are_and_a_missing_package_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(TableUnusable, match="catalogue of Iceberg 'pond' not found: this TaskExecutor has none; name one of these, or add"):
        load_named_catalog([], "pond", hide)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyiceberg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    says = r"a table of Iceberg needs pyiceberg, which is not installed: pip install 'eventflink\[iceberg\]', where TaskExecutors are"
    with pytest.raises(TableUnusable, match=says):
        load_named_catalog([IcebergCatalog("lake", {"type": "sql"})], "lake", hide)
