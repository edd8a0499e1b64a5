"""Fixtures of all stages: a tiny random BERT, a model trained from it on simulated catalogues, the command line, and
small corpora made of integers. torch is imported only when used."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import runpy
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings

from navi.simulator import SimulatorConfig, Truth, World, simulate, write_catalogues

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from typer.testing import Result

    from navi.batches import SpecialTokens
    from navi.corpus import Corpus, PrepareConfig, SegmentArrays
    from navi.tables import Chunk
    from navi.training import PretrainConfig
    from navi.verbs import Navi

# Matrices here are tiny: threads that wait for each other cost more than they bring. Read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Test runners set the width of the screen for their workers; what is printed must not depend on it.
os.environ.pop("COLUMNS", None)

# A machine busy with something else must not fail a law.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

CATALOGUES = {"num_catalogues": 5, "num_rows": 400, "seed": 0}
SPECIAL_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
VOCABULARY_SIZE = 200
WORDS = """
title name year genre actor actors director country language price brand color size model currency rating votes runtime
plot id url date the of a in film movie product drama comedy horror action english french german korean usa uk red green
blue black white small large new old man woman night day love war star king house dark city 1999 2001 2010 true false
"""
BERT_SHAPE = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
    # Ten times BERT's: with small weights attention is nearly uniform, and errors in it would hide.
    "initializer_range": 0.2,
}

TOY_HEADERS = (
    ("title", "year", "genre", "language"),
    ("name", "date", "movie genre", "country language"),
    ("film title", "year", "genre", "language"),
    ("movie", "date", "genre", "film language"),
)
TOY_LANGUAGES = {"drama": "english", "comedy": "french", "horror": "german"}
FAST: dict[str, Any] = {
    "sampler": {"rows_per_batch": 16, "tables_per_batch": 4},
    # The same arithmetic whatever instructions a machine has.
    "training": {"epochs": 2, "log_every": 2, "workers": 0, "checkpoint_minutes": None, "precision": "float32"},
}


def list_vocabulary() -> list[str]:
    """Return the words of the tiny tokenizer: every ASCII text can be put together from them."""
    signs = ":,.;-_/'()&!?#%+*="
    vocabulary = [*SPECIAL_WORDS, *signs, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS.split()]
    vocabulary = list(dict.fromkeys(vocabulary))[:VOCABULARY_SIZE]
    return vocabulary + [f"[unused{i}]" for i in range(VOCABULARY_SIZE - len(vocabulary))]


def make_tokenizer(vocabulary: Sequence[str]) -> Tokenizer:
    """Return a WordPiece tokenizer in small letters that knows these words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece({word: number for number, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(list(SPECIAL_WORDS))
    return tokenizer


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random BERT of three layers: config.json, tokenizer.json, model.safetensors; do not change it."""
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("tiny-bert")
    make_tokenizer(list_vocabulary()).save(str(folder / "tokenizer.json"))
    shape = {key: entry for key, entry in BERT_SHAPE.items() if key != "model_type"}
    with torch.random.fork_rng():
        torch.manual_seed(7)
        BertModel(BertConfig(**shape), add_pooling_layer=False).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(BERT_SHAPE))
    return folder


@pytest.fixture(scope="session")
def world() -> World:
    """The catalogues that the tiny model learns from, in memory."""
    return simulate(SimulatorConfig(**CATALOGUES))


@pytest.fixture(scope="session")
def catalogues(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same catalogues as files."""
    folder = tmp_path_factory.mktemp("catalogues")
    write_catalogues(folder, SimulatorConfig(**CATALOGUES))
    return folder


@pytest.fixture(scope="session")
def truth(world: World) -> Truth:
    """What is true of the catalogues."""
    return world.truth


@pytest.fixture(scope="session")
def corpus_dir(catalogues: Path, tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogues prepared for the tiny backbone."""
    from navi.corpus import PrepareConfig, prepare

    folder = tmp_path_factory.mktemp("prepared") / "corpus"
    # The tiny vocabulary spells most words out, which makes rows long: cut values keep the tests quick.
    config = PrepareConfig(backbone=str(tiny_backbone), workers=1, max_unknown_share=None, max_value_tokens=8)
    prepare([catalogues], folder, config)
    return folder


@pytest.fixture(scope="session")
def model_dir(corpus_dir: Path, tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory: the tiny backbone pretrained for a few steps; do not change it."""
    from navi.corpus import Corpus
    from navi.training import PretrainConfig, pretrain

    folder = tmp_path_factory.mktemp("trained") / "model"
    settings = {
        "backbone": str(tiny_backbone),
        "training": {"max_steps": 20, "workers": 0, "validate_rows": 8, "precision": "float32", "learning_rate": 1e-3},
        "sampler": {"rows_per_batch": 8, "tables_per_batch": 4},
    }
    return pretrain(Corpus.open(corpus_dir), folder, PretrainConfig.from_dict(settings)).path


@pytest.fixture(scope="session")
def navi(model_dir: Path) -> Navi:
    """The tiny trained model, opened on the CPU; do not change it."""
    from navi.verbs import Navi

    return Navi.from_pretrained(model_dir, device="cpu")


@pytest.fixture
def navi_command() -> Callable[..., Result]:
    """Run `navi` with these arguments; what a test did not expect is raised."""
    from typer.testing import CliRunner

    from navi.cli import app

    def run(*arguments: object, code: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        assert "\x1b[" not in result.output
        return result

    return run


@pytest.fixture(scope="session")
def forkserver() -> multiprocessing.context.ForkServerContext:
    """Starts processes that have the imports of training done, and no threads begun; there is one for all tests."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["navi.training.trainer", "navi.corpus", "navi.cli.app", "navi.columns"])
    return context


@pytest.fixture(scope="session")
def toy_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four tables of films with headers of their own; the language follows from the genre."""
    folder = tmp_path_factory.mktemp("toy-tables")
    draw = random.Random(0)
    for number, headers in enumerate(TOY_HEADERS):
        lines = []
        for _ in range(40):
            title = f"{draw.choice(('night', 'day', 'love', 'war'))} {draw.choice(('king', 'house', 'city'))}"
            genre = draw.choice(tuple(TOY_LANGUAGES))
            cells = (title, draw.choice(("1999", "2001", "2010")), genre, TOY_LANGUAGES[genre])
            lines.append(json.dumps(dict(zip(headers, cells, strict=True))))
        (folder / f"films{number}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="session")
def toy_corpus(toy_tables: Path, tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The corpus of the toy tables: about 130 training rows, 9 steps an epoch under the settings of `make_config`."""
    from navi.corpus import PrepareConfig, prepare

    config = PrepareConfig(backbone=str(tiny_backbone), workers=1, max_unknown_share=None)
    return prepare([toy_tables], tmp_path_factory.mktemp("toy") / "corpus", config)


@pytest.fixture(scope="session")
def make_config(tiny_backbone: Path) -> Callable[..., PretrainConfig]:
    """A maker of settings for runs of a second; keywords are sections, such as `training={"epochs": 1}`."""
    from navi.training import PretrainConfig

    def make(**sections: Any) -> PretrainConfig:
        base = PretrainConfig.from_dict({"backbone": str(tiny_backbone), **FAST})
        return PretrainConfig.from_dict(sections, base=base)

    return make


@pytest.fixture(scope="session")
def word_tokenizer() -> Tokenizer:
    """A WordPiece tokenizer that knows a few words, ASCII letters, digits and signs, and nothing beyond."""
    words = [*SPECIAL_WORDS, "title", "year", "genre", "drama", "comedy", "the", "film"]
    return make_tokenizer([*words, *LETTERS, *(f"##{letter}" for letter in LETTERS), *":.,-[]/|"])


@pytest.fixture(scope="session")
def prepare_config(word_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> PrepareConfig:
    """Default settings of a corpus with the tokenizer above, in one process."""
    from navi.corpus import PrepareConfig

    folder = tmp_path_factory.mktemp("word-tokenizer")
    word_tokenizer.save(str(folder / "tokenizer.json"))
    return PrepareConfig(backbone=str(folder), workers=1)


@pytest.fixture(scope="session")
def make_chunk() -> Callable[[Sequence[Mapping[str, str]]], Chunk]:
    """A maker of chunks from rows."""
    import pyarrow as pa

    from navi.tables import Chunk

    def make(rows: Sequence[Mapping[str, str]]) -> Chunk:
        headers = list(dict.fromkeys(header for row in rows for header in row))
        cells = [(place, headers.index(header), row[header]) for place, row in enumerate(rows) for header in row]
        return Chunk(
            headers=tuple(headers),
            cell_row=np.array([cell[0] for cell in cells], np.int32),
            cell_header=np.array([cell[1] for cell in cells], np.int32),
            cell_value=pa.array([cell[2] for cell in cells], pa.string()),
            row_number=np.arange(1, len(rows) + 1, dtype=np.int64),
        )

    return make


@pytest.fixture(scope="session")
def write_tables() -> Callable[[Path, Mapping[str, Sequence[Mapping[str, str]]]], Path]:
    """A writer of tables as JSON lines into a new folder."""

    def write(folder: Path, tables: Mapping[str, Sequence[Mapping[str, str]]]) -> Path:
        folder.mkdir(parents=True)
        for name, rows in tables.items():
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
            (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def film_tables(tmp_path: Path, write_tables: Callable[..., Path]) -> Path:
    """A folder with three small tables of films."""
    genres = ["drama", "comedy", "horror"]
    tables = {
        "amber": [{"title": f"film {n}", "genre": genres[n % 3], "year": str(1990 + n % 7)} for n in range(60)],
        "birch": [{"Movie_Title": f"the {n}", "releaseYear": str(1990 + n % 5), "colour": "yes"} for n in range(40)],
        "cedar": [{"title": f"night {n}", "cast.0.name": f"actor {n % 4}"} for n in range(20)],
    }
    return write_tables(tmp_path / "films", tables)


@pytest.fixture(scope="session")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[str, list[str]]]:
    """Open a page in a headless Chromium, and return its DOM when its scripts have run, and what they complained of."""
    chromium = next((found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None)
    if chromium is None:
        pytest.skip("there is no Chromium here")
    profile = tmp_path_factory.mktemp("profile")

    def run(file: Path, *flags: str) -> tuple[str, list[str]]:
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
        command += [f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--dump-dom", *flags, file.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return run


@pytest.fixture(scope="session")
def special() -> SpecialTokens:
    """The special tokens of the tiny backbone."""
    from navi.batches import SpecialTokens

    place = {word: number for number, word in enumerate(list_vocabulary())}
    regular = np.arange(len(SPECIAL_WORDS), VOCABULARY_SIZE)
    return SpecialTokens(
        cls=place["[CLS]"],
        sep=place["[SEP]"],
        colon=place[":"],
        comma=place["[SEP]"],
        mask=place["[MASK]"],
        regular=regular,
    )


@pytest.fixture(scope="session")
def make_arrays() -> Callable[..., SegmentArrays]:
    """A maker of small random corpora; see `draw_arrays` for its settings."""
    return draw_arrays


def draw_arrays(
    *,
    seed: int = 0,
    num_tables: int = 3,
    num_rows: int = 24,
    num_headers: int = 9,
    num_attributes: int = 7,
    num_values: int = 15,
    columns_per_table: int = 6,
    cells: tuple[int, int] = (1, 6),
    roles: tuple[int, ...] = (1, 1, 2, 2, 0, 0),
    value_tokens: tuple[int, int] = (1, 6),
) -> SegmentArrays:
    """Return random arrays: headers share attributes, tables share headers, rows share values and leave cells out.

    `cells` and `value_tokens` are the least and the most; `roles` are dealt out again to each table's columns.
    """
    from navi.corpus.arrays import SegmentArrays

    rng = np.random.default_rng(seed)
    row_table = rng.integers(0, num_tables, num_rows)
    columns = [np.sort(rng.choice(num_headers, columns_per_table, replace=False)) for _ in range(num_tables)]
    segments: dict[tuple[int, int], int] = {}
    row_segments: list[int] = []
    row_offsets = [0]
    for table in row_table:
        count = int(rng.integers(cells[0], min(cells[1], columns_per_table) + 1))
        for header in rng.permutation(columns[table])[:count]:
            pair = (int(header), int(rng.integers(num_values)))
            row_segments.append(segments.setdefault(pair, len(segments)))
        row_offsets.append(len(row_segments))
    pairs = np.array(list(segments), dtype=np.int32).reshape(-1, 2)
    attribute_of = (np.arange(num_headers) % num_attributes).astype(np.int32)
    column_header = np.concatenate(columns).astype(np.int32)
    header_offsets, header_tokens = _draw_texts(rng, num_headers, (1, 3))
    value_offsets, drawn_value_tokens = _draw_texts(rng, num_values, value_tokens)
    attribute_offsets, attribute_tokens = _draw_texts(rng, num_attributes, (1, 4))
    return SegmentArrays(
        row_offsets=np.array(row_offsets, dtype=np.int64),
        row_segments=np.array(row_segments, dtype=np.int32),
        row_table=row_table.astype(np.int32),
        segment_attribute=attribute_of[pairs[:, 0]],
        segment_header=pairs[:, 0].copy(),
        segment_value=pairs[:, 1].copy(),
        header_offsets=header_offsets,
        header_tokens=header_tokens,
        value_offsets=value_offsets,
        value_tokens=drawn_value_tokens,
        attribute_offsets=attribute_offsets,
        attribute_tokens=attribute_tokens,
        column_table=np.repeat(np.arange(num_tables, dtype=np.int32), columns_per_table),
        column_header=column_header,
        column_attribute=attribute_of[column_header],
        column_role=np.concatenate([rng.permutation(roles) for _ in range(num_tables)]).astype(np.int8),
    )


def _draw_texts(rng: np.random.Generator, count: int, lengths: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    drawn = rng.integers(lengths[0], lengths[1] + 1, count)
    offsets = np.concatenate([[0], np.cumsum(drawn)]).astype(np.int64)
    return offsets, rng.integers(len(SPECIAL_WORDS) + 1, VOCABULARY_SIZE, offsets[-1]).astype(np.int32)


@pytest.fixture(scope="session")
def reference_dir() -> Path:
    """A small trained model that is kept with the tests; the quickest to have. Do not change it."""
    return Path(__file__).parent / "reference" / "model"


@pytest.fixture(scope="session")
def reference_navi(reference_dir: Path) -> Navi:
    """The model that is kept, opened on the CPU; do not change it."""
    from navi.verbs import Navi

    return Navi.from_pretrained(reference_dir, device="cpu")


@pytest.fixture(scope="session")
def pack_base() -> dict[str, Any]:
    """What the script that packs the base model defines."""
    return runpy.run_path(str(Path(__file__).parent.parent / "scripts" / "pack_base.py"))
