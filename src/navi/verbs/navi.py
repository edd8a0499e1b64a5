"""A trained model, ready to be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import pyarrow as pa

from navi.backbones import find_model
from navi.batches import SpecialTokens
from navi.corpus import Encoded, PrepareConfig, RowEncoder
from navi.model import Runner
from navi.model.runner import Progress
from navi.settings import IMPUTE_CONFIDENCE, MATCH_THRESHOLD
from navi.tables import ReadConfig, Table, read_tables
from navi.verbs.embed import EmbedConfig, Vectors, embed_arrays, embed_frames, index_cells, progress_bar
from navi.verbs.loading import Devices, find_prepare_config, fingerprint_model, open_model, parse_devices

if TYPE_CHECKING:
    import pyarrow as pa
    from tokenizers import Tokenizer

    from navi.verbs.column_groups import Decision
    from navi.verbs.impute import Fills
    from navi.verbs.link import Links
    from navi.verbs.match import Matches, SchemaMatches
    from navi.verbs.name import Names
    from navi.verbs.search import Method, Neighbours
    from navi.verbs.unify import Duplicates, Unified, UnifySpec

Frame = TypeVar("Frame")


class Navi:
    """A model directory opened for questions; frames are pandas, Polars, Arrow, lists of dictionaries, or one row."""

    def __init__(self, runner: Runner, tokenizer: Tokenizer, folder: Path, prepare_config: PrepareConfig) -> None:
        self.runner = runner
        self.tokenizer = tokenizer
        self.folder = folder
        self.prepare_config = prepare_config

    @classmethod
    def from_pretrained(
        cls,
        path: str | Path | None = None,
        *,
        device: Devices = None,
        precision: str | None = None,
        tokens_per_batch: int | None = None,
    ) -> Self:
        """Load a model directory that `navi pretrain` wrote, or the model that comes along, `navi-base`.

        `device` may name several (`cuda:0,cuda:1`): rows are then shared out among them. `precision` is float32 on a
        CPU and bfloat16 on a GPU if it is not given; int8 is quicker on a CPU, and near float32 but not the same.
        """
        folder, devices = find_model(path), parse_devices(device)
        model, tokenizer = open_model(folder)
        special = SpecialTokens.of(tokenizer)
        runner = Runner(model, special, devices=devices, precision=precision, tokens_per_batch=tokens_per_batch)
        return cls(runner, tokenizer, folder, find_prepare_config(folder))

    def __deepcopy__(self, memo: Any) -> Self:
        """Return itself: nothing in it changes, so copies may share it."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by reference: the directory is opened again, on devices of the same names."""
        devices = ",".join(map(str, self.runner.devices))
        return _open, (type(self), self.folder, devices, self.runner.precision, self.runner.tokens_per_batch)

    @property
    def special(self) -> SpecialTokens:
        """The tokens that rows are put together with."""
        return self.runner.special

    @cached_property
    def fingerprint(self) -> str:
        """Stands for the model: weights, configuration and tokenizer."""
        return fingerprint_model(self.folder)

    @property
    def hidden_size(self) -> int:
        """Length of every embedding."""
        return int(self.runner.model.config.hidden_size)

    @property
    def pooling(self) -> str:
        """What stands for a row where no pooling is named: [CLS] in a model of the paper's preset, else its text."""
        return "text" if self.runner.model.config.row_words else "cls"

    @cached_property
    def trained_values(self) -> pa.Table:
        """Frequent values of the rows that the model learned from: `attribute`, `value`, `count`."""
        from navi.training.export import load_values

        return load_values(self.folder)

    @property
    def read_config(self) -> ReadConfig:
        """How frames are flattened: as the model's own corpus was."""
        return replace(self.prepare_config.read, strict=False, encoding=None, delimiter=None)

    def read(self, frames: Any, columns: Sequence[str] | None = None) -> dict[str, Table]:
        """Read one frame, several in a list, {name: frame}, or files; what is read already stays as it is."""
        return read_tables(frames, self.read_config, columns=columns)

    def encode(self, frames: Any) -> Encoded:
        """Return frames as the model sees them: segments, tokens, roles. Rows without any cell are not among them."""
        return self.make_encoder().encode({name: table.chunks for name, table in self.read(frames).items()})

    def encode_whole(self, frames: Any) -> Encoded:
        """Return frames with every cell, however long a row is: for what counts cells instead of reading rows."""
        from navi.verbs.match import NO_LIMIT

        encoder = RowEncoder(self.tokenizer, replace(self.prepare_config, max_tokens=NO_LIMIT))
        return encoder.encode({name: table.chunks for name, table in self.read(frames).items()})

    def make_encoder(self) -> RowEncoder:
        """Return what makes rows into what the model sees, for one thread; it remembers words from call to call."""
        return RowEncoder(self.tokenizer, self.prepare_config)

    def embed_rows(
        self,
        frame: Any,
        *,
        columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        normalize: bool = False,
        show_progress_bar: bool = False,
        dtype: str = "float32",
        output: str = "numpy",
        pooling: str | None = None,
    ) -> Vectors:
        """Return (rows, D): one vector for each row of the frame, in its order; a row without any cell has zeros.

        With `columns`, only these are read. `pooling` is `text`, `cls`, `mean` or `values`, as in `EmbedConfig`.
        Batches, neighbours and devices change the result by rounding alone, less than 1e-5 in float32.
        """
        config = EmbedConfig(batch_size=batch_size, normalize=normalize, dtype=dtype, output=output, pooling=pooling)
        with progress_bar("Embedding rows", show=show_progress_bar) as progress:
            return config.finish(embed_frames(self, frame, columns, config, progress))

    def embed_segments(
        self,
        frame: Any,
        *,
        return_index: bool = False,
        columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        normalize: bool = False,
        show_progress_bar: bool = False,
        dtype: str = "float32",
        output: str = "numpy",
    ) -> Vectors | tuple[Vectors, pa.Table]:
        """Return (cells, D): the segment embedding of each cell that holds something, row after row.

        `return_index=True` adds an Arrow table with table, row (from 1), header and role of each. All else is as in
        `embed_rows`.
        """
        config = EmbedConfig(batch_size=batch_size, normalize=normalize, dtype=dtype, output=output)
        return self._embed_cells(frame, "segments", config, columns, return_index, show_progress_bar)

    def embed_headers(
        self,
        frame: Any,
        *,
        return_index: bool = False,
        columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        normalize: bool = False,
        show_progress_bar: bool = False,
        dtype: str = "float32",
        output: str = "numpy",
    ) -> Vectors | tuple[Vectors, pa.Table]:
        """Return (cells, D): the embedding of each cell's header; otherwise like `embed_segments`."""
        config = EmbedConfig(batch_size=batch_size, normalize=normalize, dtype=dtype, output=output)
        return self._embed_cells(frame, "headers", config, columns, return_index, show_progress_bar)

    def _embed_cells(
        self, frame: Any, kind: str, config: EmbedConfig, columns: Sequence[str] | None, return_index: bool, show: bool
    ) -> Vectors | tuple[Vectors, pa.Table]:
        encoded = self.encode(self.read(frame, columns))
        with progress_bar(f"Embedding {kind}", show=show) as progress:
            vectors = config.finish(embed_arrays(self, encoded.arrays, kind, config, progress))
        return (vectors, index_cells(encoded)) if return_index else vectors

    def embed_attributes(
        self,
        frame: Any,
        *,
        return_index: bool = False,
        normalize: bool = False,
        dtype: str = "float32",
        output: str = "numpy",
    ) -> Vectors | tuple[Vectors, pa.Table]:
        """Return (attributes, D): the context-free vector of each distinct attribute, in order of first appearance.

        `return_index=True` adds an Arrow table with their texts.
        """
        config = EmbedConfig(normalize=normalize, dtype=dtype, output=output)
        encoded = self.encode_whole(frame)
        vectors = config.finish(self.runner.embed_attributes(encoded.arrays))
        return (vectors, pa.table({"attribute": encoded.attributes})) if return_index else vectors

    def name_columns(
        self, frame: Any, columns: Sequence[str] | None = None, *, top: int = 5, rows: int = 40, free: bool = True
    ) -> Names:
        """Return the `top` likeliest headers of each column asked for; None asks for those whose header says nothing.

        Nothing of a column's own header is seen, nor any other header that says nothing. The model is asked about
        `rows` rows, the values are compared over all. With `free`, words that are no known header are proposed too.
        """
        from navi.verbs.name import name_columns

        return name_columns(self, frame, columns, top=top, rows=rows, free=free)

    @overload
    def match(
        self,
        frames: Any,
        *,
        to: None = None,
        threshold: float = MATCH_THRESHOLD,
        one_to_one: bool = False,
        decisions: Sequence[Decision] = (),
        explain: bool = False,
    ) -> Matches: ...

    @overload
    def match(
        self,
        frames: Any,
        *,
        to: Any,
        top: int = 5,
        threshold: float = MATCH_THRESHOLD,
        decisions: Sequence[Decision] = (),
        explain: bool = False,
    ) -> SchemaMatches: ...

    def match(
        self,
        frames: Any,
        *,
        to: Any = None,
        top: int = 5,
        threshold: float = MATCH_THRESHOLD,
        one_to_one: bool = False,
        decisions: Sequence[Decision] = (),
        explain: bool = False,
    ) -> Matches | SchemaMatches:
        """Return the columns of several tables, `{name: frame}` or a list, in clusters that mean the same.

        `threshold` is the probability from which columns match. A cluster has at most one column of each table; the
        members of a list (`star1`, `star2`) may share one, but for `one_to_one`. A column whose header says nothing
        (`col_3`) is matched by its values, one without values by its header. `decisions` are taken as given, and move
        the others. With `explain` pairs say what spoke for and against them.

        With `to`, each column has its `top` candidates in a target schema instead: a table, a list of names, or a
        mapping of names to descriptions.
        """
        from navi.verbs.match import match_columns

        return match_columns(self, frames, to, top, threshold, one_to_one, decisions, explain)

    def unify(
        self,
        frames: Any,
        *,
        spec: UnifySpec | None = None,
        threshold: float = MATCH_THRESHOLD,
        decisions: Sequence[Decision] = (),
        originals: bool = False,
        source_headers: bool = False,
        duplicates: Duplicates | None = None,
    ) -> Unified:
        """Return the rows of several tables as one, with a column for each cluster of `match`, and its specification.

        Every cell that was read is kept (each table's `report` has what reading lost): a second column of a table in a
        cluster stays beside it. Each column has one type, dates, numbers and booleans as such, currencies and units in
        columns of their own. With `originals` the texts come along, with `source_headers` the header that each cell
        stood under. With `duplicates`, rows that `link` finds to be about the same thing become one. A `spec` says all
        of that itself; `navi.verbs.unify.unify` runs one that merges nothing without any model.
        """
        from navi.verbs.unify import leave_out_members, merge_rows, plan_unify, unify

        tables = read_tables(frames, replace(self.read_config, max_family=None), keep_empty=True)
        limit = self.read_config.max_family
        doubts: tuple[str, ...] = ()
        short = tables if limit is None else {name: leave_out_members(each, limit) for name, each in tables.items()}
        if spec is None:
            matches = self.match(short, threshold=threshold, decisions=decisions)
            spec, doubts = plan_unify(
                tables, matches, originals=originals, source_headers=source_headers, duplicates=duplicates
            )
        found = unify(tables, spec)
        if spec.duplicates is not None:
            linked = self.link(short, threshold=spec.duplicates.threshold, within=True)
            found = merge_rows(found, [[(row.table, row.row) for row in each.rows] for each in linked.clusters])
        return replace(found, notes=(*doubts, *found.notes))

    def search(
        self, frames: Any, like: Mapping[str, Any] | str | tuple[str, int], k: int = 10, *, method: Method = "auto"
    ) -> Neighbours:
        """Return the k rows of some frames that are nearest to a row.

        `like` is a row, whole or in part (`{"title": "Alien"}` or the text `title=Alien, year=1979`), or a table's name
        and the number, from 1, of one of its rows. To search the same frames often, make a `SearchIndex`.
        """
        from navi.verbs.search import index_frames

        index = index_frames(self, frames, method=method)
        if isinstance(like, tuple):
            table, row = like
            return index.search_row(table, row, k)
        return index.search(like, k)[0]

    def link(
        self,
        frames: Any,
        *,
        threshold: float = 0.5,
        one_to_one: bool = False,
        within: bool = False,
        labels: Any = None,
        k: int = 10,
        encoder: bool | None = None,
        progress: Progress | None = None,
    ) -> Links:
        """Return the rows of several tables, `{name: frame}` or a list, that are about the same thing.

        `threshold` is the probability from which two rows are linked. `one_to_one` gives each row one partner in each
        other table at most. Rows of one table are compared if it is the only one, or with `within`. `labels`, a frame
        or a file, has `left_row`, `right_row` and `same` (yes or no), and `left_table` and `right_table` where there
        are more than two: the scorer learns from them, and they are taken as given. Candidates are the `k` nearest of
        each row by words, trigrams and, with `encoder`, the model's vectors (None: up to 20,000 rows).
        """
        from navi.verbs.link import link_tables

        return link_tables(self, frames, threshold, one_to_one, within, labels, k, encoder, progress)

    def impute(
        self,
        frame: Frame,
        *,
        confidence: float = IMPUTE_CONFIDENCE,
        columns: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Fills[Frame]:
        """Return the frame with its empty cells filled, and how sure each fill is; below `confidence` none is made.

        With `columns`, only these are filled. A stream, a lazy frame and one row come back whole.
        """
        from navi.verbs.impute import impute_table

        return impute_table(self, frame, confidence, columns, progress)


def _open(kind: type[Navi], folder: Path, device: str, precision: str, tokens_per_batch: int) -> Navi:
    return kind.from_pretrained(folder, device=device, precision=precision, tokens_per_batch=tokens_per_batch)
