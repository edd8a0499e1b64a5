"""The model directory: what a finished run leaves behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from navi.backbones import WEIGHTS_FILE
from navi.columns import survey_columns
from navi.model import NaviModel
from navi.training.card import write_card
from navi.training.domain import survey_domain
from navi.training.result import TrainingResult
from navi.training.vocabulary import find_special_tokens

if TYPE_CHECKING:
    from navi.corpus import Corpus

TOKENIZER_FILE = "tokenizer.json"


def export_run(model: NaviModel, corpus: Corpus, result: TrainingResult) -> None:
    """Write weights, configuration, tokenizer, domain, columns and card and, last, the record of a run that is done."""
    with _without_bars():
        model.save_pretrained(result.path)
    _open_to_readers(result.path / WEIGHTS_FILE)
    corpus.tokenizer.save(str(result.path / TOKENIZER_FILE))
    survey_domain(corpus).save(result.path)
    survey_columns(model, find_special_tokens(corpus.tokenizer), corpus, result.path)
    write_card(result)
    result.save()


def _open_to_readers(file: Path) -> None:
    """Give the weights the permissions of any new file; safetensors makes them its owner's alone."""
    mask = os.umask(0)
    os.umask(mask)
    file.chmod(0o666 & ~mask)


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep transformers from drawing progress bars of its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
