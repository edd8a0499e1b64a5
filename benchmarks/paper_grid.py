"""Train and measure the whole grid on one GPU, several processes side by side, within a number of seconds.

    python benchmarks/paper_grid.py movie=CORPUS product=CORPUS --gold GOLD -o RESULTS --pack OUT [--seconds 540]
    python benchmarks/paper_grid.py movie=- product=- --done paper/results.jsonl --list

Learning rates of the baselines are measured (`RESULTS/rates.json`), then models are trained and measured in the order
of `list_jobs`: what matters most comes first, and what does not fit is left out. The same command again goes on, and
`--done` leaves out what a file of results has; `--list` prints what would be done.
`--pack` writes figures after each model, and arrays at the end, small enough to carry home. There, `--unpack FOLDER`
adds them to a folder of results, and `--classifiers lr` measures classifiers on the row vectors in it. `--pipelines lr`
measures them on raw features and TableVectorizer.
"""

# needs: prepared corpora, their gold, and a GPU
from __future__ import annotations

import argparse
import json
import tarfile
import time
import tomllib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import torch
from overlap import check_no_overlap

from navi.backbones import MINILM
from navi.corpus import Corpus, PrepareConfig, prepare
from navi.errors import ConfigError
from navi.files import read_json
from navi.tables import find_sources
from navi.training import PretrainConfig
from navi_paper.baselines.training import RECORD_FILE, set_rate, train_baseline
from navi_paper.data import EvaluationConfig, EvaluationData, Task, TaskResult
from navi_paper.gold import Gold
from navi_paper.grid import SPECS, Grid, GridConfig, read_rates
from navi_paper.results import Results
from navi_paper.table_encoder import TableEncoder
from navi_paper.tasks import ENCODER_TASKS, TASKS
from navi_paper.tasks.classification import CLASSIFICATION, find_pool

PAPER = Path(__file__).parent.parent / "paper"
CONFIG, SPLIT = PAPER / "grid.toml", PAPER / "split.json"
RATED = ("bert", "haetae", "cm2", "tapas")
RATES = (2e-4, 5e-4, 1e-3)
"""Baselines, and the learning rates that each chooses from."""
BESIDE = {"bert": ("bert-extended",), "haetae": ("haetae-extended",), "navi": ("navi-plain",)}
"""Models that are read from another one's weights."""
CARRIED = {
    **{"row_vectors": (), "text_vectors": ()},
    **{"clustering": ("bert", "navi-paper", "navi"), "geometry": ("bert", "navi-paper", "navi")},
    **{"reconstruction": ("cm2", "navi-paper", "navi"), "variant_vectors": ("bert", "navi-paper", "navi")},
}
"""Arrays that are carried home, the most important first: what is classified there, and what figures are drawn from.

Of the models named, or of all."""
ABLATED = (*("without_attributes", "without_segment_masking", "without_alignment", "random_routing"),)
HERE = tuple(each.name for each in ENCODER_TASKS)
"""Tasks that are done where the models are trained; classifiers would keep a GPU waiting."""
MARK = "clustering"
"""The task that every model has: with its figure, a job is done."""
AFTER = {"row_vectors": "classification", "variant_vectors": "variants", "text_vectors": "features"}
"""What classifies the vectors of each task."""
FILE_BYTES, MAX_FILES, PACK_BYTES = 15 << 20, 4, 56 << 20
"""Sizes of what can be carried home from one call."""


@dataclass(frozen=True)
class GridJob:
    """A model to train with one seed, or the learning rates of a baseline to measure."""

    corpus: str
    model: str
    seed: int | None
    """None measures rates."""

    def __str__(self) -> str:
        return f"{self.corpus} {self.model} {'rates' if self.seed is None else self.seed}"


def list_jobs(corpora: Sequence[str], seeds: Sequence[int]) -> Iterator[GridJob]:
    """Yield all jobs, the most important first; the paper's own schedule takes longest and is begun at once."""
    navi = ("navi-paper", "navi", "navi-from_base")
    ablations = (*(f"navi-paper-{each}" for each in ABLATED), "navi-without_alignment", "navi-without_views")
    first, second, later = seeds[:1], seeds[1:2], seeds[2:]
    stages: list[tuple[tuple[str, ...], Sequence[int | None]]] = [
        (("navi-paper-as_written",), first),
        (RATED, [None]),
        ((*navi, "bert", "haetae"), first),
        (("frozen", "cm2", "tapas"), first),
        (("navi-paper", "navi", "bert", "haetae"), [*second, *later]),
        (("cm2", "tapas"), [*second, *later]),
        (("navi-from_base",), [*second, *later]),
        (ablations, first),
        (ablations, [*second, *later]),
    ]
    for models, own_seeds in stages:
        yield from (GridJob(corpus, model, seed) for seed in own_seeds for model in models for corpus in corpora)


def list_left(arguments: argparse.Namespace, done: set[str]) -> list[GridJob]:
    """Return the jobs that are asked for and not done."""
    corpora = [each.split("=")[0] for each in arguments.corpora]
    jobs = [job for job in list_jobs(corpora, arguments.seeds) if str(job) not in done]
    return [job for job in jobs if not arguments.models or job.model in arguments.models]


def find_done(results: Path | None, rates: Path | None) -> set[str]:
    """Return the jobs that a file of results and one of learning rates have already."""
    records = map(json.loads, results.read_text("utf-8").splitlines()) if results else ()
    measured = (each for each in records if each["task"] == MARK and each["error"] is None)
    known = json.loads(rates.read_text("utf-8")) if rates else {}
    jobs = [GridJob(each["corpus"], each["model"], each["seed"]) for each in measured]
    jobs += [
        GridJob(corpus, model, None)
        for corpus, models in known.items()
        for model, losses in models.items()
        if losses.keys() >= {f"{rate:g}" for rate in RATES}
    ]
    return {str(job) for job in jobs}


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

    def run(self, job: GridJob) -> Any:
        """Return the rates' losses, or how many cells failed."""
        corpus = Corpus.open(self.paths[job.corpus])
        if job.seed is None:
            folder = self.folder / "rates"
            known = read_json(self.rates, ConfigError, "").get(job.corpus, {}).get(job.model, {})
            losses = measure_rates(job.model, corpus, folder, self.shared, known)
            rmtree(folder, ignore_errors=True)
            return losses
        config = GridConfig(
            name=job.corpus,
            models=tuple(SPECS[each] for each in (job.model, *BESIDE.get(job.model, ()))),
            tasks=tuple(each for each in TASKS if each.name in HERE),
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


def measure_rates(
    name: str, corpus: Corpus, folder: Path, config: PretrainConfig, known: Mapping[str, float]
) -> dict[str, float]:
    """Return the validation loss after two epochs at each learning rate of `RATES` that is not known already.

    Each has a run of its own in a folder. New parameters learn 2.5 times as fast, as NAVI's do by default.
    """
    losses = dict(known)
    for rate in RATES:
        if f"{rate:g}" not in losses:
            short = set_rate(config, rate)
            short = replace(short, training=replace(short.training, epochs=2))
            done = train_baseline(name, corpus, folder / f"{name}-{rate:g}", short)
            losses[f"{rate:g}"] = json.loads((done / RECORD_FILE).read_text("utf-8"))["losses"][-1]
    return losses


def work(connection: Connection, number: int, arguments: argparse.Namespace) -> None:
    """Do what comes through the connection until it is closed."""
    torch.set_num_threads(1)
    worker = Worker(number, arguments)
    while True:
        job = connection.recv()
        try:
            connection.send((job, worker.run(job), None))
        except Exception:  # noqa: BLE001 - whatever it is, the other jobs go on
            connection.send((job, None, traceback.format_exc()))


def prepare_corpora(arguments: argparse.Namespace) -> None:
    """Prepare the corpora that are not there yet, with the tables of `paper/split.json` kept out.

    Nothing is prepared if a table that is kept out overlaps with one that is trained on.
    """
    split = json.loads(SPLIT.read_text("utf-8"))
    for name, corpus in (each.split("=") for each in arguments.corpora):
        if not Path(corpus).exists():
            kept_out = {f"{kind}_tables": tuple(split[name][kind]) for kind in ("unseen", "validation")}
            names = {each for kept in kept_out.values() for each in kept}
            sources = find_sources([arguments.tables / name]).sources
            trained, others = ([each.path for each in sources if (each.name in names) == out] for out in (False, True))
            check_no_overlap(trained, others)
            config = PrepareConfig(backbone=arguments.backbone or MINILM, **kept_out)
            prepared = prepare([arguments.tables / name], corpus, config)
            print(f"{time.time() - arguments.begun:6.1f} {name} is prepared: {prepared.fingerprint}", flush=True)


def run_jobs(arguments: argparse.Namespace, deadline: float) -> list[GridJob]:
    """Do as many jobs as there is time for, and return those that were left."""
    done_file, rates_file = arguments.out / "done.json", arguments.out / "rates.json"
    if not rates_file.is_file():
        rates_file.write_text(arguments.rates.read_text("utf-8") if arguments.rates else "{}")
    if not done_file.is_file():
        done_file.write_text(json.dumps(sorted(find_done(arguments.done, rates_file))))
    rates, done = json.loads(rates_file.read_text()), set(json.loads(done_file.read_text()))
    jobs = list_left(arguments, done)
    context, busy, idle, took = get_context("spawn"), {}, [], {}
    processes = []
    for number in range(arguments.workers):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=work, args=(theirs, number, arguments), daemon=True))
        processes[-1].start()
        idle.append(ours)
    while time.time() < deadline and (jobs or busy):
        for connection in list(idle):
            # What is left must do for as long as a model of this corpus took, at least.
            ready = [
                job
                for job in jobs
                if (job.model not in RATED or job.seed is None or f"{job.corpus} {job.model} rates" in done)
                and took.get((job.corpus, job.seed is None), 0) < deadline - time.time()
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
            if error is None and job.model != "frozen":
                kind = job.corpus, job.seed is None
                took[kind] = min(seconds, took.get(kind, seconds))
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
                if arguments.pack:  # a kill costs the arrays, not the figures
                    copy_results(arguments.out, arguments.pack)
    for process in processes:  # what is not finished is not waited for
        process.kill()
    return jobs


def copy_results(results: Path, out: Path) -> None:
    """Write figures, learning rates and the jobs that are done into the folder that is carried home."""
    lines = [file.read_text("utf-8") for file in sorted(results.glob("worker-*/results.jsonl"))]
    (out / "results.jsonl").write_text("".join(lines), "utf-8")
    for name in ("rates.json", "done.json"):
        (out / name).write_text((results / name).read_text("utf-8"), "utf-8")


def pack(results: Path, out: Path) -> None:
    """Write figures, and arrays as tar files, those that `CARRIED` has first."""
    copy_results(results, out)
    found = {tuple(file.stem.split("--")): file for file in sorted(results.glob("worker-*/arrays/*.npz"))}
    wanted = [
        file
        for task, models in CARRIED.items()
        for (_, kept, model, _), file in found.items()
        if kept == task and (not models or model in models)
    ]
    total, packed = 0, 0
    for number in range(MAX_FILES):
        size = 0
        with tarfile.open(out / f"arrays-{number}.tar", "w") as archive:
            while packed < len(wanted) and (size + wanted[packed].stat().st_size) < FILE_BYTES and total < PACK_BYTES:
                file = wanted[packed]
                archive.add(file, f"arrays/{file.name}")
                size, total, packed = size + file.stat().st_size + 1024, total + file.stat().st_size, packed + 1
    print(f"packed {packed} of {len(wanted)} arrays, {total / 1e6:.1f} MB")


def unpack(packed: Path, results: Path) -> None:
    """Add what was carried home to a folder of results; a cell that is measured again replaces the former one."""
    results.mkdir(parents=True, exist_ok=True)
    with (results / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write((packed / "results.jsonl").read_text("utf-8"))
    (results / "rates.json").write_text((packed / "rates.json").read_text("utf-8"), "utf-8")
    for each in sorted(packed.glob("arrays-*.tar")):
        with tarfile.open(each) as archive:
            archive.extractall(results, filter="data")


def classify(arguments: argparse.Namespace) -> None:
    """Classify the row vectors that are in a folder of results, one model and seed after the other."""
    worker = Worker(0, arguments)
    kept = [record for record in Results.open(arguments.out) if record.task in AFTER and record.error is None]
    for record in sorted(kept, key=lambda each: (each.seed, each.task != "row_vectors", each.model)):
        if record.corpus not in worker.paths or (arguments.models and record.model not in arguments.models):
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


def classify_pipelines(arguments: argparse.Namespace) -> None:
    """Measure raw features and TableVectorizer, which need no model; the frozen backbone's figures have them."""

    def run(_: TableEncoder, data: EvaluationData, *, task: Task) -> TaskResult:
        pool = find_pool(data)
        arrays = {"vectors": np.zeros((len(pool.rows), 0)), "labels": pool.labels, "row": pool.rows}
        measures = task(arrays, data).measures
        return TaskResult({name: value for name, value in measures.items() if not name.startswith("navi_fe")})

    worker, wanted = Worker(0, arguments), {f"features_{each}" for each in arguments.pipelines}
    tasks = tuple(
        replace(each, after=None, run=partial(run, task=each)) for each in CLASSIFICATION if each.name in wanted
    )
    for corpus in worker.paths:
        spec = replace(SPECS["frozen"], tasks=tuple(wanted))
        config = GridConfig(name=corpus, models=(spec,), tasks=tasks, pretrain=worker.shared)
        print(Grid(worker.open_data(corpus), Results.open(arguments.out), config).run())


def main() -> None:
    """Run the grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", metavar="NAME=CORPUS")
    parser.add_argument("--gold", type=Path, help="folder of gold")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--backbone")
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--models", type=lambda text: text.split(","), default=())
    parser.add_argument("--tables", type=Path, help="folder of tables by corpus; prepares corpora that are not there")
    parser.add_argument("--prepare", action="store_true", help="prepare the corpora, and train nothing")
    parser.add_argument("--rates", type=Path, help="validation losses that are known, by corpus, baseline and rate")
    parser.add_argument("--done", type=Path, help="file of results: models in it are not trained again")
    parser.add_argument("--list", action="store_true", help="print the jobs that are left, and do nothing")
    parser.add_argument("--unpack", type=Path, help="folder that --pack wrote")
    parser.add_argument("--classifiers", type=lambda text: text.split(","), default=(), help="classify, train nothing")
    parser.add_argument("--pipelines", type=lambda text: text.split(","), default=(), help="classify raw features")
    parser.add_argument("--rows", type=int, default=1000)
    arguments = parser.parse_args()
    arguments.begun = time.time()
    if arguments.list:
        print(*list_left(arguments, find_done(arguments.done, arguments.rates)), sep="\n")
        return
    if not (arguments.gold and arguments.out):
        parser.error("--gold and --out are needed")
    if arguments.unpack:
        unpack(arguments.unpack, arguments.out)
    if arguments.classifiers or arguments.pipelines:
        for kinds, run in ((arguments.classifiers, classify), (arguments.pipelines, classify_pipelines)):
            if kinds:
                run(arguments)
        return
    if arguments.tables:
        prepare_corpora(arguments)
    if arguments.prepare:
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    left = run_jobs(arguments, arguments.begun + arguments.seconds)
    print(f"{len(left)} jobs left: {', '.join(map(str, left))}")
    if arguments.pack:
        pack(arguments.out, arguments.pack)


if __name__ == "__main__":
    main()
