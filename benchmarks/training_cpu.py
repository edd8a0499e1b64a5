"""Training on the CPU: rows/s of NAVI beside the straightforward way of doing the same.

    python benchmarks/training_cpu.py [--corpus CORPUS] [--rows 32] [--steps 2]

The straightforward way, written here once as the thing to compare with: every cell is tokenised by string in every
step, rows are padded to the longest, logits are computed at all positions, the masked and the plain copy take a pass
each, attributes are encoded row by row, and alignment loops over headers in Python. Same backbone, same rows:
those of a prepared corpus, or simulated ones. Each way has a process of its own; their steps are taken in turn.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from transformers import BertForMaskedLM, BertTokenizerFast

from navi import prepare
from navi.backbones import find_backbone
from navi.batches import BatchBuilder, SpecialTokens, plan_epoch
from navi.corpus import ROLE_HIGH, ROLE_LOW, Corpus
from navi.model import load_backbone
from navi.simulator import SimulatorConfig, write_catalogues
from navi.training import make_preset
from navi.training.step import Stepper, keep_freed_memory


class PlainWay:
    """Masked segment modelling and alignment over padded rows, cell by cell."""

    def __init__(self, corpus: Corpus) -> None:
        folder = find_backbone("minilm")
        self.tokenizer = BertTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
        self.bert = BertForMaskedLM.from_pretrained(folder)
        self.attribute_bert = BertForMaskedLM.from_pretrained(folder).bert
        width = self.bert.config.hidden_size
        self.project = torch.nn.Sequential(torch.nn.Linear(3 * width, 2 * width), torch.nn.GELU(),
                                           torch.nn.LayerNorm(2 * width), torch.nn.Linear(2 * width, width),
                                           torch.nn.LayerNorm(width))  # fmt: skip
        modules = torch.nn.ModuleList([self.bert, self.attribute_bert, self.project])
        self.optimizer = torch.optim.AdamW(modules.parameters(), lr=1e-4)
        self.corpus = corpus
        arrays = corpus.arrays
        self.roles = {
            (int(table), int(header)): int(role)
            for table, header, role in zip(arrays.column_table, arrays.column_header, arrays.column_role, strict=True)
        }

    def read_row(self, row: int) -> list[tuple[int, str, str, str]]:
        """Return (header number, attribute, header, value) of each cell, as text."""
        corpus, arrays = self.corpus, self.corpus.arrays
        cells = arrays.row_segments[arrays.row_offsets[row] : arrays.row_offsets[row + 1]]
        return [
            (int(arrays.segment_header[s]), corpus.attributes[int(arrays.segment_attribute[s])].as_py(),
             corpus.headers[int(arrays.segment_header[s])].as_py(), corpus.values[int(arrays.segment_value[s])].as_py())
            for s in cells
        ]  # fmt: skip

    def embed_attribute(self, text: str) -> torch.Tensor:
        tokens = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)
        hidden = self.attribute_bert.embeddings(tokens["input_ids"])
        for layer in self.attribute_bert.encoder.layer[3:5]:
            hidden = layer(hidden)
            hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return hidden[0].mean(0)

    def serialise(self, cells: list, mask: bool) -> tuple[list, list, list, list, list]:
        """Return ids, labels, positions, spans and attribute vectors of one row."""
        ids, labels, positions = [101], [-100], [0]
        spans, vectors = [], [torch.zeros(self.bert.config.hidden_size)]
        for _, attribute, header, value in cells:
            vector = self.embed_attribute(attribute)
            head = self.tokenizer(header, add_special_tokens=False)["input_ids"][:20]
            tail = self.tokenizer(value, add_special_tokens=False)["input_ids"][:20]
            regime = random.choices(["header", "value", "none"], [0.4, 0.4, 0.2])[0] if mask else "none"
            start = len(ids)
            tokens = [*head, 1024, *tail, 102]
            hidden = range(len(head)) if regime == "header" else range(len(head) + 1, len(tokens) - 1)
            chosen = set(hidden) if regime != "none" else set()
            ids += [103 if place in chosen else token for place, token in enumerate(tokens)]
            labels += [token if place in chosen else -100 for place, token in enumerate(tokens)]
            positions += list(range(len(tokens)))
            vectors += [vector] * len(tokens)
            spans.append((start, start + len(head), start + len(head) + 1, start + len(tokens) - 1, vector))
        return ids, labels, positions, spans, vectors

    def forward(self, rows: list, mask: bool):
        made = [self.serialise(cells, mask) for cells in rows]
        length = max(len(ids) for ids, *_ in made)
        ids, labels, positions = (
            torch.tensor([one[part] + [fill] * (length - len(one[part])) for one in made])
            for part, fill in ((0, 0), (1, -100), (2, 0))
        )
        padding = torch.zeros(self.bert.config.hidden_size)
        added = torch.stack([torch.stack(one[4] + [padding] * (length - len(one[4]))) for one in made])
        words = self.bert.bert.embeddings.word_embeddings(ids) + added
        output = self.bert(
            inputs_embeds=words, position_ids=positions, attention_mask=(ids != 0).long(), output_hidden_states=True
        )
        return output, labels, [one[3] for one in made]

    def align(self, hidden: torch.Tensor, spans: list, rows: list, tables: list[int]) -> torch.Tensor:
        losses = []
        for table in set(tables):
            members = [place for place, one in enumerate(tables) if one == table]
            low, high = [], {}
            for place in members:
                for (number, attribute, _, _), (a, b, c, d, vector) in zip(rows[place], spans[place], strict=True):
                    role = self.roles[table, number]
                    header, value = hidden[place, a:b].mean(0), hidden[place, c:d].mean(0)
                    segment = self.project(torch.cat([vector, header, value]))
                    if role == ROLE_LOW:
                        low.append((segment, attribute, vector))
                    elif role == ROLE_HIGH:
                        high.setdefault(number, []).append((segment, value))
            anchors = {attribute: vector for _, attribute, vector in low}
            for segment, attribute, vector in low:
                rivals = [vector] + [other for name, other in anchors.items() if name != attribute]
                losses.append(self.contrast(segment, torch.stack(rivals), 0, 0.1))
            for group in high.values():
                values = torch.stack([value for _, value in group])
                for place, (segment, _) in enumerate(group):
                    losses.append(self.contrast(segment, values, place, 0.02))
        return torch.stack(losses).mean() if losses else hidden.sum() * 0

    @staticmethod
    def contrast(query: torch.Tensor, candidates: torch.Tensor, own: int, temperature: float) -> torch.Tensor:
        similarity = F.cosine_similarity(query[None], candidates) / temperature
        return F.cross_entropy(similarity[None], torch.tensor([own]))

    def step(self, row_ids: np.ndarray) -> None:
        rows = [self.read_row(int(row)) for row in row_ids]
        tables = [int(self.corpus.arrays.row_table[row]) for row in row_ids]
        masked, labels, _ = self.forward(rows, mask=True)
        loss = F.cross_entropy(masked.logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        plain, _, spans = self.forward(rows, mask=False)
        loss = loss + 0.0125 * self.align(plain.hidden_states[-1], spans, rows, tables)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def simulate(folder: str) -> Corpus:
    write_catalogues(f"{folder}/tables", SimulatorConfig(num_rows=2000, seed=3))
    return prepare([f"{folder}/tables"], f"{folder}/corpus")


def plan_steps(corpus: Corpus, num_rows: int, num_steps: int) -> list[np.ndarray]:
    sampler = dataclasses.replace(make_preset("paper").sampler, rows_per_batch=num_rows)
    return plan_epoch(corpus.rows_of("train"), corpus.arrays.row_table, sampler, seed=0, epoch=0)[:num_steps]


def make_step(way: str, corpus: Corpus) -> Callable[[np.ndarray], object]:
    if way == "plain":
        return PlainWay(corpus).step
    config = make_preset("paper")
    builder = BatchBuilder(corpus.arrays, SpecialTokens.of(corpus.tokenizer), masking=config.masking)
    stepper = Stepper(load_backbone("minilm", **config.model.as_settings()), builder, config)
    return lambda rows: stepper.update(stepper.accumulate(stepper.build(rows, 0, None), 0), 1.0)


def take_steps(way: str, folder: Path, pipe: Connection) -> None:
    """Take a step with the rows that come through the pipe, and send back its seconds."""
    torch.manual_seed(0)
    random.seed(0)
    step = make_step(way, Corpus.open(folder))
    with keep_freed_memory(torch.device("cpu")) if way == "navi" else nullcontext():  # as `pretrain` does it
        while (rows := pipe.recv()) is not None:
            begun = time.perf_counter()
            step(rows)
            pipe.send(time.perf_counter() - begun)


def main(num_rows: int, num_steps: int, prepared: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus.open(prepared) if prepared else simulate(folder)
        warm_up, *plan = plan_steps(corpus, num_rows, num_steps + 1)
        context, workers, took = get_context("spawn"), {}, {}
        for way in ("navi", "plain"):
            workers[way], end = context.Pipe()
            context.Process(target=take_steps, args=(way, corpus.path, end), daemon=True).start()
            workers[way].send(warm_up)
            workers[way].recv()
            took[way] = 0.0
        for rows in plan:  # in turn: the machine is not equally fast from minute to minute
            for way, worker in workers.items():
                worker.send(rows)
                took[way] += worker.recv()
        for worker in workers.values():
            worker.send(None)
        found = {way: sum(map(len, plan)) / seconds for way, seconds in took.items()}
        tokens = np.mean([corpus.arrays.count_row_tokens()[rows].mean() for rows in plan])
    print(
        f"training_cpu rows_per_step={num_rows} steps={num_steps} tokens_per_row={tokens:.1f} "
        f"threads={torch.get_num_threads()} "
        f"navi_rows_per_s={found['navi']:.2f} plain_rows_per_s={found['plain']:.2f} "
        f"ratio={found['navi'] / found['plain']:.2f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--corpus", help="a corpus that `navi prepare` wrote")
    arguments = parser.parse_args()
    main(arguments.rows, arguments.steps, arguments.corpus)
