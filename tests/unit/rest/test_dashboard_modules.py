"""The dashboard's pure modules keep the laws that their own tests state, in the JavaScript that the browser runs."""

import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "dashboard_modules"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_pure_modules_of_the_dashboard_keep_their_laws() -> None:
    files = sorted(map(str, TESTS.glob("*.test.js")))
    assert files
    found = subprocess.run(["node", "--test", *files], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
