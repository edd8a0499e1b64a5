"""Empty cells filled, each with a probability, or left empty with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from navi.corpus import Encoded, load_attributes
from navi.errors import ConfigError
from navi.tables import TABLE, find_headers, read_table
from navi.verbs.calibration import LEAST_ANSWERS, Calibration, Reliability
from navi.verbs.filling import Fill, open_frame
from navi.verbs.guessing.config import GuessConfig
from navi.verbs.guessing.gaps import Ints
from navi.verbs.guessing.guesser import Guesser
from navi.verbs.heldout import hide_cells
from navi.verbs.settling import Settled, fit_calibration, settle
from navi.verbs.survey import EmptyCells, Survey, list_roles, name_new_columns

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

# Shape suffixes: M empty cells.

FILLED = "filled"
NO_GUESS = "no value found"
WRONG_FORMAT = "value does not fit the column's format"
WRONG_TYPE = "value does not fit the column's type"
HIDDEN_SHARE = 0.2
"""Share of a frame's rows that may be kept from the evidence to hide cells in."""
_CANNOT = (ValueError, ArithmeticError)


@dataclass(frozen=True, kw_only=True)
class Imputation:
    """A frame with its empty cells filled, and an account of each of them."""

    filled: Any
    """The frame, of the kind given; cells that were not empty are as they were."""
    confidences: Any
    """A frame of the same kind and shape: the probability of each value put in, null everywhere else."""
    cells: pa.Table
    """Every empty cell: `row` (its number in the source), `column`, `value` put in or null, `guess` in any case, its
    `probability` and `kind` (known or generated), and the `reason`: filled, or why not."""
    calibration: Calibration | None
    """What made the probabilities, and how reliable they are; None if they are raw."""
    notes: tuple[str, ...]
    """What a reader of the probabilities should know."""

    @property
    def num_filled(self) -> int:
        """Number of cells that were filled."""
        return sum(reason == FILLED for reason in self.cells["reason"].to_pylist())

    @property
    def reliability(self) -> Reliability | None:
        """How far the probabilities are off, on cells hidden to measure it; None if they are raw."""
        return self.calibration.after if self.calibration else None


def impute_table(
    navi: Navi,
    frame: Any,
    *,
    confidence: float = 0.0,
    columns: Sequence[str] | None = None,
    calibration: Calibration | None = None,
    hidden_cells: int = 400,
    config: GuessConfig | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Imputation:
    """Fill the empty cells of a frame, or of some of its columns, where the probability is at least `confidence`.

    Probabilities are calibrated: by the calibration given, else by the model's own, else by one fitted to up to
    `hidden_cells` present cells of the frame, if there are 200. The frame itself is never changed.
    """
    if not 0.0 <= confidence <= 1.0:
        raise ConfigError(f"confidence must lie between 0 and 1, got {confidence}.")
    table = read_table(frame, navi.read_config, whole=True)
    opened = open_frame(table.frame)
    asked = None if columns is None else find_headers(opened.headers, columns, table.name)
    survey = Survey(opened, table, asked)
    known = _find_known(navi, survey.list_new())
    encoded = navi.encode({table.name: table, **name_new_columns(known)})
    cells = survey.list_cells(known)
    chosen = cells.list_asked()
    task = _Task(navi, encoded, config, seed)
    calibration, notes = task.find_calibration(calibration, hidden_cells if len(chosen) else 0)
    gaps = survey.find_gaps(encoded, cells, chosen)
    settled = settle(task.make_guesser(task.rows, calibration), gaps, list_roles(encoded, gaps), calibration, progress)
    return _put_in(survey, cells, chosen, settled, confidence, calibration, notes)


def _find_known(navi: Navi, headers: Sequence[str]) -> list[str]:
    """Return those of the headers whose attributes have known values in the model's domain."""
    mapping = load_attributes(navi.prepare_config.attributes)
    attributes = set(navi.domain.values["attribute"].unique().to_pylist()) if headers else set()
    return [header for header in headers if mapping.attribute_of(TABLE, header) in attributes]


class _Task:
    """One frame and one model."""

    def __init__(self, navi: Navi, encoded: Encoded, config: GuessConfig | None, seed: int) -> None:
        self._navi, self._encoded, self._config, self._seed = navi, encoded, config, seed
        self.rows = np.flatnonzero(encoded.arrays.row_table == 0)

    def make_guesser(self, rows: Ints, calibration: Calibration | None) -> Guesser:
        """Return a guesser that takes these rows for evidence."""
        navi = self._navi
        return Guesser(
            navi.runner,
            self._encoded,
            navi.tokenizer,
            rows=rows,
            domain=navi.domain,
            max_tokens=navi.prepare_config.max_value_tokens,
            blend=calibration.blend if calibration else None,
            config=self._config,
        )

    def find_calibration(
        self, given: Calibration | None, hidden_cells: int
    ) -> tuple[Calibration | None, tuple[str, ...]]:
        """Return the calibration given, the model's own, or the frame's, and what to say of it."""
        stored = given or Calibration.load(self._navi.folder)
        if stored is not None or not hidden_cells:
            return stored, ()
        shuffled = np.random.default_rng(self._seed).permutation(self.rows)
        held, rest = np.split(shuffled, [int(HIDDEN_SHARE * len(shuffled))])
        hidden = hide_cells(self._encoded.arrays, held, hidden_cells, seed=self._seed)
        if len(hidden.gaps) < LEAST_ANSWERS:
            return None, (f"probabilities are raw and may be too high: checking them takes {LEAST_ANSWERS} cells that "
                          f"hold something in a fifth of the rows, and there are {len(hidden.gaps)}. Look at the fills "
                          "before you use them, ask for more confidence, or give a table with more rows",)  # fmt: skip
        fitted = fit_calibration(self.make_guesser(np.sort(rest), None), hidden, seed=self._seed)
        return fitted, (f"probabilities are calibrated on {len(hidden.gaps)} hidden cells of the table itself",)


def _put_in(
    survey: Survey,
    cells: EmptyCells,
    chosen: Ints,
    settled: Settled,
    confidence: float,
    calibration: Calibration | None,
    notes: tuple[str, ...],
) -> Imputation:
    reason = cells.reason.astype(object)
    value = np.full(len(reason), None, dtype=object)
    put: dict[int, list[tuple[int, Any, float]]] = {}
    for number, cell in enumerate(chosen.tolist()):
        column, probability = int(cells.column[cell]), float(settled.probability[number])
        parsed, reason[cell] = _judge(survey, column, settled, number, confidence)
        if reason[cell] == FILLED:
            value[cell] = settled.texts[number]
            put.setdefault(column, []).append((int(cells.row[cell]), parsed, probability))
    return Imputation(
        filled=survey.frame.fill({column: _make_fill(entries, 1) for column, entries in put.items()}),
        confidences=survey.frame.tabulate({column: _make_fill(entries, 2) for column, entries in put.items()}),
        cells=_list_cells(survey, cells, chosen, settled, value.tolist(), reason.tolist()),
        calibration=calibration,
        notes=notes,
    )


def _judge(survey: Survey, column: int, settled: Settled, number: int, confidence: float) -> tuple[Any, str]:
    """Return a guess in the column's type and FILLED, or None and why it is not put in."""
    text, parse = settled.texts[number], survey.parsers[column]
    if text is None or parse is None:
        return None, WRONG_FORMAT if settled.tokens[number] else NO_GUESS
    if settled.probability[number] < confidence:
        return None, f"below confidence {confidence:g}"
    try:
        return parse(text), FILLED
    except _CANNOT:
        return None, WRONG_TYPE


def _make_fill(entries: Sequence[tuple[int, Any, float]], member: int) -> Fill:
    return Fill(rows=np.array([entry[0] for entry in entries]), values=[entry[member] for entry in entries])


def _list_cells(
    survey: Survey, cells: EmptyCells, chosen: Ints, settled: Settled, value: list[Any], reason: list[str]
) -> pa.Table:
    guess = np.full(len(value), None, dtype=object)
    kind = guess.copy()
    probability = np.full(len(value), np.nan)
    guess[chosen], probability[chosen] = np.array(settled.texts, dtype=object), settled.probability
    kind[chosen] = settled.kind
    return pa.table(
        {
            "row": survey.table.row_number[cells.row],
            "column": pa.array([survey.frame.headers[column] for column in cells.column.tolist()], pa.string()),
            "value": pa.array(value, pa.string()),
            "guess": pa.array(guess.tolist(), pa.string()),
            "probability": pa.array(probability, pa.float64(), from_pandas=True),
            "kind": pa.array(kind.tolist(), pa.string()),
            "reason": pa.array(reason, pa.string()),
        }
    )
