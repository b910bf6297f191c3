"""What loading Spark's client leaves out."""

import importlib
import sys
from types import ModuleType

import pytest

from eventflink.taskexecutor.spark_client import without_notebooks


@pytest.mark.parametrize("is_here", [False, True])
def test_ipython_is_not_loaded_with_spark_and_a_task_has_it_all_the_same(monkeypatch: pytest.MonkeyPatch, *, is_here: bool) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    if is_here:
        monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    with without_notebooks():
        if is_here:
            importlib.import_module("IPython")
        else:
            with pytest.raises(ImportError):
                importlib.import_module("IPython")
    assert ("IPython" in sys.modules) is is_here
