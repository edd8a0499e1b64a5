"""What the demo's steps share: the folder, what earlier steps made, and the scores."""

from __future__ import annotations

from collections.abc import Hashable, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from navi.cli.console import Screen
from navi.cli.render import format_share, make_table
from navi.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from navi.cli.demo.page import Findings
    from navi.corpus import Corpus
    from navi.simulator import Truth
    from navi.verbs import Navi

TRUTH_FILE = "truth.json"
"""Marks a folder as the demo's own, and holds what the simulator knows."""


MANY_CATALOGUES = 6
"""Tables from which two can be kept out of training."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """How well something went, beside what a simple guess reaches."""

    task: str
    """What was to be found."""
    guess_name: str
    """What the simple guess does."""
    guess: float
    """Share that the guess gets right."""
    navi: float
    """Share that NAVI gets right."""


@dataclass(kw_only=True)
class Tour:
    """One run of the demo."""

    folder: Path
    """Where everything is kept."""
    screen: Screen
    """Where everything is shown."""
    seed: int = 0
    """Decides the tables, the splits and the training."""
    minutes: float = 5.0
    """Time for pretraining, about."""
    num_catalogues: int = 14
    """Tables that are made."""
    num_rows: int | None = None
    """Rows of all tables; None for 400 each on average."""
    backbone: str = "minilm"
    """The BERT that training starts from."""
    scores: list[Score] = field(default_factory=list)
    """What the steps found."""

    @property
    def tables(self) -> Path:
        """The folder of the simulated catalogues."""
        return self.folder / "tables"

    @property
    def corpus_folder(self) -> Path:
        """The corpus made of them."""
        return self.folder / "corpus"

    @property
    def model_folder(self) -> Path:
        """The model learned from it."""
        return self.folder / "model"

    @cached_property
    def truth(self) -> Truth:
        """What the simulator knows of the catalogues."""
        from navi.simulator import Truth

        return Truth.load(self.folder / TRUTH_FILE)

    @cached_property
    def corpus(self) -> Corpus:
        """The prepared corpus."""
        from navi.corpus import Corpus

        return Corpus.open(self.corpus_folder)

    @cached_property
    def model(self) -> Navi:
        """The trained model, ready to be asked."""
        from navi.verbs import Navi

        return Navi.from_pretrained(self.model_folder)

    @cached_property
    def findings(self) -> Findings:
        """What the page is made of; steps add to it."""
        from navi.cli.demo.page import Findings

        return Findings(scores=self.scores)

    @property
    def num_unseen(self) -> int:
        """Tables kept out of training, to be asked about afterwards."""
        return 2 if self.num_catalogues >= MANY_CATALOGUES else 1

    @property
    def unseen_tables(self) -> list[str]:
        """The names of these tables."""
        return [table["name"] for table in self.corpus.manifest["tables"] if table["splits"]["unseen"]]

    def check_folder(self) -> None:
        """Refuse a folder that holds anything but an earlier demo."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ConfigError(f"{self.folder} is a file. Give another --folder.")
        if self.folder.is_dir() and any(self.folder.iterdir()) and not (self.folder / TRUTH_FILE).is_file():
            raise ConfigError(f"{self.folder} holds files that no demo put there. Give a new or an empty --folder.")

    def list_scores(self) -> Table:
        """Return all scores so far, one a line."""
        rows = [(each.task, format_share(each.navi), format_share(each.guess), each.guess_name) for each in self.scores]
        return make_table(("task", "NAVI", "guess", "what the guess is"), rows, right=("NAVI", "guess"))


def find_file(folder: Path, table: str) -> Path:
    """Return the file of a simulated catalogue, which is named after it."""
    return next(path for path in sorted(folder.iterdir()) if path.name.split(".")[0] == table)


def measure_f1(found: Set[Hashable], truth: Set[Hashable]) -> float:
    """Return the harmonic mean of precision and recall.

    >>> measure_f1({"a", "b"}, {"a", "c"})
    0.5
    """
    return 2 * len(found & truth) / max(len(found) + len(truth), 1)
