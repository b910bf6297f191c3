"""The recipes of docs/developing.md, followed to the letter in a copy of the sources: no file but those that they name is touched."""

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "developing.md"
EVENT_RECIPE = "Adding an event"
COMMAND_RECIPE = "Adding a command"

_BLOCK = re.compile(r"```(\w+)\n(.*?)```\n", re.DOTALL)
_PLACE = re.compile(r"`((?:eventflink|tests)/[\w./]+)`(?:, behind `([\w.]+)`)?:\s*$")


@dataclass(frozen=True)
class Step:
    """A block of a recipe, and the words before it."""

    says: str
    language: str
    source: str


def steps_of(recipe: str) -> list[list[Step]]:
    """Return the blocks of each numbered step."""
    [section] = re.findall(rf"^## {recipe}\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    numbered = re.split(r"^\d\. ", section, flags=re.MULTILINE)[1:]
    steps = []
    for text in numbered:
        parts = _BLOCK.split(re.sub(r"^ {3}", "", text, flags=re.MULTILINE))
        steps.append([Step(" ".join(says.split()), *block) for says, *block in zip(parts[::3], parts[1::3], parts[2::3], strict=False)])
    return steps


class Copy:
    """A copy of what the recipes change, with all tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        for name in ("benchmarks", "eventflink", "schemas", "tests", "docs"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)

    def follow(self, recipe: str) -> None:
        for block in (block for step in steps_of(recipe) for block in step):
            if block.language == "sh":
                for command in block.source.splitlines():
                    self.run(*command.split())
            else:
                self._write(block)

    def write(self, recipe: str) -> None:
        """Follow what a recipe says of files, and run none of its commands."""
        for block in (block for step in steps_of(recipe) for block in step if block.language != "sh"):
            self._write(block)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace what stands once in a file."""
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
        file.write_text(text.replace(old, new), encoding="utf-8")

    def _write(self, block: Step) -> None:
        place = _PLACE.search(block.says)
        assert place, f"where does this go? {block.says}"
        path = self.folder / place[1]
        if not path.exists():
            path.write_text(block.source, encoding="utf-8")
        elif place[2] is None:
            path.write_text(f"{path.read_text(encoding='utf-8')}\n\n{block.source}", encoding="utf-8")
        else:
            path.write_text(inserted(path.read_text(encoding="utf-8"), block.source, place[2]), encoding="utf-8")

    def run(self, *command: str) -> str:
        program = [sys.executable if part == "python" else part for part in command]
        done = subprocess.run(
            program, cwd=self.folder, env=os.environ | {"PYTHONPATH": str(self.folder)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def inserted(module: str, block: str, behind: str) -> str:
    """Return a module with a block behind one of its definitions, and the block's imports behind its docstring."""
    lines, tree = module.splitlines(), ast.parse(module)
    node = definition(tree, behind.split("."))
    last = node.end_lineno or 0
    if isinstance(node, ast.AnnAssign) and lines[last].lstrip().startswith('"""'):
        last += 1  # What is said of a field belongs to it.
    imports = [line for line in block.splitlines() if line.startswith("from ")]
    rest = "\n".join(line for line in block.splitlines() if line not in imports).strip("\n")
    head = tree.body[0].end_lineno or 0
    blank = [""] if isinstance(node, ast.AnnAssign) or "." in behind else ["", ""]
    body = textwrap.indent(rest, " " * node.col_offset).splitlines()
    return "\n".join([*lines[:head], "", *imports, *lines[head:last], *blank, *body, *lines[last:]]) + "\n"


def definition(tree: ast.Module, path: list[str]) -> ast.stmt:
    body: list[ast.stmt] = tree.body
    for name in path:
        [found] = [n for n in body if getattr(n, "name", None) == name or getattr(getattr(n, "target", None), "id", None) == name]
        body = getattr(found, "body", [])
    return found
