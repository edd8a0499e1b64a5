"""The architecture as a test: who may import whom, what each stage shows, where torch and print may stand."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import navi
import navi_paper

SOURCE = Path(navi.__file__).parent
STAGES = (
    "version",
    "errors",
    "settings",
    "storage",
    "files",
    "cluster",
    "randomness",
    "backbones",
    "simulator",
    "tables",
    "corpus",
    "batches",
    "model",
    "losses",
    "columns",
    "training",
    "report",
    "verbs",
    "sklearn",
    "server",
    "cli",
    "__init__",
    "__main__",
)
RANK = {name: rank for rank, name in enumerate(STAGES)}
WITHOUT_TORCH = ("tables", "corpus", "simulator")
MODULES = sorted(SOURCE.rglob("*.py"))
PACKAGES = [module for module in MODULES if module.name == "__init__.py" and module.parent != SOURCE]


def name_module(file):
    """Return a module's path below the package, which is also how a failing test is called."""
    return file.relative_to(SOURCE).as_posix()


each_package = pytest.mark.parametrize("file", PACKAGES, ids=name_module)


def find_stage(file):
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def parse(file):
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def name_imported(node):
    """Return the modules that a statement imports, by their full names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def list_imports(file):
    """Yield the full name of everything a module imports: at its top, in functions, or for type checking alone."""
    package = ("navi", *file.relative_to(SOURCE).parent.parts)
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            home = package[: len(package) + 1 - node.level] if node.level else ()
            origin = ".".join((*home, *([node.module] if node.module else [])))
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def test_every_module_belongs_to_a_stage():
    assert [name_module(file) for file in MODULES if find_stage(file) not in RANK] == []


def test_a_module_imports_only_from_its_own_stage_or_an_earlier_one():
    offences = []
    for file in MODULES:
        for name in list_imports(file):
            parts = name.split(".")
            if parts[0] == "navi":
                other = parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"
                if RANK[other] > RANK[find_stage(file)]:
                    offences.append(f"{name_module(file)} imports {name}")
    assert offences == []


def test_of_the_library_only_the_door_to_the_evaluation_imports_it():
    doors = [file for file in MODULES if any(name.split(".")[0] == "navi_paper" for name in list_imports(file))]
    assert list(map(name_module, doors)) == ["cli/evaluate.py"]


def test_the_evaluation_asks_the_library_and_not_its_command_line_and_prints_nothing():
    folder = Path(navi_paper.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        names = {name for node in ast.walk(parse(file)) for name in name_imported(node)}
        assert not {name for name in names if name.startswith(("navi.cli", "navi.server"))}, file
        assert not any(isinstance(node, ast.Name) and node.id == "print" for node in ast.walk(parse(file))), file


def test_no_class_and_no_module_of_the_project_has_the_name_of_another():
    root, classes, modules = Path(__file__).parents[1], Counter(), Counter()
    for top in ("src", "tests", "benchmarks", "scripts", "examples"):
        for file in (root / top).rglob("*.py"):
            modules[file.name] += file.name not in ("__init__.py", "conftest.py")
            classes.update(node.name for node in ast.walk(parse(file)) if isinstance(node, ast.ClassDef))
    assert [name for names in (classes, modules) for name, count in names.items() if count > 1] == []


def test_tables_segments_and_simulator_do_without_torch():
    offences = []
    for file in MODULES:
        heavy = {name.split(".")[0] for name in list_imports(file)} & {"torch", "transformers", "accelerate"}
        if heavy and find_stage(file) in WITHOUT_TORCH:
            offences.append(f"{name_module(file)} imports {', '.join(sorted(heavy))}")
    assert offences == []


def test_only_the_command_line_prints():
    offences = []
    for file in MODULES:
        calls = [node.func for node in ast.walk(parse(file)) if isinstance(node, ast.Call)]
        if find_stage(file) != "cli" and any(isinstance(call, ast.Name) and call.id == "print" for call in calls):
            offences.append(name_module(file))
    assert offences == []


def test_every_folder_of_modules_is_a_package():
    folders = {module.parent for module in MODULES}
    assert [name_module(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def sort_key(name):
    """Constants, then classes, then functions: the order in which ruff keeps `__all__`."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, name


@each_package
def test_the_public_names_of_a_stage_are_sorted_and_can_be_had(file):
    package = importlib.import_module(".".join(("navi", *file.relative_to(SOURCE).parent.parts)))
    assert list(package.__all__) == sorted(set(package.__all__), key=sort_key)
    for name in package.__all__:
        assert hasattr(package, name), name


@each_package
def test_the_public_names_of_a_stage_are_all_that_it_gathers_from_its_modules(file):
    package = importlib.import_module(".".join(("navi", *file.relative_to(SOURCE).parent.parts)))
    gathered = set()
    for node in parse(file).body:
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("navi.")):
            gathered |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            gathered.add(node.name)
    assert {name for name in gathered if not name.startswith("_")} <= set(package.__all__)


def test_the_package_shows_its_public_names_sorted():
    names = [name for name in navi.__all__ if not name.startswith("_")]
    assert names == sorted(names, key=sort_key)
    assert sorted(navi.__all__) == dir(navi)


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("torch", "transformers", "pandas", "polars", "sklearn", "pyarrow")
    code = f"import sys, navi; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
