"""The model directory: weights, record, card, and what is known of the domain that a model was trained on."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import feather
from scipy.sparse import csr_array

from navi.backbones import MANIFEST_FILE, WEIGHTS_FILE, find_licence
from navi.batches import SpecialTokens
from navi.columns import COLUMNS_FILE, ColumnProfiles, profile_columns
from navi.corpus import Corpus
from navi.corpus.tokens import TextTokenizer
from navi.errors import ConfigError, ModelError
from navi.files import digest_file, read_json, sync, write_json
from navi.model import NaviModel, Runner
from navi.settings import construct
from navi.training.checkpoint import RECORD_FILE, list_checkpoints, read_state, save_weights
from navi.training.config import PretrainConfig
from navi.version import VERSION

# Shape suffixes: K columns, S distinct segments, C cells.

TOKENIZER_FILE, CARD_FILE, VALUES_FILE = "tokenizer.json", "README.md", "values.arrow"
_VALUES = pa.schema({"attribute": pa.string(), "value": pa.string(), "count": pa.int64()})
DIGESTED = (WEIGHTS_FILE, "config.json", TOKENIZER_FILE, VALUES_FILE, COLUMNS_FILE)
"""Files of a model directory whose digests its record has."""
MAX_DISTINCT = 2000
"""Attributes with more distinct training values than this are open: their values are not listed."""
MAX_COLUMNS = 1500
"""Columns, the fullest, that naming compares others with, at most."""
MAX_BYTES = {VALUES_FILE: 5 << 20, COLUMNS_FILE: 10 << 20}
"""About how large these files get, whatever the corpus: the most frequent values stay, and the fullest columns."""
TERM_BYTES, COLUMN_BYTES = 12, 1024
"""What a term of a bag takes in a column's profile, and what the rest of it does beside the vectors."""
CARD = """---
library_name: navi-tables
tags: [tables, tabular, encoder]
{licence_line}---
# A NAVI encoder of {corpus[tables]} tables

A NAVI encoder of rows, columns and cells, pretrained from the backbone `{backbone}` (licence: {licence}) by \
navi-tables {version}.

```python
import navi

model = navi.Navi.from_pretrained("path/of/this/folder")
model.embed_rows(frame)
```

## Data
{corpus[train_rows]:,} training rows of {corpus[rows]:,} in {corpus[tables]} tables; corpus fingerprint \
`{corpus[fingerprint]}`.

## Training
{run.num_steps:,} steps, {run.seconds:,.0f} s on {run.device}; {run.skipped} steps skipped because the loss was not \
finite.

{measures}

Header accuracy is `informed` where the model knew the column's attribute, `blind` where it did not. All settings are \
in `pretrain.json`.
"""
MEASURES = {
    "masked_loss": ("loss of masked tokens", "", ""),
    "header_accuracy_informed": ("headers, attribute known (informed)", "most_frequent_header", ""),
    "header_accuracy_blind": ("headers, attribute hidden (blind)", "most_frequent_header", "headers named"),
    "value_accuracy": ("values", "most_frequent_value", "values filled"),
    "column_accuracy": ("columns found again (not learned)", "", "columns matched"),
}
"""Measures of validation: what each is called, the guess that it is to beat, and what it is worth to a user."""


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """A finished run; `load` reads it back from the model directory."""

    path: Path
    """The model directory."""
    config: dict[str, Any]
    """The settings, as `PretrainConfig.from_dict` takes them."""
    corpus: dict[str, Any]
    """Fingerprint and size of the corpus."""
    num_steps: int
    """Steps done."""
    skipped: int
    """Steps whose loss was not finite."""
    seconds: float
    """Time spent, before the run was resumed too."""
    device: str
    """Kind of device, and arithmetic."""
    train: dict[str, Any]
    """The last line of metrics.jsonl of the kind `train`."""
    validation: list[dict[str, Any]]
    """All lines of the kind `validation`: the first is of the untrained model, with the majority baseline to beat."""
    notes: list[str]
    """What a user should know of the run."""

    def save(self) -> None:
        """Write the record into the model directory; it says that the run is done."""
        record = asdict(self)
        del record["path"]
        files = [file for file in sorted(self.path.iterdir()) if file.is_file() and file.name in DIGESTED]
        for file in files:
            sync(file)
        digests = {file.name: digest_file(file) for file in files}
        write_json(self.path / RECORD_FILE, {**record, "sha256": digests}, checksum=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the record of a model directory."""
        file, remedy = Path(path) / RECORD_FILE, "A model directory holds the record of its run."
        record = read_json(file, ModelError, remedy)
        record.pop("sha256", None)
        try:
            return construct(cls, record, path=Path(path))
        except ConfigError as error:
            raise ModelError(f"Cannot read {file}: {error}. {remedy}") from error


def recall_config(out: Path) -> PretrainConfig | None:
    """Return the settings that the run in a directory was started with; None if there is no run."""
    if checkpoints := list_checkpoints(out):
        return PretrainConfig.from_dict(read_state(checkpoints[-1])[1].config)
    return PretrainConfig.from_dict(TrainingResult.load(out).config) if (out / RECORD_FILE).is_file() else None


def load_values(folder: str | Path) -> pa.Table:
    """Return what `survey_values` found for a model; it stays on disk, memory-mapped. The base model has none."""
    if (Path(folder) / MANIFEST_FILE).is_file():
        return _VALUES.empty_table()
    file = Path(folder) / VALUES_FILE
    try:
        return feather.read_table(str(file), memory_map=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise ModelError(f"Cannot read {file}: {error}. Expected a model directory made by pretraining.") from error


def export_run(model: NaviModel, special: SpecialTokens, corpus: Corpus, result: TrainingResult) -> None:
    """Write weights, configuration, tokenizer, domain, columns and card and, last, the record of a run that is done."""
    folder = result.path
    save_weights(model, folder / WEIGHTS_FILE)
    # safetensors makes its files readable to their owner alone.
    mask = os.umask(0)
    os.umask(mask)
    (folder / WEIGHTS_FILE).chmod(0o666 & ~mask)
    model.config.update({"architectures": [type(model).__name__], "dtype": "float32"})
    model.config.save_pretrained(folder)
    corpus.tokenizer.save(str(folder / TOKENIZER_FILE))
    values, columns = survey_values(corpus), survey_columns(model, special, corpus)
    if not result.config["training"]["keep_values"]:
        values, columns = values.slice(0, 0), forget_values(columns)
    feather.write_feather(values, str(folder / VALUES_FILE), compression="uncompressed")
    columns.save(folder)
    (folder / CARD_FILE).write_text(make_card(result), encoding="utf-8")
    result.save()


def survey_columns(model: NaviModel, special: SpecialTokens, corpus: Corpus) -> ColumnProfiles:
    """Return what naming knows of the columns that a model was trained on, those with the most cells.

    Only training rows have a part in it. The model is used where it is, in inference precision: export it before.
    """
    runner = Runner(model, special, devices=[model.device])
    profiles = profile_columns(runner, TextTokenizer(corpus.tokenizer), corpus, corpus.rows_of("train"))
    most = np.argsort(-profiles.cells, kind="stable")[:MAX_COLUMNS]
    terms = np.sum([np.diff(bags.indptr) for bags in profiles.bags.values()], axis=0)
    floats = sum(vector.shape[1] for vector in profiles.vectors.values())
    sizes = TERM_BYTES * terms[most] + 2 * floats + COLUMN_BYTES
    fitting = np.cumsum(sizes) <= MAX_BYTES[COLUMNS_FILE]
    return profiles.take(np.sort(most[fitting & (profiles.cells[most] > 0)]))


def forget_values(profiles: ColumnProfiles) -> ColumnProfiles:
    """Return the profiles with nothing in them that was read from values: headers and what a model makes of them."""
    empty = csr_array(next(iter(profiles.bags.values())).shape)
    vectors = {"header": profiles.vectors["header"], "column": profiles.vectors["header"]}
    return replace(
        profiles,
        cells=np.zeros_like(profiles.cells),
        bags={name: bags if name.startswith("header") else empty for name, bags in profiles.bags.items()},
        quantiles=np.full_like(profiles.quantiles, np.nan),
        facts=np.zeros_like(profiles.facts),
        vectors=vectors | {"value": np.zeros_like(profiles.vectors["value"])},
    )


def make_card(result: TrainingResult) -> str:
    """Return the model card, in Markdown with the front matter that model hubs read."""
    backbone = result.config["backbone"]
    licence = find_licence(backbone)
    if result.validation:
        first, last = result.validation[0], result.validation[-1]
        lines = ["| on validation rows | before | after | most frequent guess |", "|---|---|---|---|"]
        for name, (label, guess, _) in MEASURES.items():
            figures = (first.get(name), last.get(name), first.get(guess))
            shown = ("" if figure is None else f"{figure:.4f}" for figure in figures)
            lines.append(f"| {label} | {' | '.join(shown)} |")
    else:
        lines = [f"Last training loss: {result.train.get('loss') or 0:.4f}. There were no validation rows."]
    return CARD.format(
        licence_line=f"license: {licence}\n" if licence else "",
        licence=licence or "not known; see the backbone",
        backbone=Path(backbone).name,
        version=VERSION,
        corpus=result.corpus,
        run=result,
        measures="\n".join(lines),
    )


def survey_values(corpus: Corpus) -> pa.Table:
    """Return the frequent values of a corpus's training rows, those of attributes with few distinct ones.

    One line a value, the most frequent of an attribute first: `attribute`, `value`, `count`.
    """
    arrays = corpus.arrays
    is_train_R = np.zeros(arrays.num_rows, np.bool_)
    is_train_R[corpus.rows_of("train")] = True
    is_train_C = np.repeat(is_train_R, np.diff(arrays.row_offsets))
    count_S = np.bincount(arrays.row_segments[is_train_C], minlength=arrays.num_segments)
    used = np.flatnonzero(count_S)
    cells = pa.table(
        {"attribute": arrays.segment_attribute[used], "value": arrays.segment_value[used], "count": count_S[used]}
    )
    found = cells.group_by(["attribute", "value"], use_threads=False).aggregate([("count", "sum")])
    distinct = np.bincount(found["attribute"].to_numpy(), minlength=len(corpus.attributes))
    found = found.filter(pa.array(distinct[found["attribute"].to_numpy()] <= MAX_DISTINCT))
    found = found.sort_by([("count_sum", "descending"), ("attribute", "ascending"), ("value", "ascending")])
    texts = {
        name: known.take(found[name].combine_chunks())
        for name, known in (("attribute", corpus.attributes), ("value", corpus.values))
    }
    sizes = 24 + sum(pc.binary_length(each).to_numpy() for each in texts.values())
    attribute = found["attribute"].to_numpy()[np.cumsum(sizes) <= MAX_BYTES[VALUES_FILE]]
    return pa.table({**texts, "count": found["count_sum"]}).take(np.argsort(attribute, kind="stable"))
