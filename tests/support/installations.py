"""The wheel of this checkout in environments of its own, each with what one choice of extras brings, and nothing else.

Packages come from the environment of the tests by links, so nothing is fetched. What belongs to a choice is read from the metadata of
the distributions, as an installer reads it.
"""

import importlib.metadata
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Installation:
    """An environment that has the wheel."""

    folder: Path
    distributions: frozenset[str]
    """The names of the distributions in it, without our own."""

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def program(self) -> Path:
        """The command line as users have it."""
        return self.folder / "bin" / "eventflink"

    def size_bytes(self) -> int:
        """Return how many bytes an installer writes: files of distributions and of the wheel, nothing compiled."""
        files = [Path(str(each.locate())) for name in self.distributions for each in importlib.metadata.files(name) or []]
        ours = self.folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "eventflink"
        files += [each for each in ours.rglob("*") if each.is_file()]
        return sum(each.stat().st_size for each in files if each.suffix != ".pyc" and each.exists())


def build_wheel(folder: Path, sources: Path = ROOT) -> Path:
    """Return the wheel of a source tree, this checkout by default; the folder has no other."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=sources, check=True, capture_output=True, timeout=120)
    [wheel] = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path, *wanted: str) -> Installation:
    """Return an environment with the wheel and with what these requirements bring (`eventflink[audit]`, `pytest`)."""
    distributions = frozenset(_closure([Requirement(each) for each in ("eventflink", *wanted)]) - {"eventflink"})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    made = Installation(folder, distributions)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(made.python),
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-compile",
        str(wheel),
    ]
    subprocess.run(pip, check=True, capture_output=True, timeout=120)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    said = subprocess.run([made.python, "-c", ask], check=True, capture_output=True, text=True, timeout=120)
    places, source = Path(said.stdout.strip()), Path(sysconfig.get_path("purelib"))
    for name in distributions:
        for top in {each.parts[0] for each in importlib.metadata.files(name) or [] if each.parts[0] not in ("..", "__pycache__")}:
            if not (places / top).exists():
                (places / top).symlink_to(source / top)
    return made


def _closure(requirements: list[Requirement]) -> set[str]:
    """Return the canonical names of the distributions that these requirements bring, and all that those require."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = list(requirements)
    while waiting:
        each = waiting.pop()
        name, extras = canonicalize_name(each.name), frozenset(each.extras)
        if (name, extras) in found:
            continue
        found.add((name, extras))
        for text in importlib.metadata.requires(name) or []:
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras or [""]):
                waiting.append(needed)
    return {name for name, _ in found}
