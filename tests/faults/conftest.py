"""What faults are tried on: small tables and all that verbs make of them, and `navi` in processes that may die."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import runpy
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from navi.report import Chart, Page, ReportTable, Section, Tiles, save_page

CHILD = Path(__file__).with_name("child.py")
LONGEST = 20
"""Seconds of the processor after which a verb hangs; on a busy machine more may pass on the clock."""
PRELOADED = (
    "navi.cli.app navi.corpus navi.training navi.verbs navi.verbs.embed navi.verbs.match navi.verbs.name navi.report "
    "navi.verbs.impute navi.verbs.link navi.verbs.search navi.verbs.unify navi_paper pandas pydantic scipy.cluster "
    "transformers.models.bert.modeling_bert rich.console rich.table rich.progress typer.rich_utils safetensors.torch "
    "torch._dynamo sklearn"
)


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    """Its exit code; minus the number of the signal that killed it."""
    output: str
    """All that it printed."""
    writes: int
    """Writes that it made, where it was not killed."""


@pytest.fixture(scope="session")
def tally() -> Iterator[Counter[str]]:
    """What was tried and what came of it; printed at the end."""
    counts: Counter[str] = Counter()
    yield counts
    place = os.environ.get("NAVI_FAULTS")
    if place:
        with Path(place).open("a") as file:
            file.writelines(f"{name}: {count}\n" for name, count in sorted(counts.items()))


@pytest.fixture(scope="session")
def run_process(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    """Run `navi` in a process of its own, forked from one that has the imports done; kill it at a write or a moment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED.split())
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", COLUMNS="140")
    output = tmp_path_factory.mktemp("printed") / "output"

    def wait(process: multiprocessing.process.BaseProcess, arguments: tuple[object, ...]) -> None:
        """Wait for the end of a process that does not hang."""
        while process.is_alive():
            process.join(1)
            with suppress(psutil.NoSuchProcess):
                spent = psutil.Process(process.pid).cpu_times()
                assert spent.user + spent.system < LONGEST, f"navi {arguments} hangs"

    def run(
        folder: Path,
        *arguments: object,
        at: int | None = None,
        after: float | None = None,
        room: int | None = None,
        deadly: bool = False,
        revoked: Path | None = None,
        states: Path | None = None,
        inputs: frozenset[str] = frozenset(),
    ) -> Ended:
        given = {"ARGUMENTS": [str(each) for each in arguments], "FOLDER": str(folder), "OUTPUT": str(output)}
        given |= {"STOP_AT": at, "ROOM": room, "DEADLY": deadly, "REVOKED": revoked and str(revoked)}
        given |= {"STATES": states and str(states), "INPUTS": inputs}
        # What is printed goes through a pipe: it must not count as a file that has little room.
        output.unlink(missing_ok=True)
        os.mkfifo(output)
        pipe = os.open(output, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
        process = context.Process(target=runpy.run_path, args=(str(CHILD),), kwargs={"init_globals": given})
        process.start()
        if after is None:
            wait(process, arguments)
        process.join(after)
        process.kill()
        process.join()
        counted = Path(f"{output}.writes")
        with os.fdopen(pipe) as printed:
            text = printed.read()
        ended = Ended(process.exitcode, text, int(counted.read_text()) if counted.exists() else 0)
        counted.unlink(missing_ok=True)
        assert "Traceback" not in ended.output, ended.output
        return ended

    return run


@pytest.fixture(scope="session")
def workshop(
    tmp_path_factory: pytest.TempPathFactory, toy_tables: Path, tiny_backbone: Path, run_process: Callable[..., Ended]
) -> Path:
    """A folder with tables, the tiny backbone, and a corpus, model, index and page that were made of them."""
    folder = tmp_path_factory.mktemp("workshop")
    shutil.copytree(toy_tables, folder / "tables")
    shutil.copytree(tiny_backbone, folder / "backbone")
    lines = [f"film {n},{1990 + n % 9},{'' if n % 5 == 0 else 'drama'}" for n in range(30)]
    (folder / "gaps.csv").write_text("\n".join(["title,year,genre", *lines, ""]))
    training = "checkpoint_steps = 1\nvalidate_rows = 4\nworkers = 0"
    (folder / "fast.toml").write_text(f"[training]\n{training}\n[sampler]\nrows_per_batch = 8\n")
    (folder / "mapping.json").write_text('{"headers": {"title": "name"}, "tables": {"films0": {"title": "film"}}}')
    table = ReportTable("caption", ["name", "value"], [["a", 1.0], ["b", None]])
    chart = Chart(caption="caption", kind="map", series=["a"], spec={"mark": "point", "data": {"values": [{"x": 1.0}]}})
    save_page(Page("title", "lead", [Section("s", "text", [table, Tiles({"a": "1"}), chart])]), folder / "results")
    for command in (
        "prepare tables -o corpus --backbone backbone",
        "pretrain corpus -o model --from backbone --config fast.toml --max-steps 2",
        "search tables --model model --like title=night --index index",
        "report results",
    ):
        made = run_process(folder, *command.split())
        assert made.code == 0, made.output
    return folder


@pytest.fixture
def place(workshop: Path, tmp_path: Path) -> Path:
    """A copy of the workshop that a test may change; times stay, because an index knows its files by them."""
    return shutil.copytree(workshop, tmp_path / "place")


def read_all(folder: Path, *names: str) -> dict[str, bytes]:
    """Return the content of files and of all below folders; what is there for a time only is left out."""
    found = {path: path for name in names for path in (folder / name, *(folder / name).rglob("*")) if path.is_file()}
    named = {path.relative_to(folder).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in named.items() if "/.navi" not in f"/{name}"}


@pytest.fixture(scope="session")
def contents() -> Callable[..., dict[str, bytes]]:
    """The reader of files and folders."""
    return read_all
