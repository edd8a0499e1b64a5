"""The documentation's code blocks, found and run; its outputs and its tables of settings, written again.

`python scripts/docs.py settings` writes the tables of docs/configuration.md.
`python scripts/docs.py outputs WORLD PAGES` runs pages in a copy of the folder WORLD, which holds the `navi-demo` that
`navi demo` leaves, and writes what their commands print.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "docs" / "configuration.md"
RUNNABLE = ("python", "pycon", "console", "sh")
"""Languages of the blocks that are run; `text` after a block of `python` is what it prints."""
WIDTH = "100"
"""Columns of the terminal that outputs are written for."""
_FENCE = re.compile(r"^ {0,3}```(\w*)\s*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_FIELDS = re.compile(r"(<!-- fields: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass
class Block:
    """A fenced block of a page."""

    page: Path
    """The page."""
    line: int
    """Number of the fence, from 1."""
    language: str
    """What stands behind the fence."""
    lines: list[str] = field(default_factory=list)
    """Its content."""
    reason: str | None = None
    """Why it is not run; None if it is."""

    @property
    def text(self) -> str:
        """Its content as one text."""
        return "\n".join(self.lines) + "\n"


@dataclass
class Command:
    """A command of a block, and the output that the page shows."""

    text: str
    shown: list[str] = field(default_factory=list)


def find_blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    blocks: list[Block] = []
    inside: Block | None = None
    before = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is not None:
            if fence and not fence[1]:
                inside = None
            else:
                inside.lines.append(line)
        elif fence:
            reason = _NOT_RUN.match(before)
            inside = Block(page, number, fence[1], reason=reason[1] if reason else None)
            blocks.append(inside)
        before = line.strip() or before
    return blocks


def split_commands(block: Block) -> list[Command]:
    r"""Return the commands of a block: lines after `$` in `console`, every line in `sh`; `\` continues in the next."""
    commands: list[Command] = []
    continues = False
    for line in block.lines:
        begins = line.startswith("$ ") if block.language == "console" else bool(line.strip() and line[0] != "#")
        if continues:
            commands[-1].text += "\n" + line
        elif begins:
            commands.append(Command(line.removeprefix("$ ")))
        elif commands and block.language == "console":
            commands[-1].shown.append(line)
        continues = (begins or continues) and line.endswith("\\")
    return commands


def find_headings(shown: list[str]) -> list[str]:
    """Return what must be in any output of a command: the heads of its tables, which a rule stands under."""
    return [line for line, below in pairwise(shown) if line.strip() and below.strip() and not below.strip("─ ")]


class DocsPage:
    """Runs the blocks of one page, one after another; those of Python share their names."""

    def __init__(self, run: Callable[[str], str]) -> None:
        self._run, self._names = run, {"__name__": "__docs__"}

    def run(self, block: Block) -> list[str]:
        """Run a block in the present folder; return the output of each command, or that of the Python code."""
        if block.language in ("console", "sh"):
            return [self._run(command.text) for command in split_commands(block)]
        if block.language == "pycon":
            return [self._run_session(block)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = compile("\n" * block.line + block.text, str(block.page), "exec")
            exec(code, self._names)
        return [printed.getvalue()]

    def _run_session(self, block: Block) -> str:
        import doctest

        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
        test = doctest.DocTestParser().get_doctest(block.text, self._names, block.page.name, str(block.page), 0)
        failed = runner.run(test, out=said.append, clear_globs=False).failed
        if failed:
            raise AssertionError("".join(said))
        return ""


def run_in_shell(command: str) -> str:
    """Run a command as a reader would; return what it prints to stdout."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings = os.environ | {"COLUMNS": WIDTH, "PATH": path}
    done = subprocess.run(command, shell=True, check=False, capture_output=True, text=True, env=settings)
    if done.returncode:
        raise RuntimeError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def write_outputs(page: Path, world: Path) -> None:
    """Run a page in a copy of a folder, and put into it what its commands and its Python code print."""
    blocks = find_blocks(page)
    lines = page.read_text(encoding="utf-8").splitlines()
    written: list[tuple[Block, list[str]]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        shutil.copytree(world, folder, dirs_exist_ok=True)
        runner = DocsPage(run_in_shell)
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            if block.language not in RUNNABLE or block.reason:
                continue
            outputs = runner.run(block)
            if block.language == "console":
                written.append((block, list(_write_console(block, outputs))))
            elif block.language == "python" and after is not None and after.language == "text":
                written.append((after, tidy(outputs[0])))
    for block, content in reversed(written):
        lines[block.line : block.line + len(block.lines)] = content
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_console(block: Block, outputs: list[str]) -> Iterator[str]:
    for command, output in zip(split_commands(block), outputs, strict=True):
        yield from f"$ {command.text}".splitlines()
        yield from tidy(output)


def tidy(output: str) -> list[str]:
    """Return the lines of an output without the white space around it and at their ends."""
    lines = [line.rstrip() for line in output.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines[next((place for place, line in enumerate(lines) if line), 0) :]


def write_settings(text: str) -> str:
    """Return the page of settings with its tables written again from the dataclasses."""
    return _FIELDS.sub(lambda found: f"{found[1]}\n{tabulate_fields(find_class(found[2]))}\n{found[3]}", text)


def find_class(name: str) -> type:
    """Return the class that a dotted name stands for."""
    module, _, attribute = name.rpartition(".")
    found: type = getattr(importlib.import_module(module), attribute)
    return found


def tabulate_fields(config: type) -> str:
    """Return a table of a dataclass's fields: name, default and what the line under it says."""
    meanings = read_meanings(config)
    lines = ["| field | default | meaning |", "|---|---|---|"]
    for item in fields(config):
        lines.append(f"| `{item.name}` | {describe_default(item)} | {_escape(meanings[item.name])} |")
    return "\n".join(lines) + "\n"


def read_meanings(config: type) -> dict[str, str]:
    """Return the docstring under each field of a dataclass."""
    source = Path(str(sys.modules[config.__module__].__file__)).read_text(encoding="utf-8")
    body = next(
        node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == config.__name__
    )
    meanings = {}
    for before, node in pairwise(body):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and is_text:
            meanings[before.target.id] = " ".join(str(node.value.value).split())  # type: ignore[attr-defined]
    return meanings


def describe_default(item: Any) -> str:
    """Return the default of a field as a reader would write it."""
    if item.default_factory is not MISSING:
        made = item.default_factory()
        return f"[{type(made).__name__}](#{type(made).__name__.lower()})" if is_dataclass(made) else f"`{made!r}`"
    return "" if item.default is MISSING else f"`{_escape(repr(item.default))}`"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> None:
    """Do what the first argument says."""
    if arguments[:1] == ["settings"]:
        CONFIGURATION.write_text(write_settings(CONFIGURATION.read_text(encoding="utf-8")), encoding="utf-8")
    elif arguments[:1] == ["outputs"] and len(arguments) > 2:
        for page in arguments[2:]:
            write_outputs(Path(page).resolve(), Path(arguments[1]).resolve())
    else:
        sys.exit(str(__doc__))


if __name__ == "__main__":
    main(sys.argv[1:])
