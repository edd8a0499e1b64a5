"""Pretraining from a corpus to a model directory, in any number of sittings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from navi.training.checkpoint import check_identity
from navi.training.config import PretrainConfig
from navi.training.folder import open_folder
from navi.training.identity import describe_run
from navi.training.interruption import Interruption
from navi.training.result import RECORD_FILE, TrainingResult
from navi.training.sitting import Progress, Sitting

if TYPE_CHECKING:
    from navi.segments import Corpus


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
    folder, settings, source = Path(out), config or PretrainConfig(), _open_corpus(corpus)
    checkpoint = open_folder(folder, resume=resume, overwrite=overwrite)
    if resume and checkpoint is None and (folder / RECORD_FILE).is_file():
        return _recall(folder, source, settings)
    devices = list(range(torch.cuda.device_count()))
    with torch.random.fork_rng(devices), Interruption() as interruption:
        sitting = Sitting(source, folder, settings, interruption, progress)
        sitting.begin(checkpoint)
        return sitting.finish()


def _recall(folder: Path, corpus: Corpus, config: PretrainConfig) -> TrainingResult:
    """Return the record of a finished run, if it is the one that is asked for."""
    result = TrainingResult.load(folder)
    recorded = PretrainConfig.from_dict(result.config)
    found = describe_run(recorded, result.corpus["fingerprint"], num_processes=1)
    check_identity(found, describe_run(config, corpus.fingerprint, num_processes=1), folder)
    return result


def _open_corpus(corpus: Corpus | str | Path) -> Corpus:
    if not isinstance(corpus, str | Path):
        return corpus
    from navi.segments import Corpus

    return Corpus.open(corpus)
