"""Tables of Iceberg in a catalogue that is one file, read by pyiceberg alone, which knows nothing of us."""

from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from eventflink.model.iceberg_catalogs import IcebergCatalog
from eventflink.model.references import resolve

CATALOG = "lake"
TABLE = "shop.sales"


def catalog_in(directory: Path) -> IcebergCatalog:
    """Return a catalogue whose tables are below a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    return IcebergCatalog(
        CATALOG, {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/warehouse"}
    )


def configured(catalog: IcebergCatalog) -> dict[str, str]:
    """Return the keys of the configuration that name a catalogue."""
    return {f"iceberg.catalogs.{catalog.name}.{key}": value for key, value in catalog.properties.items()}


def loaded(catalog: IcebergCatalog) -> Catalog:
    return load_catalog(catalog.name, **{key: resolve(key, value) for key, value in catalog.properties.items()})


def table_of(catalog: IcebergCatalog, name: str = TABLE) -> Table:
    return loaded(catalog).load_table(name)


def rows_of(catalog: IcebergCatalog, name: str = TABLE) -> list[dict[str, Any]]:
    """Return all rows; of a table that is not there yet none."""
    try:
        rows: list[dict[str, Any]] = table_of(catalog, name).scan().to_arrow().to_pylist()
    except NoSuchTableError:
        return []
    return rows


def numbers_of(catalog: IcebergCatalog, name: str = TABLE) -> list[int]:
    """Return the column `number` of all rows, in order."""
    return sorted(row["number"] for row in rows_of(catalog, name))
