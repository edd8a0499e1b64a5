"""One step of training: its batches, forward, backward, and an update that skips what is not finite.

On one GPU with bfloat16 the device makes the batches, computes in half precision throughout, and replays passes that
were recorded once for each size that batches are filled up to: it waits neither for Python nor for batches.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import AdamW

from navi.batches import (
    Batch,
    BatchBuilder,
    BatchCapacity,
    SpecialTokens,
    choose_capacities,
    measure_capacity,
    pack_texts,
    shard_rows,
    split_rows,
)
from navi.columns.texts import CLEAN, CLEAN_HEADER, FIRST_VIEW, make_views
from navi.corpus.tokens import TextTokenizer
from navi.losses import (
    ViewsBatch,
    compute_losses,
    compute_views_losses,
    find_read_tokens,
    measure_step,
)
from navi.model import NaviModel, Runner, is_new
from navi.randomness import fold, make_key, permute, uniform
from navi.training.config import PretrainConfig, TrainingConfig
from navi.training.processes import Processes, choose_device

if TYPE_CHECKING:
    from navi.corpus import Corpus

# Shape suffixes: K columns that a step reads as texts, N texts, D hidden size.

Ints = NDArray[np.int64]

MEANS = ("loss", "masked", "low", "high", "bag_of_words", "views", "keeping", "norm")
COUNTS = ("header_hits", "value_hits", "header_targets", "value_targets", "steps_with_views")
SUMS = (*MEANS, *COUNTS)
"""What a step adds to a window of metrics, in this order; the first are means."""
NUM_CAPACITIES = 4
"""Sizes that batches are filled up to; each is recorded once."""
MEASURED_STEPS = 512
"""Steps that capacities are chosen by, at most; one that fits none of them is made on the host."""
WARM_UP = 2
"""Batches of a capacity that run as they are before it is recorded."""
HELD_OUT_SHARE, MAX_HELD_OUT, MAX_RIVALS = 0.125, 32, 256
"""Share of the columns, and how many at most, that are measured and not learned; columns they are compared with."""


@dataclass(frozen=True, kw_only=True)
class StepBatches:
    """The batches of one step, and what is counted of them on the host."""

    parts: list[Ints]
    """The rows of each part that the step is taken in."""
    part_tokens: list[int]
    """Tokens of one copy of the rows of each part."""
    batches: list[Batch]
    """The parts as batches; none where the device makes its own."""
    size: Tensor
    """What their losses are divided by: (3,), see `measure_step`."""
    capacity: BatchCapacity | None
    """What the batch that the device makes is filled up to; None where batches are made on the host."""
    epoch: int
    """The epoch that its masks are drawn for."""
    num_rows: int
    """Rows of the step."""
    num_tokens: int
    """Tokens of the step, each copy of a row counted."""
    views: ViewsBatch | None = None
    """Texts of columns that are learned beside the rows."""


class Stepper:
    """Takes steps: holds the model, the optimiser and the processes' common state, and nothing random."""

    def __init__(
        self,
        model: NaviModel,
        builder: BatchBuilder,
        config: PretrainConfig,
        processes: Processes | None = None,
        views: StepViews | None = None,
    ) -> None:
        self.config, self.views = config, views
        self.processes = processes or Processes(device=choose_device())
        self.device = self.processes.device
        self.model, self.builder = model.to(self.device), builder
        self.dtype = choose_dtype(config.training.precision, self.device)
        self.optimizer = make_optimizer(model, config.training, lambda name: is_new(name, model.config))
        self.recorder: Recorder | None = None
        self.half: HalfCopy | None = None
        is_half = self.device.type == "cuda" and self.dtype != torch.float32
        wanted = is_half if config.training.graphs is None else config.training.graphs
        # Processes divide their losses by what all of them count, which a recording cannot wait for.
        self._may_record = wanted and self.processes.count == 1
        if self._may_record and is_half:
            self.half = HalfCopy(model.train(), self.dtype)
        if self.device.type == "cpu":
            for layer in model.layers:  # a signal is heard wherever Python runs, which backward alone would not
                layer.register_full_backward_hook(lambda *_: None)
        self._row_tokens = builder.arrays.count_row_tokens()

    def prepare_graphs(self, steps: Sequence[Ints]) -> None:
        """Prepare to record steps of rows like these; without it, every batch is made on the host."""
        if self._may_record:
            self.recorder = Recorder(self._learn, self.builder.to(self.device), steps)

    def build(self, rows: Ints, epoch: int, max_tokens: int | None, step: int = 0) -> StepBatches:
        """Make the batches of a step, none of more than `max_tokens` tokens; threads may call this side by side."""
        processes, tables = self.processes, self.builder.arrays.row_table
        views = self.views.draw(step, processes.rank, processes.count) if self.views else None
        parts, beside, capacity = [rows], None, None
        if processes.count > 1:
            parts, beside = [shard_rows(rows, tables, self._row_tokens, processes.count)[processes.rank]], rows
        elif max_tokens is not None:
            parts = split_rows(rows, tables, self._row_tokens, max_tokens)
        elif self.recorder is not None:
            capacity = self.recorder.find_capacity(rows)
        batches = [
            self.builder.build(part, epoch=epoch, beside=beside) for part in parts if len(part) and capacity is None
        ]
        part_tokens = [int(self._row_tokens[part].sum()) for part in parts]
        return StepBatches(
            parts=parts,
            part_tokens=part_tokens,
            batches=[batch.pin() for batch in batches] if self.device.type == "cuda" else batches,
            size=measure_step(batches),
            capacity=capacity,
            epoch=epoch,
            num_rows=sum(map(len, parts)),
            num_tokens=sum(part_tokens) * (2 if self.builder.align else 1),
            views=views.pin() if views is not None and self.device.type == "cuda" else views,
        )

    def accumulate(self, made: StepBatches, step: int) -> Tensor:
        """Put the step's gradients in place; return its `SUMS`, the norm left out. It may be done over if it fails."""
        if not self.model.training:
            self.model.train()
        self.optimizer.zero_grad(set_to_none=self.recorder is None)
        sums = make_sums({}, self.device)
        if made.capacity is not None:
            assert self.recorder is not None
            torch.manual_seed(self._make_seed(step, 0))
            sums += self.recorder(made.parts[0], make_key(self.config.training.seed, made.epoch), made.capacity)
        size = self.processes.sum(made.size.to(self.device, copy=True)) if self.processes.count > 1 else made.size
        for number, batch in enumerate(made.batches):
            torch.manual_seed(self._make_seed(step, number))
            sums += self._learn(batch.to(self.device), size)
        if made.views is not None:
            torch.manual_seed(self._make_seed(step, len(made.parts)))
            sums += self._learn_views(made.views.to(self.device))
        return sums

    def update(self, sums: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """Take the step at this share of the rates; return its `SUMS` and whether it was taken, still on the device.

        Where loss or gradient is not finite, weights and optimiser stay as they were.
        """
        parameters = list(self.model.parameters())
        self.processes.sum_gradients(parameters)
        norm = nn.utils.clip_grad_norm_(parameters, self.config.training.clip_norm)
        sums[SUMS.index("norm")] = norm / self.processes.count
        self.processes.sum(sums)
        finite = torch.isfinite(sums).all()
        take_step(self.optimizer, scale, finite)
        return sums, finite

    def _learn(self, batch: Batch, size: Tensor) -> Tensor:
        """Add one batch's gradients; return its `SUMS` as far as the device knows them, the others 0."""
        # How many tokens are read is known where the host looks at them, which would hold a GPU up.
        read = find_read_tokens(batch, self.config.alignment) if self.device.type == "cpu" else None
        with self._compute() as model:
            losses = compute_losses(model, model(batch.rows, read_tokens=read), batch, self.config.alignment, size)
        self._add_gradients(losses.loss)
        return make_sums(vars(losses), self.device)

    def _learn_views(self, batch: ViewsBatch) -> Tensor:
        """Add the gradients of some columns' texts; return their part of `SUMS`."""
        sizes = [len(share) for share in np.array_split(np.empty(len(batch.meaning)), self.processes.count)]
        config = self.config.views
        with self._compute() as model:
            alike, kept = compute_views_losses(model, batch, config, partial(self.processes.gather, sizes=sizes))
        self._add_gradients(config.weight * alike + config.keep_weight * kept)
        alike = alike / self.processes.count  # every process has all of it, and its own part of what is kept
        loss, one = config.weight * alike + config.keep_weight * kept, torch.ones_like(alike) / self.processes.count
        return make_sums({"loss": loss, "views": alike, "keeping": kept, "steps_with_views": one}, self.device)

    @contextmanager
    def _compute(self) -> Iterator[NaviModel]:
        """Give the model that losses are computed with: its copy in half precision, or itself under autocast."""
        if self.half is not None:
            self.half.pull()
            yield self.half.model
            return
        with autocast(self.device, self.dtype):
            yield self.model

    def _add_gradients(self, loss: Tensor) -> None:
        """Add a loss's gradients to the model's; nothing here waits for the host."""
        torch.autograd.backward(loss)
        if self.half is not None:
            self.half.push()

    def _make_seed(self, step: int, number: int) -> int:
        """Return a dropout seed that depends on the place in the run alone, so that there is no state to save."""
        place = number * self.processes.count + self.processes.rank
        return make_key(self.config.training.seed, step, place)


class StepViews:
    """Draws columns and rows, two views of each, and a text as it is: a pure function of the seed and the step.

    Some columns are never drawn: validation asks whether these are found again.
    """

    def __init__(self, corpus: Corpus, model: NaviModel, config: PretrainConfig, device: torch.device) -> None:
        self._seed, self._num_columns = config.training.seed, config.views.columns_per_step
        tokenizer, num_views = TextTokenizer(corpus.tokenizer), config.views.num_views
        self.views = make_views(corpus, tokenizer, corpus.rows_of("train"), num_views, self._seed)
        num_columns = self.views.num_columns
        num_held_out = min(MAX_HELD_OUT, int(HELD_OUT_SHARE * num_columns))
        self.held_out = permute(make_key(self._seed, -1), num_columns)[:num_held_out]
        """The columns that are measured and not learned."""
        self._special = SpecialTokens.of(corpus.tokenizer)
        self._steps_between = max(1, config.views.rows_between // config.sampler.rows_per_batch)
        self._before = self._make_runner(deepcopy(model), device)
        self._targets = np.full((len(self.views), FIRST_VIEW, model.config.hidden_size), np.nan, np.float16)
        if device.type != "cpu":  # quick at reading many texts at once; a CPU reads each when it is first drawn
            texts = np.arange(len(self.views))[:, None] * self.views.num_texts + np.arange(FIRST_VIEW)
            self._targets[:] = self._before.embed_texts(self.views.texts, texts.ravel()).reshape(self._targets.shape)

    def draw(self, step: int, rank: int = 0, count: int = 1) -> ViewsBatch | None:
        """Return the texts of one step, or what one of so many processes reads of them; None if it has none."""
        if step % self._steps_between:
            return None
        key, num_texts = make_key(self._seed, step, 0), self.views.num_texts
        drawn = self.views.choose(self._num_columns + len(self.held_out), key)
        drawn = drawn[~np.isin(drawn, self.held_out)][: self._num_columns]
        chosen = np.array_split(drawn, count)[rank]
        draws = uniform(fold(make_key(key, -1), chosen)) * (num_views := num_texts - FIRST_VIEW)
        first = draws.astype(np.int64)
        second = (first + 1 + (draws % 1 * (num_views - 1)).astype(np.int64)) % num_views
        kept = np.where(first % 2 == 0, CLEAN, CLEAN_HEADER)
        texts = [chosen * num_texts + place for place in (FIRST_VIEW + first, FIRST_VIEW + second, kept)]
        return ViewsBatch(
            texts=pack_texts(self.views.texts.offsets, self.views.texts.tokens, np.concatenate(texts), self._special),
            meaning=torch.from_numpy(self.views.meanings[drawn]),
            target=torch.from_numpy(self._find_targets(chosen, kept)),
        )

    def _find_targets(self, chosen: Ints, kept: Ints) -> NDArray[np.float16]:
        """Return where the model had some texts before training; each is read alone, whatever was drawn with it."""
        for column, text in zip(chosen.tolist(), kept.tolist(), strict=True):
            if np.isnan(self._targets[column, text, 0]):
                place = np.array([column * self.views.num_texts + text])
                self._targets[column, text] = self._before.embed_texts(self.views.texts, place)[0]
        found: NDArray[np.float16] = self._targets[chosen, kept]
        return found

    def measure_columns(self, model: NaviModel, device: torch.device) -> dict[str, float]:
        """Return how often a perturbed view of a held-out column is most like that column among many; nothing of few.

        A column of the same attribute is as good: nobody knows whether it means something else.
        """
        if len(self.held_out) == 0:
            return {}
        others = np.setdiff1d(np.arange(self.views.num_columns), self.held_out)[:MAX_RIVALS]
        columns = np.concatenate([self.held_out, others])
        queries = (self.held_out[:, None] * self.views.num_texts + np.arange(FIRST_VIEW, self.views.num_texts)).ravel()
        was_training, runner = model.training, self._make_runner(model, device)
        candidate_KD = runner.embed_texts(self.views.texts, columns * self.views.num_texts + CLEAN)
        candidate_KD /= np.linalg.norm(candidate_KD, axis=1, keepdims=True)
        nearest = columns[(runner.embed_texts(self.views.texts, queries) @ candidate_KD.T).argmax(axis=1)]
        model.train(was_training)  # a runner has no dropout
        meanings = self.views.meanings
        return {"column_accuracy": float((meanings[nearest] == meanings[queries // self.views.num_texts]).mean())}

    def _make_runner(self, model: NaviModel, device: torch.device) -> Runner:
        return Runner(model, self._special, devices=[device], precision="float32", tokens_per_batch=4096)


class Recorder:
    """Makes batches on the device and runs `learn` on them: the first of a capacity as they are, then as replays.

    `learn` must put gradients into tensors that stay, and draw randomness from the default generator alone. On devices
    that cannot record, every batch runs as it is.
    """

    def __init__(self, learn: Callable[[Batch, Tensor], Tensor], builder: BatchBuilder, steps: Sequence[Ints]) -> None:
        self._learn, self._builder = learn, builder
        places = np.linspace(0, len(steps) - 1, min(len(steps), MEASURED_STEPS)).astype(np.int64)
        needs = [measure_capacity(builder, steps[place]) for place in places]
        self.capacities = choose_capacities(needs, NUM_CAPACITIES)
        self._records = builder.device.type == "cuda"
        self._seen: Counter[BatchCapacity] = Counter()
        self._recordings: dict[BatchCapacity, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle() if self._records else None

    def find_capacity(self, rows: Ints) -> BatchCapacity | None:
        """Return the smallest capacity that holds the batch of these rows; None if there is none."""
        need = measure_capacity(self._builder, rows)
        return next((capacity for capacity in self.capacities if capacity.holds(need)), None)

    def __call__(self, rows: Ints, key: int, capacity: BatchCapacity) -> Tensor:
        """Add the gradients of the batch of these rows; return what `learn` does, until it is called again."""
        inputs = torch.full((capacity.rows + 1,), -1, dtype=torch.int64)
        inputs[0] = key
        inputs[1 : len(rows) + 1] = torch.from_numpy(rows)
        if not self._records or self._seen[capacity] < WARM_UP:
            self._seen[capacity] += 1
            return self._build_and_learn(inputs.to(self._builder.device), capacity)
        if capacity not in self._recordings:
            self._recordings[capacity] = self._record(inputs.to(self._builder.device), capacity)
        graph, recorded_inputs, sums = self._recordings[capacity]
        recorded_inputs.copy_(inputs.pin_memory(), non_blocking=True)
        graph.replay()
        return sums

    def _build_and_learn(self, inputs: Tensor, capacity: BatchCapacity) -> Tensor:
        batch = self._builder.build_filled(inputs[1:], inputs[0], capacity)
        sums = self._learn(batch, measure_step([batch]))
        # A step that lost targets is not to be taken; what is not finite never is.
        return torch.where(batch.targets.num_masked > capacity.targets, torch.nan, sums)

    def _record(self, inputs: Tensor, capacity: BatchCapacity) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        """Return a recorded pass, the memory it reads from and the memory it leaves its sums in."""
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU's memory meanwhile, which a stricter mode would take for a mistake.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            sums = self._build_and_learn(inputs, capacity)
        return graph, inputs, sums


class HalfCopy:
    """Computes in half precision throughout, while the model itself keeps its weights and gradients in float32.

    Autocast instead casts at every linear layer and normalises in float32, which on a GPU costs as much time as a third
    of the matrix products.
    """

    def __init__(self, model: NaviModel, dtype: torch.dtype) -> None:
        self.model: NaviModel = deepcopy(model).to(dtype)
        self._whole, self._half = list(model.parameters()), list(self.model.parameters())

    def pull(self) -> None:
        """Take over the model's weights, and forget the gradients of last time."""
        with torch.no_grad():
            torch._foreach_copy_([half.data for half in self._half], [whole.data for whole in self._whole])
        for half in self._half:
            half.grad = None

    def push(self) -> None:
        """Add the gradients to the model's; what had no part in the loss stays without one."""
        pairs = zip(self._whole, self._half, strict=True)
        used = [(whole, half.grad) for whole, half in pairs if half.grad is not None]
        for whole, _ in used:
            if whole.grad is None:
                whole.grad = torch.zeros_like(whole)
        torch._foreach_add_([whole.grad for whole, _ in used], [gradient.float() for _, gradient in used])


def make_optimizer(model: nn.Module, config: TrainingConfig, is_new: Callable[[str], bool]) -> AdamW:
    """Return AdamW over the model's parameters: new ones, which start cold, at their own rate; only matrices decay."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        groups.setdefault((is_new(name), parameter.ndim > 1), []).append(parameter)
    settings = [
        {
            "params": members,
            "weight_decay": config.weight_decay if decays else 0.0,
            "max_lr": config.new_learning_rate if new else config.learning_rate,
        }
        for (new, decays), members in groups.items()
    ]
    return AdamW(settings, lr=config.learning_rate, fused=True)


def scale_rate(step: int, num_steps: int, warmup_share: float) -> float:
    """Return what the highest learning rate is multiplied by at a step, counted from 0; 0 when the steps are done.

    >>> [scale_rate(step, 6, 0.3) for step in (0, 1, 2, 5, 6)]
    [0.5, 1.0, 1.0, 0.25, 0.0]
    """
    warmup = round(num_steps * warmup_share)
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, (num_steps - step) / max(1, num_steps - warmup))


def take_step(optimizer: AdamW, scale: float, finite: Tensor) -> None:
    """Update the parameters, at their highest rates times `scale`, or leave all as it was where `finite` is false.

    The fused kernels read `found_inf` on the device, as they do for gradient scalers: a GPU need not wait for the host.
    """
    for group in optimizer.param_groups:
        group["lr"] = group["max_lr"] * scale
    optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
    optimizer.step()


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Return the arithmetic that a precision means on a device; `auto` is half precision where that is quicker."""
    if precision == "auto":
        quick = device.type == "cuda" and torch.cuda.is_bf16_supported()
        if device.type == "cpu":
            capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
            quick = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
        precision = "bfloat16" if quick else "float32"
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """Return the context in which the encoder computes; nothing changes in float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype != torch.float32)


def make_sums(found: Mapping[str, Tensor], device: torch.device) -> Tensor:
    """Return what is found of `SUMS`, in their order and zeros for the others, as wide as the device has numbers."""
    zero = torch.zeros((), device=device, dtype=torch.float32 if device.type == "mps" else torch.float64)
    return torch.stack([found[name].detach().to(zero.dtype) if name in found else zero for name in SUMS])


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether an error says that a device, or the host, has no memory left for a tensor."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def release_memory() -> None:
    """Give back what a failed step left behind; call it when its error is no longer held."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def keep_freed_memory(device: torch.device) -> Iterator[None]:
    """Keep, inside, freed memory of the host for the next step instead of giving it back to the system.

    A step on a CPU takes and frees gigabytes in large arrays, and the system clears each page of a new one. Kept, a
    step of benchmarks/training_cpu.py has 17,000 to 26,000 page faults instead of 174,000, 0.06 s of system time
    instead of 0.32, and took 0.91 of its time on two quiet cores. Without glibc nothing is done.
    """
    libc: Any = ctypes.CDLL(None) if device.type == "cpu" and sys.platform.startswith("linux") else None
    if not hasattr(libc, "gnu_get_libc_version"):
        yield
        return
    trim_threshold, mmap_max = -1, -4  # what mallopt calls them
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, -1)
    try:
        yield
    finally:  # where glibc itself arrives once large arrays were freed
        libc.mallopt(mmap_max, 65536)
        libc.mallopt(trim_threshold, 64 << 20)
        libc.malloc_trim(0)
