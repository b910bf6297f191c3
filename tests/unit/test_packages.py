"""What this package requires: each import is declared, and an import that is missing says which extra brings it."""

import ast
import importlib.metadata
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from eventflink.cli.exit_codes import explain
from eventflink.cli.failures import ExitCode
from eventflink.model.packages import PackageMissing, needs

PACKAGE = Path(__file__).parents[2] / "eventflink"
UNDECLARED = {
    "_typeshed": "for types alone",
    "pydantic_core": "pydantic pins it",
    "pytest": "it loads the plugin, not the other way round",
}

NOT_INSTALLED = {"airflow": ["apache-airflow"], "dagster": ["dagster"], "dagster_pipes": ["dagster-pipes"]}
"""What the extras of programs bring that run elsewhere: they are not installed beside these tests."""


def imported_modules() -> dict[str, str]:
    """Return the top-level modules of others that the package imports, each with a file that does."""
    found: dict[str, str] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            found.update({name.partition(".")[0]: str(file.relative_to(PACKAGE)) for name in names})
    return {name: file for name, file in found.items() if name not in sys.stdlib_module_names | {"eventflink"}}


def test_each_package_that_is_imported_is_declared() -> None:
    declared = {canonicalize_name(Requirement(each).name) for each in importlib.metadata.requires("eventflink") or []}
    providers = {**NOT_INSTALLED, **importlib.metadata.packages_distributions()}
    undeclared = {
        module: file
        for module, file in imported_modules().items()
        if module not in UNDECLARED and not declared & {canonicalize_name(each) for each in providers.get(module, [])}
    }
    assert undeclared == {}


@pytest.mark.parametrize("module", ["duckdb", "fastapi", "faust", "grpc", "pyspark.sql", "kazoo.client"])
def test_an_optional_package_that_is_missing_says_how_to_install_it(module: str) -> None:
    with pytest.raises(PackageMissing) as caught, needs("audit", "'eventflink audit'"):
        raise ModuleNotFoundError(name=module)
    top = module.partition(".")[0]
    message = f"'eventflink audit' needs {top}, which is not installed: pip install 'eventflink[audit]'"
    assert explain(caught.value) == (ExitCode.ENVIRONMENT, message)


@pytest.mark.parametrize("module", ["my_job", "eventflink.nothing", "click", ""])
def test_a_module_that_no_extra_brings_stays_the_error_that_it_is(module: str) -> None:
    with pytest.raises(ModuleNotFoundError), needs("audit"):
        raise ModuleNotFoundError(name=module or None)
