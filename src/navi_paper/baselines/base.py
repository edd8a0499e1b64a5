"""What all baselines share: the backbone they start from, batches, a loss, embeddings in input order, and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar

import numpy as np
import torch
from safetensors.torch import save_model
from torch import Tensor, nn
from transformers import BertConfig

from navi.backbones import WEIGHTS_FILE, check_vocabulary
from navi.batches import SpecialTokens, prefetch
from navi.corpus.arrays import SegmentArrays, gather_ranges
from navi.errors import ModelError
from navi.files import read_json, write_json
from navi.model import load_backbone
from navi.model.encoder import pool_spans
from navi.model.runner import group_by_length
from navi.settings import find_misfit
from navi_paper.table_encoder import Floats, Hidden, Ints, TableEncoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Shape suffixes: R rows, C cells, D hidden size.

Batch = dict[str, Tensor]
Read = Callable[[Batch], Batch]
Shape = TypeVar("Shape", bound=Any)
FORMAT = 1
"""The format of a baseline's folder; another one is refused."""
CONFIG_FILE = "baseline.json"
WIDE_PARTS = ("rows", "means")
TOKENS_PER_BATCH = {"cuda": 65536, "cpu": 4096}
"""Tokens of rows that are embedded together."""
LAYERS, HEAD = "encoder.layer.", "cls.predictions."
_FAMILIES = {"embeddings": "embeddings.", "layers": LAYERS, "head": HEAD}
_DROPPED = ("architectures", "model_type", "transformers_version", "_name_or_path", "dtype")


class BaselineFile(TypedDict):
    """What a baseline's folder says of it."""

    name: str
    config: dict[str, Any]


class Baseline(nn.Module, TableEncoder):
    """A model to compare NAVI with: it starts from the same backbone and learns from the same rows.

    Batches are dictionaries of tensors with packed axes; every batch has `row_starts` and `cell_row`.
    """

    learns = True
    """Whether it is trained at all."""
    new_parameters: tuple[str, ...] = ()
    """How the names begin of parameters that come from no backbone."""

    def __init__(self, config: BertConfig, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.config = config
        self.tokenizer = tokenizer
        self.special = SpecialTokens.of(tokenizer)
        self.cold_head = True
        """Whether the head for masked tokens started at random; it then learns at the rate of new parameters."""

    @classmethod
    def from_backbone(cls, name: str | Path, tokenizer: Tokenizer) -> Self:
        """Return a baseline that has learned nothing beyond the weights that NAVI would start from."""
        check_vocabulary(tokenizer, str(name))
        model = load_backbone(name, local_head_share=0.0)
        baseline = cls(copy_shape(model.config, BertConfig), tokenizer)
        baseline.cold_head = bool(model.config.cold_head)
        weights = {}
        for full_name, tensor in model.state_dict().items():
            family, _, rest = full_name.partition(".")
            if family in _FAMILIES:
                weights[_FAMILIES[family] + rest] = tensor.detach()
        baseline.start_from(weights)
        return baseline

    @abstractmethod
    def start_from(self, weights: dict[str, Tensor]) -> None:
        """Take over a backbone's weights, under BERT's names: `embeddings.`, `encoder.layer.`, `cls.predictions.`."""

    def is_new(self, parameter: str) -> bool:
        """Return whether a parameter comes from no backbone, and learns at a rate of its own."""
        return parameter.startswith(self.new_parameters) or (self.cold_head and parameter.startswith("model.cls."))

    @abstractmethod
    def make_batch(self, arrays: SegmentArrays, rows: Ints, *, seed: int, epoch: int) -> Batch:
        """Return what `compute_loss` takes, a pure function of its arguments; threads may call this side by side.

        What its loss is the mean over stands at `target_position`.
        """

    @abstractmethod
    def compute_loss(self, batch: Batch) -> Tensor:
        """Return the mean loss over a batch's targets; 0 if there are none."""

    def after_step(self, step: int) -> None:
        """Do what is due when so many steps of training are done."""

    @abstractmethod
    def make_input(self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None) -> Batch:
        """Return what `read_states` takes; nothing is masked but what is hidden."""

    @abstractmethod
    def read_states(self, batch: Batch) -> Batch:
        """Return the embeddings named in `PARTS`, apart from the means, and `kept`: (C,) which cells were seen."""

    def embed(
        self, arrays: SegmentArrays, rows: Ints, *, parts: Sequence[str] = ("rows",), hidden: Hidden | None = None
    ) -> dict[str, Floats]:
        """Return the asked-for embeddings; a cell that the encoder has no room for has zeros."""
        num_cells = int(np.diff(arrays.row_offsets)[rows].sum())
        gathered: dict[str, Floats] = {
            part: np.zeros((len(rows) if part in WIDE_PARTS else num_cells, self.config.hidden_size), dtype=np.float32)
            for part in parts
        }

        def read(batch: Batch) -> Batch:
            states = self.read_states(batch)
            if "means" in parts:
                seen_C = torch.where(states["kept"] > 0, batch["cell_row"], len(states["rows"]))
                states["means"] = pool_spans(states["segments"], seen_C, len(states["rows"]))
            return {part: states[part] for part in parts}

        for places, cells, _, found in self.run(arrays, rows, hidden, read):
            for part, embedded in found.items():
                gathered[part][places if part in WIDE_PARTS else cells] = embedded.float().cpu().numpy()
        return gathered

    def run(
        self, arrays: SegmentArrays, rows: Ints, hidden: Hidden | None, read: Read
    ) -> Iterator[tuple[Ints, Ints, Batch, Batch]]:
        """Yield (places in `rows`, places among their cells, batch, what was read) for groups of like length."""
        self.eval()
        device = self.device
        offsets = np.concatenate([[0], np.cumsum(np.diff(arrays.row_offsets)[rows])])

        def make(places: Ints) -> tuple[Ints, Ints, Batch]:
            cells = gather_ranges(offsets, places)[1]
            seen = None if hidden is None else Hidden(part=hidden.part, cells=hidden.cells[cells], blind=hidden.blind)
            return places, cells, self.make_input(arrays, rows[places], seen)

        groups = group_by_length(arrays.take_rows(rows).count_row_tokens(), TOKENS_PER_BATCH[device.type])
        for places, cells, batch in prefetch(groups, make, workers=1):
            with torch.inference_mode():
                found = read({name: tensor.to(device) for name, tensor in batch.items()})
            yield places, cells, batch, found

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.parameters()).device

    def save(self, folder: str | Path) -> None:
        """Write weights, shape and tokenizer; the last file written says that all are there."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save_model(self, str(folder / WEIGHTS_FILE))
        self.tokenizer.save(str(folder / "tokenizer.json"))
        record = {"format": FORMAT, "name": type(self).name, "config": self.config.to_dict()}
        write_json(folder / CONFIG_FILE, record)


def copy_shape(config: Any, kind: type[Shape]) -> Shape:
    """Return a configuration of another kind with all that both know."""
    known = kind().to_dict()
    shared = {key: entry for key, entry in config.to_dict().items() if key in known and key not in _DROPPED}
    copied: Shape = kind(**shared)
    return copied


def copy_weights(weights: dict[str, Tensor], module: nn.Module, prefix: str) -> None:
    """Copy every weight that fits into a module of transformers, whose encoder has this prefix."""
    state = module.state_dict()
    renamed = {name if name.startswith(HEAD) else prefix + name: tensor for name, tensor in weights.items()}
    fitting = {name: tensor for name, tensor in renamed.items() if name in state and state[name].shape == tensor.shape}
    module.load_state_dict(fitting, strict=False)


def read_record(folder: str | Path) -> dict[str, Any]:
    """Return what a baseline's folder says of it."""
    file = Path(folder) / CONFIG_FILE
    record = read_json(file, ModelError, "Expected the folder of a trained baseline.")
    if record.get("format") != FORMAT:
        raise ModelError(f"{file} has the format {record.get('format')}, but only {FORMAT} is known. Train it again.")
    if misfit := find_misfit(record, BaselineFile):
        raise ModelError(f"Cannot read {file}: {misfit}. Train it again.")
    return record


def to_tensors(**arrays: np.ndarray[Any, Any]) -> Batch:
    """Return arrays as tensors, integers as int64."""
    return {
        name: torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64 if array.dtype.kind in "iu" else array.dtype))
        for name, array in arrays.items()
    }
