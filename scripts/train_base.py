"""Train the base model further on hand-written schemas, beside a corpus of open tables.

    python scripts/train_base.py CORPUS scripts/schemas -o FOLDER [--from navi-base] [--steps 1000]

A step has rows of the corpus, as in every run of `navi pretrain`, and two views of some texts: of columns and rows of
the corpus, and of the columns of a few domains of the schemas, where the views are what two organisations call and hold
of one concept. Texts of the corpus stay where the model had them, those of a concept near the mean of its two columns.
One domain in three is kept out (`schema_tables.is_kept_out`), and its columns are looked for in another source: their
MRR is printed. FOLDER gets `weights.safetensors` and `pretrain.json`, which scripts/pack_base.py reads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from schema_tables import SchemaColumn, list_domains

from navi.batches import BatchBuilder, SpecialTokens, pack_texts, plan_epoch
from navi.columns.texts import FIRST_VIEW, embed_texts, make_views, write_column
from navi.corpus import Corpus
from navi.corpus.hashing import hash_texts
from navi.corpus.tokens import TextTokenizer
from navi.losses import ViewsBatch
from navi.model import NaviModel, Runner, load_backbone
from navi.randomness import make_key
from navi.training import PretrainConfig, TrainingResult
from navi.training.metrics import Validation
from navi.training.step import SUMS, Stepper, scale_rate

MAX_TOKENS = 64
HEADER_SHARE, VALUE_SHARE = 0.25, 0.15
"""Share of the views of a column that show its header alone, and its values alone."""

Floats = NDArray[np.float32]


class SchemaViews:
    """Draws texts of the corpus, and columns that two sources of a domain have: a function of seed and step."""

    def __init__(self, corpus: Corpus, model: NaviModel, folder: Path, config: PretrainConfig, num_pairs: int) -> None:
        self.seed, self.num_texts, self.num_pairs = config.training.seed, config.views.columns_per_step, num_pairs
        self.tokenizer, self.special = TextTokenizer(corpus.tokenizer), SpecialTokens.of(corpus.tokenizer)
        rows = corpus.rows_of("train")
        self.views = make_views(corpus, self.tokenizer, rows, config.views.num_views, self.seed)
        self.domains = list(list_domains(folder, "training").values())
        self.folder, self.before = folder, Runner(deepcopy(model), self.special, devices=["cpu"], precision="bfloat16")
        columns = [column for sources in self.domains for source in sources.values() for column in source]
        texts = [write_column(column.header, column.values) for column in columns]
        headers = [write_column(column.header, []) for column in columns]
        vectors = embed_texts(self.before, self.tokenizer, [*texts, *headers])
        clean = np.split(vectors, 2)
        self.clean = {id(column): (clean[0][place], clean[1][place]) for place, column in enumerate(columns)}
        print(
            f"{len(self.views)} texts of the corpus, {len(columns)} columns of {len(self.domains)} domains", flush=True
        )

    def draw(self, step: int, _rank: int = 0, _count: int = 1) -> ViewsBatch:
        """Return the texts of a step: first views, second views, and texts as they are."""
        key = make_key(self.seed, step, 0)
        random = Random(key)
        drawn = self.views.choose(self.num_texts, key)
        first, second = np.array([random.sample(range(self.views.num_texts - FIRST_VIEW), 2) for _ in drawn]).T
        clean = np.array([random.randrange(FIRST_VIEW) for _ in drawn])
        begins = drawn * self.views.num_texts
        own = [begins + FIRST_VIEW + first, begins + FIRST_VIEW + second, begins + clean]
        pairs = self._draw_pairs(random)
        written: list[list[str]] = [[], [], []]
        targets, meanings = [], []
        for one, other in pairs:
            written[0].append(view_column(one, random))
            written[1].append(view_column(other, random))
            header_alone, kept = random.random() < 0.5, random.choice((one, other))
            written[2].append(write_column(kept.header, [] if header_alone else kept.values))
            targets.append(self.clean[id(one)][header_alone] + self.clean[id(other)][header_alone])
            meanings.append(one.concept)
        theirs = self.tokenizer.tokenise([text for lot in written for text in lot], MAX_TOKENS)
        # One list of texts: those of the corpus, then those of the schemas.
        ours = self.views.texts
        offsets = np.concatenate([ours.offsets, ours.offsets[-1] + theirs.offsets[1:]])
        places = len(ours.lengths) + np.arange(3 * len(pairs)).reshape(3, -1)
        order = np.concatenate([np.concatenate([each, more]) for each, more in zip(own, places, strict=True)])
        return ViewsBatch(
            texts=pack_texts(offsets, np.concatenate([ours.tokens, theirs.tokens]), order, self.special),
            meaning=torch.from_numpy(
                np.concatenate([self.views.meanings[drawn], hash_texts(meanings).astype(np.int64) | (1 << 40)])
            ),
            target=torch.from_numpy(np.concatenate([self.before.embed_texts(ours, own[2]), np.stack(targets)])),
        )

    def measure_columns(self, model: NaviModel, device: torch.device, every: int = 1) -> dict[str, float]:
        """Return the MRR of the right column of another source, over some domains that are kept out."""
        # A runner takes the model it is given to its own precision, and dropout away.
        runner = Runner(deepcopy(model), self.special, devices=[device], precision="bfloat16")
        found = measure_domains(runner, self.tokenizer, self.folder, every)
        return {f"mrr_{kind}": mrr for kind, mrr in found.items()}

    def _draw_pairs(self, random: Random) -> list[tuple[SchemaColumn, SchemaColumn]]:
        """Return columns of two sources of some domains; one that the other source lacks is beside itself."""
        pairs: list[tuple[SchemaColumn, SchemaColumn]] = []
        for domain in random.sample(self.domains, len(self.domains)):
            one, other = ({column.concept: column for column in domain[name]} for name in random.sample("abc", 2))
            pairs += [
                (one.get(concept, other.get(concept)), other.get(concept, one.get(concept))) for concept in one | other
            ]
            if len(pairs) >= self.num_pairs:
                break
        return pairs[: self.num_pairs]


def view_column(column: SchemaColumn, random: Random) -> str:
    """Return a column as one reads it: some of its values in any order, its header alone, or its values alone."""
    draw = random.random()
    values = random.sample(column.values, random.randint(1, len(column.values))) if column.values else []
    if draw < HEADER_SHARE:
        values = []
    header = "" if draw > 1 - VALUE_SHARE else column.header
    return write_column(header, values) or write_column(column.header, column.values)


def measure_domains(runner: Runner, tokenizer: TextTokenizer, folder: Path, every: int) -> dict[str, float]:
    """Return the MRR of the right column of another source, over some domains that are kept out."""
    ranks: dict[str, list[float]] = {"both": [], "header": [], "values": []}
    for sources in list(list_domains(folder, "kept-out").values())[::every]:
        for kind, found in ranks.items():
            vectors = {
                name: embed_texts(runner, tokenizer, [write_column(*show(column, kind)) for column in source])
                for name, source in sources.items()
            }
            for one, other in combinations(sources, 2):
                score = vectors[one] @ vectors[other].T
                place = {column.concept: number for number, column in enumerate(sources[other])}
                for row, column in zip(score, sources[one], strict=True):
                    if column.concept in place and row.any() and vectors[other][place[column.concept]].any():
                        found.append(1 / (1 + (row > row[place[column.concept]]).sum()))
    return {kind: float(np.mean(each)) for kind, each in ranks.items()}


def show(column: SchemaColumn, kind: str) -> tuple[str, tuple[str, ...]]:
    """Return the header and the values of a column, one of them taken away unless `kind` is both."""
    return column.header if kind != "values" else "", column.values if kind != "header" else ()


def plan_steps(corpus: Corpus, config: PretrainConfig, num_steps: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the epoch and the rows of each step."""
    rows, epoch, left = corpus.rows_of("train"), 0, num_steps
    while left:
        for step in plan_epoch(rows, corpus.arrays.row_table, config.sampler, seed=config.training.seed, epoch=epoch)[
            :left
        ]:
            yield epoch, step
            left -= 1
        epoch += 1


def resume(model: NaviModel, file: Path) -> tuple[int, float]:
    """Give the model the weights of a run that was stopped; return its step and seconds. The moments begin anew."""
    with safe_open(file, "pt") as held, torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(held.get_tensor(name))
        return int(held.metadata()["step"]), float(held.metadata()["seconds"])


def main(options: argparse.Namespace) -> None:
    """Train, measure, save."""
    torch.set_num_threads(options.threads)
    corpus = Corpus.open(options.corpus)
    config = PretrainConfig.from_dict(
        {
            "backbone": options.start,
            "sampler": {"rows_per_batch": options.rows, "tables_per_batch": 8},
            "views": {"weight": 1.0, "keep_weight": options.keep, "columns_per_step": options.texts},
            "training": {
                "max_steps": options.steps,
                "learning_rate": options.rate,
                "new_learning_rate": options.rate,
                "precision": options.precision,
                "validate_rows": 200,
                "seed": options.seed,
            },
        }
    )
    model = load_backbone(options.start, **config.model.as_settings())
    special = SpecialTokens.of(corpus.tokenizer)
    align = config.alignment.weight > 0
    builder = BatchBuilder(corpus.arrays, special, masking=config.masking, align=align, seed=options.seed)
    views = SchemaViews(corpus, model, options.schemas, config, options.pairs)
    stepper = Stepper(model, builder, config, views=views)  # type: ignore[arg-type]
    validation = Validation(corpus, special, config)
    measures, sums, started, before = [], np.zeros(len(SUMS)), time.monotonic(), 0.0
    file = Path(options.out) / "weights.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)

    def measure(step: int) -> None:
        is_end = step in (0, options.steps)
        found = validation(stepper) if is_end else views.measure_columns(model, stepper.device, options.every)
        if is_end:
            measures.append(found)
        weights = {name: weight.detach().contiguous() for name, weight in model.named_parameters()}
        if step > 0:
            save_file(weights, file, metadata={"step": str(step), "seconds": str(before + time.monotonic() - started)})
        print(f"step {step}, {before + time.monotonic() - started:.0f} s: {found}", flush=True)

    measure(0)
    begin, before = resume(model, file) if options.resume else (0, 0.0)
    for step, (epoch, rows) in enumerate(plan_steps(corpus, config, options.steps)):
        if step < begin:
            continue
        made = stepper.build(rows, epoch, None, step)
        step_sums, _ = stepper.update(
            stepper.accumulate(made, step), scale_rate(step, options.steps, config.training.warmup_share)
        )
        sums += step_sums.numpy()
        if (step + 1) % 20 == 0:
            seconds = time.monotonic() - started
            print(
                f"{step + 1} {seconds:.0f} s", dict(zip(SUMS, (sums / 20).round(3).tolist(), strict=True)), flush=True
            )
            sums[:] = 0
        if (step + 1) % options.measure_every == 0 and step + 1 < options.steps:
            measure(step + 1)
    measure(options.steps)
    TrainingResult(
        path=Path(options.out),
        config=config.to_dict(),
        corpus={
            "fingerprint": corpus.fingerprint,
            "tables": len(corpus.tables),
            "rows": corpus.arrays.num_rows,
            "train_rows": len(corpus.rows_of("train")),
            "settings": corpus.config.as_settings(),
        },
        num_steps=options.steps,
        skipped=0,
        seconds=before + time.monotonic() - started,
        device=f"cpu, {stepper.dtype}".replace("torch.", ""),
        train={},
        validation=measures,
        notes=[],
    ).save()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("schemas", type=Path)
    parser.add_argument("-o", "--out", required=True)
    parser.add_argument("--from", dest="start", default="navi-base")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--resume", action="store_true", help="go on from the weights in FOLDER")
    parser.add_argument("--rows", type=int, default=16, help="rows of the corpus a step")
    parser.add_argument("--texts", type=int, default=96, help="columns and rows of the corpus a step, read as texts")
    parser.add_argument("--pairs", type=int, default=192, help="columns of the schemas a step")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--keep", type=float, default=1.0)
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--every", type=int, default=8, help="measure every so many-th domain on the way")
    parser.add_argument("--measure-every", type=int, default=100)
    main(parser.parse_args())
