"""Train and measure the whole grid on one GPU, several processes side by side, within a number of seconds.

    python benchmarks/grid.py movie=CORPUS product=CORPUS --gold GOLD -o RESULTS --pack OUT [--seconds 540]

First the learning rates of the baselines are measured (`RESULTS/rates.json`), then models are trained and measured in
the order of `list_jobs`: what matters most comes first, and what does not fit is left out. The same command again goes
on. `--pack` writes what is new, small enough to carry home, as tar files. There, `--unpack FOLDER` makes one folder
of results of them, and `--classifiers lr,xgboost` measures classifiers on the row vectors in it.
"""

# needs: prepared corpora, their gold, and a GPU
from __future__ import annotations

import argparse
import json
import os
import tarfile
import time
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from shutil import rmtree
from typing import Any

from navi.corpus import Corpus
from navi.training import PretrainConfig
from navi_paper.baselines.training import measure_rates
from navi_paper.data import EvaluationConfig, EvaluationData
from navi_paper.gold import Gold
from navi_paper.grid import SPECS, Grid, GridConfig, read_rates
from navi_paper.results import Results
from navi_paper.tasks import ENCODER_TASKS, TASKS

CONFIG = Path(__file__).parent.parent / "paper" / "grid.toml"
RATED = ("bert", "haetae", "cm2", "tapas")
BESIDE = {"bert": ("bert-extended",), "haetae": ("haetae-extended",), "navi": ("navi-plain",)}
"""Models that are read from another one's weights."""
FIRST_SEED = ("geometry", "text_vectors", "variant_vectors")
"""Tasks that only the first seed does."""
ABLATED = (*("without_attributes", "without_segment_masking", "without_alignment", "random_routing"),)
AFTER = {"row_vectors": "classification", "variant_vectors": "variants", "text_vectors": "features"}
"""What classifies the vectors of each task."""
FILE_BYTES, MAX_FILES, PACK_BYTES = 15 << 20, 8, 60 << 20
"""Sizes of what can be carried home from one call."""


@dataclass(frozen=True)
class Job:
    """A model to train with one seed, or the learning rates of a baseline to measure."""

    corpus: str
    model: str
    seed: int | None
    """None measures rates."""

    def __str__(self) -> str:
        return f"{self.corpus} {self.model} {'rates' if self.seed is None else self.seed}"


def list_jobs(corpora: Sequence[str], seeds: Sequence[int]) -> Iterator[Job]:
    """Yield all jobs, the most important first."""
    main = ("bert", "navi-paper", "navi", "navi-from_base")
    ablations = (*(f"navi-paper-{each}" for each in ABLATED), "navi-without_alignment", "navi-without_views")
    stages: list[tuple[tuple[str, ...], Sequence[int | None]]] = [
        (RATED[:1], [None]),
        (main[1:], seeds[:1]),
        (RATED[1:], [None]),
        (("bert", "frozen"), seeds[:1]),
        (main, seeds[1:]),
        (RATED[1:], seeds[:1]),
        (("navi-paper-as_written",), seeds[:1]),
        (ablations, seeds[:1]),
        (RATED[1:], seeds[1:]),
        (ablations, seeds[1:]),
    ]
    for models, own_seeds in stages:
        yield from (Job(corpus, model, seed) for seed in own_seeds for model in models for corpus in corpora)


class Worker:
    """Does jobs in a process of its own, one after the other, with a folder of results of its own."""

    def __init__(self, number: int, arguments: argparse.Namespace) -> None:
        self.folder, self.rates = arguments.out / f"worker-{number}", arguments.out / "rates.json"
        self.shared = PretrainConfig.from_dict(tomllib.loads(arguments.config.read_text("utf-8")))
        if arguments.backbone:
            self.shared = replace(self.shared, backbone=arguments.backbone)
        self.amounts = EvaluationConfig(rows=arguments.rows)
        self.paths = dict(each.split("=") for each in arguments.corpora)
        self.gold = arguments.gold
        self.data: dict[str, EvaluationData] = {}

    def open_data(self, corpus: str) -> EvaluationData:
        """Return a corpus with its gold, opened once."""
        if corpus not in self.data:
            gold = Gold.find(self.gold / corpus)
            self.data[corpus] = EvaluationData(corpus=Corpus.open(self.paths[corpus]), gold=gold, config=self.amounts)
        return self.data[corpus]

    def run(self, job: Job) -> Any:
        """Return the rates' losses, or how many cells failed."""
        corpus = Corpus.open(self.paths[job.corpus])
        if job.seed is None:
            folder = self.folder / "rates"
            losses = measure_rates(job.model, corpus, folder, self.shared)
            rmtree(folder)
            return losses
        config = GridConfig(
            name=job.corpus,
            models=tuple(SPECS[each] for each in (job.model, *BESIDE.get(job.model, ()))),
            tasks=tuple(each for each in ENCODER_TASKS if job.seed == 0 or each.name not in FIRST_SEED),
            seeds=(job.seed,),
            pretrain=self.shared,
            rates=read_rates(self.rates, job.corpus),
        )
        summary = Grid(self.open_data(job.corpus), Results.open(self.folder), config).run()
        model = self.folder / "models" / job.corpus / f"{job.model}-{job.seed}"
        for file in model.glob("*") if model.is_dir() else ():
            if file.suffix not in (".json", ".jsonl") and file.is_file():
                file.unlink()
        return [str(each.error) for each in summary.failed]


def work(connection: Connection, number: int, arguments: argparse.Namespace) -> None:
    """Do what comes through the connection until it is closed."""
    os.environ["OMP_NUM_THREADS"] = "2"
    worker = Worker(number, arguments)
    while True:
        job = connection.recv()
        try:
            connection.send((job, worker.run(job), None))
        except Exception:  # noqa: BLE001 - whatever it is, the other jobs go on
            connection.send((job, None, traceback.format_exc()))


def run_jobs(arguments: argparse.Namespace, deadline: float) -> list[Job]:
    """Do as many jobs as there is time for, and return those that were left."""
    done_file, rates_file = arguments.out / "done.json", arguments.out / "rates.json"
    rates = json.loads(rates_file.read_text()) if rates_file.is_file() else {}
    rates_file.write_text(json.dumps(rates))
    done = set(json.loads(done_file.read_text())) if done_file.is_file() else set()
    corpora = [each.split("=")[0] for each in arguments.corpora]
    jobs = [job for job in list_jobs(corpora, arguments.seeds) if str(job) not in done]
    jobs = [job for job in jobs if not arguments.models or job.model in arguments.models]
    context, busy, idle, took = get_context("spawn"), {}, [], {}
    processes = []
    for number in range(arguments.workers):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=work, args=(theirs, number, arguments), daemon=True))
        processes[-1].start()
        idle.append(ours)
    while time.time() < deadline and (jobs or busy):
        for connection in list(idle):
            # A model that took longer than what is left is not begun.
            ready = [
                job
                for job in jobs
                if (job.model not in RATED or job.seed is None or job.model in rates.get(job.corpus, {}))
                and took.get((job.model, job.seed is None), 0) < deadline - time.time()
            ]
            if ready:
                jobs.remove(ready[0])
                connection.send(ready[0])
                busy[connection] = time.time()
                idle.remove(connection)
        if not busy:
            break
        for connection in wait(list(busy), timeout=min(5.0, max(0.1, deadline - time.time()))):
            job, found, error = connection.recv()
            seconds = time.time() - busy.pop(connection)
            took[job.model, job.seed is None] = seconds
            idle.append(connection)
            print(
                f"{time.time() - arguments.begun:6.1f} {job}: {seconds:.1f} s {found if found else ''} {error or ''}",
                flush=True,
            )
            if error is None and job.seed is None:
                rates.setdefault(job.corpus, {})[job.model] = found
                rates_file.write_text(json.dumps(rates, indent=1))
            if error is None and (job.seed is None or not found):
                done.add(str(job))
                done_file.write_text(json.dumps(sorted(done)))
    for process in processes:  # what is not finished is not waited for
        process.kill()
    return jobs


def pack(results: Path, out: Path) -> None:
    """Write what is new as tar files: results, logs of runs, row vectors of all seeds and other arrays of the first."""
    packed_file = results / "packed.json"
    packed = set(json.loads(packed_file.read_text())) if packed_file.is_file() else set()
    files = [*sorted(results.glob("worker-*/results.jsonl")), results / "rates.json"]
    files += [*results.glob("worker-*/models/*/*/metrics.jsonl"), *results.glob("worker-*/models/*/*/training.json")]
    arrays = sorted(results.glob("worker-*/arrays/*.npz"), key=lambda file: file.name.rsplit("--", 1)[-1])
    wanted = [file for file in arrays if "--row_vectors--" in file.name or file.name.endswith("--0.npz")]
    chosen: list[list[Path]] = [[]]
    total = size = 0
    for file in [*files, *wanted]:
        name, bytes_ = file.relative_to(results).as_posix(), file.stat().st_size
        if name in packed or total + bytes_ > PACK_BYTES:
            continue
        if size + bytes_ > FILE_BYTES:
            if len(chosen) == MAX_FILES:
                break
            chosen.append([])
            size = 0
        chosen[-1].append(file)
        size, total = size + bytes_ + 1024, total + bytes_ + 1024
        if file.suffix == ".npz":
            packed.add(name)
    for number, members in enumerate(chosen):
        with tarfile.open(out / f"results-{number}.tar", "w") as archive:
            for file in members:
                archive.add(file, file.relative_to(results).as_posix())
    packed_file.write_text(json.dumps(sorted(packed)))
    left = [file.name for file in wanted if file.relative_to(results).as_posix() not in packed]
    print(f"packed {len(packed)} arrays, {total / 1e6:.1f} MB; left {len(left)}: {left[:20]}")


def unpack(packed: Path, results: Path) -> None:
    """Put what several workers packed into one folder of results."""
    (results / "arrays").mkdir(parents=True, exist_ok=True)
    lines = [line for file in sorted(packed.glob("worker-*/results.jsonl")) for line in file.open(encoding="utf-8")]
    (results / "results.jsonl").write_text("".join(dict.fromkeys(lines)), encoding="utf-8")
    for file in packed.glob("worker-*/arrays/*.npz"):
        (results / "arrays" / file.name).write_bytes(file.read_bytes())


def classify(arguments: argparse.Namespace) -> None:
    """Classify the row vectors that are in a folder of results, one model and seed after the other."""
    worker = Worker(0, arguments)
    kept = [record for record in Results.open(arguments.out) if record.task in AFTER and record.error is None]
    for record in sorted(kept, key=lambda each: (each.seed, each.task != "row_vectors", each.model)):
        if arguments.models and record.model not in arguments.models:
            continue
        tasks = {record.task, *(f"{AFTER[record.task]}_{each}" for each in arguments.classifiers)}
        config = GridConfig(
            name=record.corpus,
            models=(SPECS[record.model],),
            tasks=tuple(each for each in TASKS if each.name in tasks),
            seeds=(record.seed,),
            pretrain=worker.shared,
            rates=read_rates(worker.rates, record.corpus),
        )
        begun = time.time()
        # What the vectors stand for is known by its digest: a model is never trained here.
        grid = Grid(worker.open_data(record.corpus), Results.open(arguments.out), config)
        grid.run(kept_only=True)
        print(f"{record.corpus} {record.model} {record.seed} {record.task}: {time.time() - begun:.1f} s", flush=True)


def main() -> None:
    """Run the grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", metavar="NAME=CORPUS")
    parser.add_argument("--gold", type=Path, required=True, help="folder of gold")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--backbone")
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--models", type=lambda text: text.split(","), default=())
    parser.add_argument("--unpack", type=Path, help="folder where tar files of --pack were unpacked")
    parser.add_argument("--classifiers", type=lambda text: text.split(","), default=(), help="classify, train nothing")
    parser.add_argument("--rows", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.begun = time.time()
    if arguments.unpack:
        unpack(arguments.unpack, arguments.out)
    if arguments.classifiers:
        classify(arguments)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    left = run_jobs(arguments, arguments.begun + arguments.seconds)
    print(f"{len(left)} jobs left: {', '.join(map(str, left))}")
    if arguments.pack:
        pack(arguments.out, arguments.pack)


if __name__ == "__main__":
    main()
