"""What a run says while it goes and when it is done."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from navi.errors import ModelError

RECORD_FILE = "pretrain.json"


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Where a run stands: handed to `progress` after each step, and whenever there is something to say."""

    step: int
    """Steps done."""
    num_steps: int
    """Steps of the whole run."""
    epoch: int
    """Epochs begun."""
    num_rows: int
    """Rows that this process has learned from since it started."""
    num_tokens: int
    """Tokens of them, each copy of a row counted."""
    rows_per_second: float
    """Rows learned from each second, lately."""
    tokens_per_second: float
    """Tokens learned from each second, lately."""
    seconds_left: float | None
    """Expected time to the end; None before it can be told."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """The latest line of metrics.jsonl of the kind `train`; empty before the first."""
    note: str | None = None
    """Something that a user should know, such as memory that ran out."""


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
    """Time spent, over all sessions of the run."""
    device: str
    """Kind of device, and arithmetic."""
    train: dict[str, Any]
    """The last line of metrics.jsonl of the kind `train`."""
    validation: list[dict[str, Any]]
    """All lines of the kind `validation`: the first is of the untrained model, with the guesses to beat."""
    notes: list[str]
    """What a user should know of the run."""

    def save(self) -> None:
        """Write the record into the model directory; it says that the run is done."""
        record = asdict(self)
        del record["path"]
        (self.path / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the record of a model directory."""
        file = Path(path) / RECORD_FILE
        try:
            return cls(path=Path(path), **json.loads(file.read_text(encoding="utf-8")))
        except (OSError, json.JSONDecodeError, TypeError) as error:
            raise ModelError(f"Cannot read {file}: {error}. A model directory holds the record of its run.") from error
