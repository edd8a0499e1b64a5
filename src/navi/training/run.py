"""Pretraining from a corpus to a model directory, in any number of sittings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator

from navi.training.checkpoint import check_identity
from navi.training.config import PretrainConfig
from navi.training.folder import find_latest, open_folder
from navi.training.identity import describe_run
from navi.training.interruption import Interruption
from navi.training.memory import kept_memory
from navi.training.result import RECORD_FILE, TrainingResult
from navi.training.sitting import Progress, Sitting
from navi.training.step import make_accelerator

if TYPE_CHECKING:
    from navi.corpus import Corpus


def pretrain(
    corpus: Corpus | str | Path,
    out: str | Path,
    config: PretrainConfig | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> TrainingResult:
    """Learn a NAVI encoder from a corpus; return what the model directory `out` then records.

    With `resume` the run in `out` goes on from its newest complete checkpoint, exactly as if it had never stopped, and
    a finished one is left as it is; without a checkpoint it begins. SIGTERM and Ctrl-C finish the step, save a
    checkpoint and raise `TrainingInterrupted`. The global random state is put back afterwards.
    """
    folder, settings, source = Path(out), config or PretrainConfig(), open_corpus(corpus)
    accelerator = make_accelerator()
    checkpoint = _find_checkpoint(accelerator, folder, resume=resume, overwrite=overwrite)
    if resume and checkpoint is None and (folder / RECORD_FILE).is_file():
        return _recall(folder, source, settings)
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices), kept_memory(accelerator.device), Interruption() as interruption:
        sitting = Sitting(source, folder, settings, accelerator, interruption, progress)
        sitting.begin(checkpoint)
        return sitting.finish()


def _find_checkpoint(accelerator: Accelerator, folder: Path, *, resume: bool, overwrite: bool) -> Path | None:
    """Let the main process make the directory ready; then return what all processes go on from."""
    if accelerator.is_main_process:
        open_folder(folder, resume=resume, overwrite=overwrite)
    accelerator.wait_for_everyone()
    return find_latest(folder) if resume else None


def _recall(folder: Path, corpus: Corpus, config: PretrainConfig) -> TrainingResult:
    """Return the record of a finished run, if it is the one that is asked for."""
    result = TrainingResult.load(folder)
    recorded = PretrainConfig.from_dict(result.config)
    found = describe_run(recorded, result.corpus["fingerprint"], num_processes=1)
    check_identity(found, describe_run(config, corpus.fingerprint, num_processes=1), folder)
    return result


def open_corpus(corpus: Corpus | str | Path) -> Corpus:
    """Return a corpus given as it is, or as its directory."""
    if not isinstance(corpus, str | Path):
        return corpus
    from navi.corpus import Corpus

    return Corpus.open(corpus)
