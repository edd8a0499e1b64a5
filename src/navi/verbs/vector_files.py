"""Embedding files of any size: to one Parquet file, or to a folder of shards that a killed run goes on with.

Shards: files stand together in groups of some size, in their order. Each group has its own, `00003-00000.parquet` and
so on, each of so many blocks of rows; `_00003.json` says that they are complete, `_navi.json` that all are.
"""

from __future__ import annotations

import fnmatch
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from navi.cluster import check_engine, run_jobs
from navi.corpus import ROLES, Encoded
from navi.errors import ConfigError, MissingExtraError, TableError
from navi.files import (
    ASIDE,
    check_target,
    digest_sample,
    is_there,
    list_folder,
    lock,
    open_binary,
    read_json,
    remove_file,
    remove_leftovers,
    temporary_folder,
    write_file,
    write_json,
)
from navi.model.runner import Floats, Progress
from navi.storage import connect, is_remote, show_address
from navi.tables import Chunk, Paths, ReadReport, Source, find_sources, join_reasons, list_paths, read_chunks
from navi.verbs.embed import EmbedConfig, embed_arrays, encode_ahead, group_chunks, index_cells, take_names
from navi.verbs.loading import PackedModel

if TYPE_CHECKING:
    from navi.verbs.navi import Navi

KINDS = ("rows", "segments", "headers", "attributes")
"""What can be embedded."""
FILE_ROWS = {"rows": 8192, "segments": 2048, "headers": 2048, "attributes": 8192}
"""Rows of files that are in memory at a time, a block; a row has many cells, each with a vector."""
ROLE_ROWS = 65_536
"""Rows of a file that decide on the roles of its columns; a column first met after them has none."""
GROUP_BYTES = 1 << 26
"""Bytes of files that go into the same shards, unless a single file has more."""
SHARD_BLOCKS = 32
"""Blocks of a shard, so that one of rows has at most 262,144."""
BEGUN_FILE, WHOLE_FILE = "_begun.json", "_navi.json"
FORMAT_VERSION = 1
"""Raised whenever a folder of shards can no longer be read by an older version."""
VECTORS_KEY = "navi"
"""Key of what a Parquet file of vectors says of them."""
BATCH_ROWS = 8192
"""Lines of vectors that are read at a time."""
RowsDone = Callable[[str, int], None]


@dataclass(frozen=True, kw_only=True)
class EmbeddedFiles:
    """What was written, and what was lost in reading."""

    path: Path
    """The Parquet file, or the folder of shards."""
    num_vectors: int
    """Vectors written."""
    reports: dict[str, ReadReport]
    """What reading lost of each table."""
    skipped: tuple[tuple[Path, str], ...]
    """Files that are no tables, each with the reason."""


def embed_files(
    navi: Navi,
    paths: Paths,
    out: str | Path,
    *,
    kind: str = "rows",
    config: EmbedConfig | None = None,
    progress: Callable[[str, int], None] | None = None,
    overwrite: bool = False,
    engine: str = "local",
) -> EmbeddedFiles:
    """Embed the rows, segments, headers or attributes of files and write them to Parquet, in the order of the files.

    `out` ends in `.parquet`, for one file that appears when it is whole, or has no suffix: then it is a folder of
    shards, and a run that was killed goes on there when it is started again. Each line has the table, the row's number
    in its file, for segments and headers also the header and its role, and the vector as a list of fixed size;
    attributes come once each, with their text alone. Memory does not grow with the files. `progress` is called with a
    table and how many of its rows were just done. With the engine `ray`, the workers of a cluster write the shards;
    they must see files and folder under the same paths.
    """
    on_cluster = check_engine(engine)
    out, config = Path(out), config or EmbedConfig()
    config = replace(config, output="numpy", pooling=config.pooling or navi.pooling)
    if kind not in KINDS:
        raise ConfigError(f"Cannot embed '{kind}'. Expected one of {', '.join(KINDS)}.")
    paths = list_paths(paths)
    check_vectors(out, paths, overwrite=overwrite)
    if on_cluster and not is_folder(out):
        raise ConfigError(f"--engine ray writes a folder of shards, not {show_address(out)}: leave the suffix out.")
    found = find_sources(paths)
    if is_folder(out):
        plan = ShardPlan.make(navi, found.sources, out, kind, config)
        num_vectors, reports = embed_shards(navi, plan, config, progress, overwrite=overwrite, on_cluster=on_cluster)
    else:
        reports = {source.name: ReadReport() for source in found.sources}
        make_lines = LineMaker(navi, kind, config)
        blocks = encode_files(navi, found.sources, FILE_ROWS[kind], reports, make_lines.survey)
        with lock(out), write_file(out) as aside:
            check_target(out, overwrite=overwrite)  # another process may have written it meanwhile
            num_vectors = write_vectors(aside, blocks, make_lines, progress)
            if not num_vectors:
                reasons = join_reasons([report.explanation for report in reports.values()])
                raise TableError(f"No table in {', '.join(map(str, paths))} has any row. {reasons}")
    return EmbeddedFiles(path=out, num_vectors=num_vectors, reports=reports, skipped=found.skipped)


def write_vectors(file: Path, blocks: Iterator[Encoded], make_lines: LineMaker, progress: RowsDone | None) -> int:
    """Write the vectors of all blocks, and return how many; without any there is no file."""
    num_vectors = 0
    with ExitStack() as stack:
        writer: pq.ParquetWriter | None = None
        for encoded in blocks:
            lines = make_lines(encoded)
            writer = writer or stack.enter_context(pq.ParquetWriter(file, lines.schema, compression="zstd"))
            writer.write_table(lines)
            num_vectors += lines.num_rows
            for table, count in enumerate(np.bincount(encoded.arrays.row_table)):
                if progress is not None:
                    progress(encoded.tables[table], int(count))
    return num_vectors


def is_folder(out: Path) -> bool:
    """Return whether vectors go to a folder of shards."""
    return not out.suffix


def is_whole(folder: Path) -> bool:
    """Return whether a folder has all of its shards."""
    return is_there(folder / WHOLE_FILE) and not is_there(folder / BEGUN_FILE)


def check_vectors(out: Path, inputs: Sequence[str | Path], *, overwrite: bool) -> None:
    """Refuse, before any work, a place that vectors could or should not go to, or a name of another format."""
    if out.suffix.lower() not in ("", ".parquet"):
        raise ConfigError(
            f"Cannot write {show_address(out)}: vectors go to Parquet. Let it end in .parquet, or give a folder, "
            "without a suffix."
        )
    if not is_folder(out):
        check_target(out, map(Path, inputs), overwrite=overwrite)
        return
    check_target(out / BEGUN_FILE if out.is_dir() else out, map(Path, inputs), overwrite=True)
    if is_whole(out) and not overwrite:
        raise ConfigError(f"{show_address(out)} is complete. Replace it with --overwrite, or give another name.")
    is_ours = is_whole(out) or is_there(out / BEGUN_FILE)
    found = list_folder(out) if not is_ours and (is_remote(out) or out.is_dir()) else ()
    if not all(name.startswith(ASIDE) for name in found):  # a process killed at its first write leaves no more
        raise ConfigError(f"{show_address(out)} has files that are no shards of vectors. Give another name.")


def encode_files(
    navi: Navi,
    sources: Sequence[Source],
    num_rows: int,
    reports: Mapping[str, ReadReport] | None = None,
    before: Callable[[Source], None] = lambda source: None,
    skip: int = 0,
    unreadable: list[str] | None = None,
) -> Iterator[Encoded]:
    """Yield the rows of files as the model sees them, so many at a time; small tables come together.

    What is lost goes into the table's report. `before` is called with each file before it is read. The first `skip`
    blocks are read and left out. Where a list is given for `unreadable`, a file that cannot be read is said there.
    """
    config = replace(navi.read_config, chunk_rows=num_rows)

    def read() -> Iterator[tuple[str, Chunk]]:
        for source in sources:
            before(source)
            report = reports[source.name] if reports else ReadReport()
            num_read = 0
            try:
                for chunk in read_chunks(source, report, config):
                    num_read += chunk.num_rows
                    yield source.name, chunk
            except TableError as error:
                if unreadable is None:
                    raise
                unreadable.append(f"{error} Its first {num_read:,} rows were read." if num_read else str(error))

    return encode_ahead(navi, islice(group_chunks(read(), num_rows), skip, None))


class LineMaker:
    """Makes the lines that are written of encoded rows: what they are of, and the vectors."""

    def __init__(self, navi: Navi, kind: str, config: EmbedConfig) -> None:
        self._navi, self._kind, self._config = navi, kind, config
        self._encoder = navi.make_encoder()
        self._roles: dict[tuple[str, str], str] = {}
        self._attributes: set[str] = set()
        facts = {"model": navi.fingerprint, "kind": kind, "pooling": config.pooling, "normalize": config.normalize}
        self._facts = {VECTORS_KEY: json.dumps(facts)}

    def survey(self, source: Source) -> None:
        """Find the roles of a table's columns by its first rows: its cells are written before its end is read."""
        if self._kind not in ("segments", "headers"):
            return
        config = replace(self._navi.read_config, chunk_rows=FILE_ROWS[self._kind])
        chunks = ((source.name, chunk) for chunk in read_chunks(source, ReadReport(), config))
        for group in islice(group_chunks(chunks, ROLE_ROWS), 1):
            encoded = self._encoder.encode(group)
            headers = encoded.headers.take(pa.array(encoded.arrays.column_header)).to_pylist()
            roles = [ROLES[role] for role in encoded.arrays.column_role]
            self._roles.update(zip([(source.name, header) for header in headers], roles, strict=True))

    def __call__(self, encoded: Encoded, progress: Progress | None = None) -> pa.Table:
        """Return the lines of some encoded rows."""
        if self._kind == "attributes":
            texts = encoded.attributes.to_pylist()
            new = np.flatnonzero([text not in self._attributes for text in texts])
            self._attributes.update(texts)
            lines = pa.table({"attribute": encoded.attributes.take(pa.array(new)).cast(pa.string())})
            vectors = self._navi.runner.embed_attributes(encoded.arrays, new)
        else:
            vectors = embed_arrays(self._navi, encoded.arrays, self._kind, self._config, progress)
            lines = self._index(encoded)
        flat = pa.array(np.asarray(self._config.finish(vectors)).reshape(-1))
        lines = lines.append_column("embedding", pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]))
        return lines.replace_schema_metadata(self._facts)

    def _index(self, encoded: Encoded) -> pa.Table:
        if self._kind == "rows":
            lines = pa.table({"table": take_names(encoded.tables, encoded.arrays.row_table), "row": encoded.row_number})
        else:
            lines = index_cells(encoded)
            keys = zip(lines["table"].to_pylist(), lines["header"].to_pylist(), strict=True)
            lines = lines.set_column(3, "role", pa.array([self._roles.get(key) for key in keys], pa.string()))
        # Dictionaries would differ from one part of a file to the next.
        plain = [
            pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
            for field in lines.schema
        ]
        return lines.cast(pa.schema(plain))


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """What goes into a folder of shards; a run that is to go on must have the same."""

    folder: Path
    groups: tuple[tuple[Source, ...], ...]
    facts: dict[str, Any]
    """What `_begun.json` holds: the model, the settings and the files."""

    @classmethod
    def make(cls, navi: Navi, sources: Sequence[Source], folder: Path, kind: str, config: EmbedConfig) -> ShardPlan:
        """Divide files into groups, in their order."""
        if kind == "attributes":
            raise ConfigError(f"Attributes come once each, so they go to one file: give {folder}.parquet.")
        groups: list[list[Source]] = []
        room = 0
        for source in sources:
            size = source.measure()[0]
            if size > room or not groups:
                groups.append([])
                room = GROUP_BYTES
            groups[-1].append(source)
            room -= size
        files = [[source.name, *source.measure()] for source in sources]
        facts = {"format_version": FORMAT_VERSION, "model": navi.fingerprint, "kind": kind, **asdict(config)}
        facts |= {
            "precision": navi.runner.precision,
            "block_rows": FILE_ROWS[kind],
            "shard_blocks": SHARD_BLOCKS,
            "files": files,
        }
        return cls(folder=folder, groups=tuple(map(tuple, groups)), facts=facts)

    def name_shard(self, group: int, piece: int) -> Path:
        """Return where a piece of a group lies."""
        return self.folder / f"{group:05}-{piece:05}.parquet"

    def name_record(self, group: int) -> Path:
        """Return where it is said that a group is complete."""
        return self.folder / f"_{group:05}.json"

    def begin(self, *, overwrite: bool) -> None:
        """Take possession of the folder; a finished one, and one with other contents, needs `overwrite`."""
        if is_there(self.folder / BEGUN_FILE):
            begun = read_json(self.folder / BEGUN_FILE, ConfigError, "Replace it with --overwrite.")
            differs = [name for name in {**begun, **self.facts} if begun.get(name) != self.facts.get(name)]
            if not differs:
                return
            if not overwrite:
                what = "other " + ", ".join(differs)
                raise ConfigError(
                    f"{show_address(self.folder)} was begun with {what}. Give another folder, or --overwrite."
                )
        there = list_folder(self.folder)
        for name in [*fnmatch.filter(there, "*.parquet"), *reversed(fnmatch.filter(there, "_*.json"))]:
            remove_file(there[name])
        write_json(self.folder / BEGUN_FILE, self.facts)

    def find_done(self, group: int) -> dict[str, Any] | None:
        """Return what is known of a complete group, None if it is not; a shard that has changed is an error."""
        file = self.name_record(group)
        if not is_there(file):
            return None
        facts = read_json(file, ConfigError, "Remove it and run again.")
        if not all(is_there(self.folder / name) for name in facts["shards"]):
            return None
        check_shards(self.folder, facts["shards"], "Remove it and run again.")
        return facts


def check_shards(folder: Path, shards: dict[str, dict[str, Any]], remedy: str) -> None:
    """Refuse shards that are not there or not as they were written."""
    for name, shard in shards.items():
        if not is_there(folder / name) or digest_sample(folder / name) != shard["digest"]:
            raise ConfigError(f"The shard {show_address(folder / name)} is damaged or not there. {remedy}")


def embed_shards(
    navi: Navi, plan: ShardPlan, config: EmbedConfig, progress: RowsDone | None, *, overwrite: bool, on_cluster: bool
) -> tuple[int, dict[str, ReadReport]]:
    """Write all shards that are not there yet; return how many vectors there are, and what reading lost."""
    if not is_remote(plan.folder):
        plan.folder.mkdir(exist_ok=True)
    with lock(plan.folder, inside=True):
        remove_leftovers(plan.folder)
        plan.begin(overwrite=overwrite)
        left = [group for group in range(len(plan.groups)) if plan.find_done(group) is None]
        if on_cluster:
            embed_on_cluster(navi, plan, left, config, progress)
        else:
            for group in left:
                embed_group(navi, plan, group, config, progress)
        return finish_shards(plan)


def embed_on_cluster(
    navi: Navi, plan: ShardPlan, groups: Sequence[int], config: EmbedConfig, progress: RowsDone | None
) -> None:
    """Let the workers of a cluster write the shards of some groups; the model's files are sent to them."""
    absolute = tuple(
        tuple(replace(source, path=_make_absolute(source.path)) for source in group) for group in plan.groups
    )
    there = replace(plan, folder=_make_absolute(plan.folder), groups=absolute)
    packed = PackedModel.read(navi.folder)
    for _, rows in run_jobs(_make_embedder, [packed, navi.runner.precision, there, config], groups, gpus=True):
        for table, count in rows:
            if progress is not None:
                progress(table, count)


def _make_embedder(
    packed: PackedModel, precision: str, plan: ShardPlan, config: EmbedConfig
) -> Callable[[int], list[tuple[str, int]]]:
    """Return what a worker of a cluster does with a group."""
    from navi.verbs.navi import Navi

    navi = Navi.from_pretrained(packed.unpack(temporary_folder()), precision=precision)

    def embed(group: int) -> list[tuple[str, int]]:
        rows: list[tuple[str, int]] = []
        embed_group(navi, plan, group, config, lambda table, count: rows.append((table, count)))
        return rows

    return embed


def _make_absolute(path: Path) -> Path:
    return path if is_remote(path) else path.absolute()


def embed_group(navi: Navi, plan: ShardPlan, group: int, config: EmbedConfig, progress: RowsDone | None = None) -> None:
    """Write the shards of a group that are not there yet, then that it is complete.

    Its files are read from their beginning, to know what reading loses; rows of shards that are there are not embedded.
    """
    reports = {source.name: ReadReport() for source in plan.groups[group]}
    kind = plan.facts["kind"]
    make_lines = LineMaker(navi, kind, config)
    piece = 0
    while is_there(plan.name_shard(group, piece)):
        piece += 1
    blocks = encode_files(
        navi, plan.groups[group], FILE_ROWS[kind], reports, make_lines.survey, skip=piece * SHARD_BLOCKS
    )
    while (first := next(blocks, None)) is not None:
        with write_file(plan.name_shard(group, piece)) as aside:
            write_vectors(aside, chain([first], islice(blocks, SHARD_BLOCKS - 1)), make_lines, progress)
        piece += 1
    shards = {shard.name: _describe(shard) for shard in (plan.name_shard(group, each) for each in range(piece))}
    facts = {"shards": shards, "reports": {name: vars(report) for name, report in reports.items()}}
    write_json(plan.name_record(group), facts)


def _describe(shard: Path) -> dict[str, Any]:
    try:
        with open_binary(shard) as opened:
            rows = pq.read_metadata(opened).num_rows
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"The shard {show_address(shard)} is damaged: {error}. Remove it and run again.") from error
    return {"rows": rows, "digest": digest_sample(shard)}


def finish_shards(plan: ShardPlan) -> tuple[int, dict[str, ReadReport]]:
    """Say that all shards are there; return how many vectors they have, and what reading lost."""
    shards: dict[str, dict[str, Any]] = {}
    reports: dict[str, ReadReport] = {}
    for group in range(len(plan.groups)):
        facts = plan.find_done(group)
        if facts is None:
            raise ConfigError(
                f"Shards that workers wrote are not in {show_address(plan.folder)}. Give a folder that all machines "
                "see under this path, or one in an object store."
            )
        shards |= facts["shards"]
        for name, report in facts["reports"].items():
            counts = {key: Counter(report[key]) for key in ("dropped", "cells")}
            reports[name] = ReadReport(**{**report, **counts})
    num_vectors = sum(shard["rows"] for shard in shards.values())
    if not num_vectors:
        reasons = join_reasons([report.explanation for report in reports.values()])
        raise TableError(f"No table that was to go to {plan.folder} has any row. {reasons}")
    write_json(plan.folder / WHOLE_FILE, {**plan.facts, "num_vectors": num_vectors, "shards": shards}, checksum=True)
    for group in range(len(plan.groups)):
        remove_file(plan.name_record(group))
    remove_file(plan.folder / BEGUN_FILE)
    return num_vectors, reports


def list_shards(folder: Path) -> tuple[dict[str, Any], list[Path]]:
    """Return what is known of a finished folder of shards, and the shards in order; damage is an error."""
    if not is_whole(folder):
        raise ConfigError(
            f"{show_address(folder)} is not a finished folder of vectors: run `navi embed` again, which goes on."
        )
    remedy = "Embed the files again with --overwrite."
    facts = read_json(folder / WHOLE_FILE, ConfigError, remedy)
    check_shards(folder, facts["shards"], remedy)
    return facts, [folder / name for name in facts["shards"]]


def open_vectors(path: Path) -> tuple[dict[str, Any], Any]:
    """Open a Parquet file of vectors, a folder of shards or a Lance dataset: what is known of them, and the dataset."""
    files = list_shards(path)[1] if is_folder(path) else [path]
    try:
        dataset = _open_lance(path) if path.suffix == ".lance" else _open_parquet(files)
        known = json.loads(dataset.schema.metadata[VECTORS_KEY.encode()])
        dataset.schema.field("embedding")
        return {name: known[name] for name in ("model", "kind", "pooling", "normalize")}, dataset
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise TableError(f"{path} is not a Parquet file of vectors that `navi embed` wrote: {error}.") from error


def has_vectors(path: Path) -> bool:
    """Return whether a path is what `navi embed` wrote, or a Lance dataset of it."""
    try:
        return bool(open_vectors(path))
    except (ConfigError, TableError):
        return False


def _open_parquet(files: Sequence[Path]) -> Any:
    from pyarrow.dataset import ParquetFileFormat, dataset  # imports pandas

    how = ParquetFileFormat(pre_buffer=False)  # else a whole file is in memory
    if not is_remote(files[0]):
        return dataset(list(map(str, files)), format=how)
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(file)) for file in files]
        return dataset([place for _, place in opened], filesystem=opened[0][0], format=how)


def _open_lance(path: Path) -> Any:
    try:
        import lance
    except ImportError as error:
        raise MissingExtraError("A Lance dataset", "lance") from error
    return lance.dataset(str(path))


def read_batches(dataset: Any, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a dataset, in their order; few are in memory at a time."""
    yield from dataset.to_batches(columns=columns, batch_size=BATCH_ROWS, batch_readahead=1, fragment_readahead=1)


def read_floats(lines: pa.Table | pa.RecordBatch) -> Floats:
    """Return the vectors of some lines."""
    column = pa.chunked_array(lines.column("embedding"))
    flat: Floats = np.asarray(pc.list_flatten(column)).astype(np.float32, copy=False)
    return flat.reshape(len(column), -1)
