"""This version of the software and a later one, each as a wheel in an environment of its own, for rolling upgrades between real processes.

The later one is what docs/developing.md says how to make: a copy of the sources in which the recipes for an event and a command were
followed, with a new release of the schemas, a new feature level, and a rule that asks for it. Third-party packages come from the
environment of the tests; the rule is that `eventflink` itself never does.
"""

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eventflink.model.features import FEATURE_LEVEL
from tests.support.installations import build_wheel
from tests.support.recipes import COMMAND_RECIPE, EVENT_RECIPE, ROOT, Copy

LATER_VERSION: Final = "99.0"
LATER_LEVEL: Final = FEATURE_LEVEL + 1
ADDED_COMMAND: Final = "SetNotice"
ADDED_EVENT: Final = "NoticeSet"

_RULE: Final = "        unchanged = command.text == self.notice\n"
_GUARD: Final = f"""        if self.feature_level < {LATER_LEVEL}:
            return [rejected(command, "FeatureLevelTooLow", f"the feature level is {{self.feature_level}}")]
"""


@dataclass(frozen=True)
class Version:
    """A version that is installed."""

    number: str
    environment: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def program(self) -> list[str]:
        """The command line as users have it."""
        return [str(self.environment / "bin" / "eventflink")]

    def run(self, *command: str | Path) -> str:
        """Run a command that is to succeed, and return what it prints."""
        done = subprocess.run(
            command, cwd=self.environment, env=bare_environment(), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def bare_environment() -> dict[str, str]:
    """Return the environment for processes of an installed version: nothing in it leads to the sources."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def install_two_versions(folder: Path) -> tuple[Version, Version]:
    """Return this version and a later one."""
    copy = Copy(folder / "later")
    copy.write(EVENT_RECIPE)
    copy.write(COMMAND_RECIPE)
    copy.replace("eventflink/master/upkeep.py", _RULE, _GUARD + _RULE)
    copy.replace("eventflink/model/features.py", f"FEATURE_LEVEL: Final = {FEATURE_LEVEL}\n", f"FEATURE_LEVEL: Final = {LATER_LEVEL}\n")
    copy.replace("pyproject.toml", f'\nversion = "{_version_of(ROOT)}"\n', f'\nversion = "{LATER_VERSION}"\n')
    copy.run("python", "-m", "docs.generate")
    first = Version(_version_of(ROOT), folder / "environment")
    first.environment.parent.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", first.environment], check=True, timeout=120)
    later = Version(LATER_VERSION, folder / "later-environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", later.environment], check=True, timeout=120)
    for version, sources in ((first, ROOT), (later, copy.folder)):
        wheel = build_wheel(folder / f"wheel-{version.number}", sources)
        first.run(first.python, "-m", "pip", "--python", version.python, "install", "-q", "--no-deps", "--no-index", wheel)
        _give_packages(version)
    return first, later


def _version_of(sources: Path) -> str:
    [number] = re.findall(r'^version = "(.+)"$', (sources / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    return str(number)


def _give_packages(version: Version) -> None:
    """Have the packages of the tests' environment found behind a version's own, and check that it is that version which is imported."""
    places = version.run(version.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(places) / "packages_of_the_tests.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    ask = "import eventflink, importlib.metadata as m; print(m.version('eventflink'), *eventflink.__path__)"
    found = version.run(version.python, "-c", ask).split()
    assert found == [version.number, f"{places}/eventflink"], found
