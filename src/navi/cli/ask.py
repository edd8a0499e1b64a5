"""The verbs that ask a model: match, unify, name, link, impute, search and embed, and how each shows its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from navi.cli.app import (
    Paths,
    Run,
    TablePath,
    list_lost,
    pick_sheet,
    repeat_command,
    split_names,
    summarise_reports,
    verb,
)
from navi.cli.console import (
    NARROW,
    Screen,
    count_things,
    find_free,
    format_count,
    format_duration,
    make_heading,
    make_table,
    quote,
    shorten,
)
from navi.errors import ConfigError, TableError
from navi.settings import IMPUTE_CONFIDENCE, MATCH_THRESHOLD

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType
    from rich.table import Table as Shown

    from navi.tables import Source, Table
    from navi.verbs.column_groups import ColumnCluster, ColumnPair, Decision
    from navi.verbs.link import RowPair, RowRef
    from navi.verbs.match import Matches, SchemaMatches
    from navi.verbs.name import ColumnNames
    from navi.verbs.search import Neighbours

LEAST_SHOWN = 0.005
"""Score below which a candidate is shown only if there is no better one."""
Threshold = Annotated[float, Option(help="Probability from which columns match.")]
DecisionsFile = Annotated[
    Path | None, Option("--decisions", metavar="FILE", help="Pairs of columns that are the same, or not.")
]
Kind = Literal["rows", "segments", "headers", "attributes"]
Pooling = Literal["text", "cls", "mean", "values"]
Dtype = Literal["float32", "float16"]
Precision = Literal["float32", "bfloat16", "float16", "int8"]
GROUPS_SHOWN = 20
"""Pairs or clusters of rows that are shown; files and `--json` have them all."""
LEAST_WEIGHT = 0.05
"""What contributes less to a pair is not shown."""
FILLS_SHOWN = 12
"""Cells shown in the summary, the surest of each column first."""
BYTES_PER_ROW = 100
"""What a row takes in a file, roughly."""
CELLS_SHOWN = 6
"""Cells of a row that are shown; `--json` has them all."""


@verb(
    "Ask a model",
    "navi match films/",
    "navi match films/ --explain",
    "navi match films/ --to schema.csv --top 5",
    "navi match films/ --write-decisions decisions.csv",
    "navi match --model model films/ --decisions decisions.csv --mapping mapping.json",
    options="model sheet overwrite safe_csv device as_json",
)
def match(
    run: Run,
    paths: Paths,
    to: Path | None = Option(
        None, metavar="SCHEMA", help="Rank candidates in this table, or list of names (.txt: one a line)."
    ),
    top: int = Option(5, min=1, metavar="N", help="Candidates for each column, with --to."),
    threshold: Threshold = MATCH_THRESHOLD,
    one_to_one: bool = Option(False, help="Members of a list do not share a match."),
    explain: bool = Option(False, help="Say what spoke for and against each pair."),
    decisions: DecisionsFile = None,
    write_decisions: Path | None = Option(
        None, metavar="FILE", help="Write pairs to decide on, what was decided among them."
    ),
    csv: Path | None = Option(None, metavar="FILE", help="Write the answer: .csv, .parquet …"),
    mapping: Path | None = Option(None, metavar="FILE.json", help="Write attributes for `navi prepare --attributes`."),
) -> None:
    """Find the columns that mean the same over all tables, or in a target schema."""
    screen = run.screen
    # A person fills the file of decisions in and has it written back: the same name is what is meant.
    run.check_outputs([csv, write_decisions], [*paths, to], [mapping], overwrite=True)
    run.check_outputs([write_decisions], paths, overwrite=write_decisions == decisions)
    run.check_outputs([csv], [*paths, decisions], [mapping])
    with screen.follow() as meter:
        run.read(meter, paths)
        if to is not None:
            run.leave_out(to)
        else:
            run.require_two()
        opened = run.open_model(meter)
        from navi.files import write_json
        from navi.verbs.match import Matches, read_decisions

        decided = () if decisions is None else read_decisions(decisions)
        meter.wait(f"Comparing the columns of {count_things(len(run.tables), 'table')}")
        found: Matches | SchemaMatches
        if to is None:
            found = opened.match(
                run.tables, threshold=threshold, one_to_one=one_to_one, decisions=decided, explain=explain
            )
        else:
            found = opened.match(run.tables, to=to, top=top, threshold=threshold, decisions=decided, explain=explain)
    run.write(csv, found.to_arrow)
    run.write(write_decisions, found.list_decisions)
    if mapping is not None:
        write_json(mapping, found.as_mapping())
    screen.answer_json(found.as_dict())
    tables = set(run.tables)
    if isinstance(found, Matches):
        show_clusters(screen, found, explain)
    else:
        show_candidates(screen, found, explain)
        tables |= {pair.second.table for each in found.columns for pair in each.candidates}
    run.finish(*note_other_decisions(decided, tables))
    shown, taken = run.show_inputs(), f" --decisions {quote(decisions)}" if decisions else ""
    if write_decisions is not None:
        target = "" if to is None else f" --to {quote(to)}"
        screen.suggest(
            f"fill in the column `same` of {write_decisions} with yes or no, and have it taken",
            f"navi match {shown}{target} --decisions {quote(write_decisions)}",
        )
    elif mapping is not None:
        command = f"navi prepare {quote(*run.paths)} -o {quote(find_free('corpus'))} --attributes {quote(mapping)}"
        screen.suggest("pretrain on these attributes", command)
    elif to is None:
        screen.suggest("write all rows as one table", f"navi unify {shown}{taken} -o {quote(find_free('all.parquet'))}")
    elif not explain:
        screen.suggest("see what speaks for the candidates", repeat_command("--explain"))


def note_other_decisions(decisions: Iterable[Decision], tables: Collection[str]) -> list[str]:
    """Return a note on decisions that were left aside because they are about other tables, if there are any."""
    left = sum(not each.is_about(tables) for each in decisions)
    return [f"{count_things(left, 'decision')} left aside: about tables that are not among these."] if left else []


def show_clusters(screen: Screen, found: Matches, explain: bool) -> None:
    """Show the clusters of more than one column and, on a wide screen, what headers and values said for each."""
    is_wide, rows = screen.results.width >= NARROW, []
    for cluster in (each for each in found.clusters if len(each.columns) > 1):
        members = set(cluster.columns)
        pairs = [pair for pair in found.pairs if pair.first in members and pair.second in members]
        said = [f"{fmean(each):+.1f}" for each in zip(*((pair.headers, pair.values) for pair in pairs), strict=True)]
        shown = (said or ["", ""]) if is_wide else []
        rows.append((cluster.name, f"{cluster.score:.2f}", *shown, list_columns(cluster)))
    columns = ("unified name", "score", *(("headers", "values") if is_wide else ()), "columns")
    screen.answer(make_table(columns, rows, right=columns[1:-1]))
    if explain:
        screen.answer(*list_reasons("Found", found.pairs))
        screen.answer(*list_reasons("Nearest to a column that stands alone", found.nearest))
    sizes = [len(cluster.columns) for cluster in found.clusters]
    alone, clusters = sizes.count(1), count_things(len(rows), "cluster")
    counted = f"{count_things(sum(sizes), 'column')}: {sum(sizes) - alone} in {clusters}, {alone} alone."
    screen.summarise(make_heading(counted))
    if is_wide:
        meaning = "what each said for a match on average, as logarithms of odds; negative speaks against"
        screen.summarise(f"Headers and values: {meaning}.")


def show_candidates(screen: Screen, found: SchemaMatches, explain: bool) -> None:
    """Show the candidates of each column in a target schema, the likeliest first."""
    rows = [
        (str(each.column) if rank == 1 else "", str(rank), pair.second.header, f"{pair.score:.2f}")
        for each in found.columns
        for rank, pair in enumerate(each.candidates, 1)
        if rank == 1 or pair.score >= LEAST_SHOWN
    ]
    screen.answer(make_table(("column", "rank", "candidate", "score"), rows, right=("rank", "score")))
    if explain:
        screen.answer(
            *list_reasons("Best candidates", [each.candidates[0] for each in found.columns if each.candidates])
        )
    likely = sum(bool(each.candidates) and each.candidates[0].score >= found.threshold for each in found.columns)
    counted = f"{count_things(len(found.columns), 'column')}: {likely} with a candidate of at least"
    screen.summarise(make_heading(f"{counted} {found.threshold:g}."), "Score: probability that both mean the same.")


def list_reasons(title: str, pairs: Iterable[ColumnPair]) -> list[RenderableType]:
    """Return what spoke for and against pairs."""
    lines: list[RenderableType] = []
    for pair in pairs:
        lines.append(f"{pair.first} and {pair.second}, {pair.score:.2f}")
        lines += [f"    {reason.speaks + ':':9s}{reason.text}" for reason in pair.reasons]
    return [make_heading(f"{title}:"), *lines, ""] if lines else []


def list_columns(cluster: ColumnCluster) -> str:
    """Return a cluster's columns: each header once, with its tables; headers of the same tables together."""
    tables: dict[str, list[str]] = {}
    for column in cluster.columns:
        tables.setdefault(column.header, []).append(column.table)
    headers: dict[tuple[str, ...], list[str]] = {}
    for header, names in tables.items():
        headers.setdefault(tuple(names), []).append(header)
    return ", ".join(f"{', '.join(each)} ({', '.join(names)})" for names, each in headers.items())


@verb(
    "Ask a model",
    "navi unify feeds/ -o all.parquet",
    "navi unify feeds/ -o all.parquet --write-spec spec.toml",
    "navi unify feeds/ --spec spec.toml -o all.parquet --overwrite",
    options="model sheet overwrite safe_csv device",
)
def unify(
    run: Run,
    paths: Paths,
    out: Path = Option(..., "--out", "-o", metavar="OUT", help="File to write: .parquet, .csv …"),
    spec: Path | None = Option(None, metavar="SPEC.toml", help="Do what this says, instead of matching columns."),
    write_spec: Path | None = Option(None, metavar="SPEC.toml", help="Write what was done, to edit and to run again."),
    report: Path | None = Option(None, metavar="DIR", help="Folder for a page of what came out: report.html."),
    threshold: Threshold = MATCH_THRESHOLD,
    decisions: DecisionsFile = None,
    originals: bool = Option(False, help="Keep the texts beside what was read in them."),
    source_headers: bool = Option(False, help="Keep the header that each cell stood under."),
    merge_duplicates: bool = Option(False, help="Make rows about the same thing one, as `navi link` finds them."),
    prefer: str | None = Option(
        None, metavar="A,B", help="Tables whose values go before others in a merged row.", show_default="as read"
    ),
) -> None:
    """Write all rows of many tables as one table, each column of one type, with every cell that was read.

    What reading could not place, such as cells beyond the header and broken lines, is counted and listed with file and
    line: the first three places of each reason, and more by `navi inspect --json`.
    """
    screen = run.screen
    run.check_outputs([out], [*paths, spec, decisions], [write_spec])
    if spec is not None and (decisions is not None or originals or source_headers or merge_duplicates):
        raise ConfigError("A specification says all: change it instead of giving other options.")
    if prefer is not None and not merge_duplicates:
        raise ConfigError("--prefer says whose values a merged row takes: give it with --merge-duplicates.")
    with screen.follow() as meter:
        run.read(meter, paths, max_family=None)
        from navi.report import write_html
        from navi.verbs.match import read_decisions
        from navi.verbs.unify import Duplicates, UnifySpec
        from navi.verbs.unify import unify as unify_tables

        given = None if spec is None else UnifySpec.load(spec)
        decided = () if decisions is None else read_decisions(decisions)
        if given is not None and given.duplicates is None:
            found = unify_tables(run.tables, given)
        else:
            if given is None:
                run.require_two()
            opened = run.open_model(meter)
            meter.wait(f"Comparing {count_things(len(run.tables), 'table')}")
            found = opened.unify(
                run.tables,
                spec=given,
                threshold=threshold,
                decisions=decided,
                originals=originals,
                source_headers=source_headers,
                duplicates=Duplicates(prefer=tuple(split_names(prefer) or ())) if merge_duplicates else None,
            )
    run.write(out, lambda: found.table)
    if write_spec is not None:
        found.spec.save(write_spec)
    if report is not None:
        run.written.append(write_html(found.to_page(), report, overwrite=run.overwrite))
    shared = [column for column in found.spec.columns if len(column.sources) > 1]
    rows = [
        (column.name, column.type, ", ".join(f"{source.table}/{source.header}" for source in column.sources))
        for column in shared
    ]
    alone = len(found.spec.columns) - len(shared)
    counted = f"{count_things(found.table.num_rows, 'row')} of {count_things(len(run.tables), 'table')}"
    screen.summarise(
        make_table(("column", "type", "made of"), rows),
        f"Besides, {count_things(alone, 'column')} of one table alone." if alone else "",
        make_heading(f"{counted} in {count_things(found.table.num_columns, 'column')}."),
    )
    run.finish(*found.notes, *note_other_decisions(decided, run.tables))
    if write_spec is not None:
        # Only merging asks the model again.
        read = run.show_inputs(asks=merge_duplicates)
        command = f"navi unify {read} --spec {quote(write_spec)} -o {quote(out)} --overwrite"
        screen.suggest("do the same again, on these tables or the next ones", command)
    elif spec is None:
        again = repeat_command("--write-spec", find_free("spec.toml"), *run.list_overwrite())
        screen.suggest("write down how, to edit it and to run it again", again)


@verb(
    "Ask a model",
    "navi name export.csv",
    "navi name --model model export.csv --columns col_3,x --top 3",
    "navi name --model model export.csv --apply named.csv --confidence 0.8",
    options="model sheet overwrite safe_csv device as_json",
)
def name(
    run: Run,
    table: TablePath,
    columns: str | None = Option(
        None, metavar="A,B", help="Columns to name, `*` for all.", show_default="those with useless headers"
    ),
    top: int = Option(5, min=1, metavar="N", help="Candidates for each."),
    apply: Path | None = Option(None, metavar="OUT", help="Write the table with its columns renamed."),
    confidence: float = Option(0.5, min=0, max=1, help="How sure --apply must be of a name."),
) -> None:
    """Propose headers for a table's columns from their values, blind to their own header."""
    screen = run.screen
    run.check_outputs([apply], [table])
    with screen.follow() as meter:
        read, wanted = run.read_one(meter, table, columns)
        opened = run.open_model(meter)
        meter.wait("Reading the columns")
        found = opened.name_columns(read, wanted, top=top)
    screen.answer_json({"table": read.name, "columns": [each.as_dict() for each in found]})
    if found:
        screen.answer(list_names(read, found))
    else:
        screen.note("Every header of this table says something. To name columns all the same: --columns A,B or '*'.")
    run.note_lost()
    if apply is not None:
        from navi.verbs.name import apply_names

        renamed = apply_names(read.frame, found, confidence=confidence)
        run.write(apply, lambda: renamed)
        count = sum(old != new for old, new in zip(read.frame.column_names, renamed.column_names, strict=True))
        screen.summarise(f"{count_things(count, 'column')} renamed in {apply}.")
    elif found:
        from navi.tables import WRITERS

        suffix = table.suffix if table.suffix.lower() in WRITERS else ".csv"
        screen.suggest("write the table with these names", repeat_command("--apply", find_free(f"named{suffix}")))


def list_names(table: Table, found: Iterable[ColumnNames]) -> Shown:
    """Return the columns with a value of each, what they may be called, and the known column that it comes from."""
    rows: list[tuple[str, ...]] = []
    for each in found:
        best = ("–", "", "")
        for one in each.candidates[:1]:
            best = (one.header, f"{one.probability:.2f}", one.like or one.source)
        others = ", ".join(f"{other.header} {other.probability:.2f}" for other in each.candidates[1:])
        rows.append((each.column, show_example(table, each.column), *best, others))
    columns: tuple[str, ...] = ("column", "example", "name", "probability", "like", "or")
    if all(row[4] in ("", "free") for row in rows):  # the model knows no columns, as navi-base does not
        rows, columns = [(*row[:4], row[5]) for row in rows], columns[:4] + columns[5:]
    return make_table(columns, rows, right=("probability",))


def show_example(table: Table, column: str) -> str:
    """Return the first value of a column; nested ones have no column of their own name."""
    if column not in table.frame.column_names:
        return ""
    cells = table.frame[column].drop_null()
    return shorten(str(cells[0].as_py()), 30) if len(cells) else ""


@verb(
    "Ask a model",
    "navi link imdb.csv netflix.csv --one-to-one -o pairs.csv",
    "navi link feeds/ --clusters things.csv",
    "navi link imdb.csv netflix.csv --labels pairs.csv --explain",
    options="model sheet overwrite safe_csv device as_json",
)
def link(
    run: Run,
    paths: Paths,
    out: Path | None = Option(None, "--out", "-o", metavar="FILE", help="Write one line per pair: .csv, .parquet …"),
    clusters: Path | None = Option(None, metavar="FILE", help="Write one line per linked row, with its cluster."),
    threshold: float = Option(0.5, help="Probability from which rows are linked."),
    one_to_one: bool = Option(False, help="At most one partner of a row in each other table."),
    within: bool = Option(False, help="Find duplicates inside tables, too.", show_default="for one table alone"),
    labels: Path | None = Option(None, metavar="FILE", help="Pairs with `same` filled in, to learn from."),
    explain: bool = Option(False, help="Show what spoke for each pair, and against it."),
    k: int = Option(10, "-k", min=1, metavar="N", help="Candidates for each row."),
    encoder: bool | None = Option(
        None, help="Also propose candidates by the model's vectors.", show_default="up to 20,000 rows"
    ),
) -> None:
    """Find the rows that are about the same thing, in two tables, in many, or in one."""
    screen = run.screen
    run.check_outputs([out, clusters], [*paths, labels])
    with screen.follow() as meter:
        run.read(meter, paths)
        run.require_two()  # nobody asked for duplicates inside the one that is left
        opened = run.open_model(meter, num_rows=sum(table.num_rows for table in run.tables.values()))
        meter.wait("Comparing the rows")
        found = opened.link(
            run.tables,
            threshold=threshold,
            one_to_one=one_to_one,
            within=within,
            labels=labels,
            k=k,
            encoder=encoder,
            progress=meter.count_share("Reading rows", "rows"),
        )
    run.write(out, found.to_arrow)
    run.write(clusters, found.clusters_to_arrow)
    pairs = found.to_arrow().to_pylist()
    if explain:
        pairs = [line | {"evidence": asdict(pair)["evidence"]} for line, pair in zip(pairs, found, strict=True)]
    grouped = [asdict(each) for each in found.clusters]
    screen.answer_json({"tables": found.rows.tables, "pairs": pairs, "clusters": grouped})
    by_pair, surest = len(run.tables) == 2, [found[place] for place in range(min(len(found), GROUPS_SHOWN))]
    groups: list[tuple[Sequence[RowRef], float]] = [((pair.left, pair.right), pair.probability) for pair in surest]
    if not by_pair:
        groups = [(each.rows, each.probability) for each in found.clusters[:GROUPS_SHOWN]]
    screen.answer(list_groups(groups, run.tables, screen.results.width))
    if explain:
        screen.answer(*map(list_evidence, surest))
    more = (len(found) if by_pair else len(found.clusters)) - GROUPS_SHOWN
    screen.summarise(
        make_heading(f"{count_things(len(found), 'pair')} of rows in {count_things(len(found.clusters), 'cluster')}."),
        *([f"{format_count(more)} more are not shown; -o FILE has them all."] if more > 0 else []),
    )
    run.finish()
    if not len(found):
        screen.summarise("A lower --threshold shows rows that are less likely about the same thing.")
    elif out is None:
        screen.suggest("write the pairs", repeat_command("-o", find_free("pairs.csv")))
    elif not explain:
        screen.suggest("see what speaks for each pair", repeat_command("--explain", *run.list_overwrite()))


def list_groups(groups: Iterable[tuple[Sequence[RowRef], float]], tables: Mapping[str, Table], width: int) -> Shown:
    """Return groups of rows about the same thing, a line for each row."""
    lines = []
    for rows, probability in groups:
        for place, row in enumerate(rows):
            cells = show_cells(list_cells(tables[row.table], row.row))
            lines.append((f"{probability:.2f}" if place == 0 else "", str(row), cells))
    return make_table(("probability", "row", "cells"), lines, right=("probability",), width=width)


def list_evidence(pair: RowPair) -> Shown:
    """Return what spoke for a pair and against it, what counts most first."""
    rows = [
        (f"{each.weight:+.1f}", each.column, shorten(each.left or ""), shorten(each.right or ""))
        for each in pair.evidence
        if abs(each.weight) >= LEAST_WEIGHT
    ]
    title = f"{pair.left} and {pair.right}: {pair.probability:.2f}"
    return make_table(("log odds", "compared", "left", "right"), rows, title=title, right=("log odds",))


def show_cells(cells: Mapping[str, str], sign: str = "=") -> str:
    """Return a few cells of a row in one line."""
    shown = [f"{header}{sign}{shorten(value)}" for header, value in list(cells.items())[:CELLS_SHOWN]]
    return ", ".join(shown) + (", …" if len(cells) > CELLS_SHOWN else "")


def list_cells(table: Table, row_number: int) -> dict[str, str]:
    """Return what a row holds; it is named by its number in its source."""
    row = table.text.slice(int(table.row_number.searchsorted(row_number)), 1).to_pylist()[0]
    return {header: value for header, value in row.items() if value is not None}


@verb(
    "Ask a model",
    "navi impute films.csv -o filled.csv",
    "navi impute --model model films.csv -o filled.csv --confidence 0.9 --columns genre,country",
    options="model sheet overwrite safe_csv device as_json",
)
def impute(
    run: Run,
    table: TablePath,
    out: Path = Option(
        ..., "--out", "-o", metavar="OUT", help="File to write: .csv, .tsv, .jsonl, .parquet, .feather."
    ),
    confidence: float = Option(IMPUTE_CONFIDENCE, help="Leave a cell empty if less sure than this."),
    columns: str | None = Option(
        None, metavar="A,B", help="Only these columns, separated by commas.", show_default="all"
    ),
    cells: Path | None = Option(
        None,
        metavar="FILE",
        help="Write what became of every empty cell.",
        show_default="OUT with .cells.csv; none in the table's own folder",
    ),
) -> None:
    """Fill a table's empty cells where the model is sure enough; cells that hold something stay as they are."""
    screen = run.screen
    # Among tables that are read together an account that nobody asked for would be one more.
    is_beside = out.parent.resolve() == table.parent.resolve()
    account = cells or (None if is_beside else out.with_name(f"{out.stem}.cells.csv"))
    run.check_outputs([out, account], [table])
    with screen.follow() as meter:
        read, wanted = run.read_one(meter, table, columns)
        opened = run.open_model(meter)
        report = meter.count_share("Filling cells", "cells")
        result = opened.impute(read, confidence=confidence, columns=wanted, progress=report)
    run.write(out, lambda: result.filled)
    run.write(account, lambda: result.cells)
    empty, filled = result.cells.num_rows, result.num_filled
    reasons = Counter(reason.partition(": ")[0] for reason in result.cells["reason"].to_pylist())
    facts: dict[str, Any] = {"path": out, "account": account, "empty": empty, "filled": filled, "reasons": reasons}
    screen.answer_json(facts | {"cells": result.cells.to_pylist()})
    if not empty:
        form = ["Written with commas, in UTF-8."] if out.suffix.lower() == ".csv" else []
        screen.summarise(make_heading(f"{out}: the values as they were, no cell is empty"), *form)
    else:
        left = {reason: count for reason, count in reasons.items() if reason != "filled"}
        screen.summarise(
            make_heading(f"{out}: {format_count(filled)} of {count_things(empty, 'empty cell')} filled"),
            *([list_fills(result.cells)] if filled else []),
            *(f"  {count_things(count, 'cell')} left empty: {reason}" for reason, count in left.items()),
            f"Every empty cell, its best guess and why it was left: {account or '--cells FILE writes it'}",
        )
    run.note_lost()


def list_fills(cells: pa.Table) -> Shown:
    """Return some of the cells that were filled: the surest of each column, then the next."""
    met, ranked = Counter[str](), []
    filled = (cell for cell in cells.to_pylist() if cell["value"] is not None)
    for cell in sorted(filled, key=lambda cell: -cell["probability"]):
        met[cell["column"]] += 1
        line = (str(cell["row"]), cell["column"], shorten(cell["value"]), f"{cell['probability']:.2f}")
        ranked.append((met[cell["column"]], (*line, cell["reason"].partition(": ")[2])))
    rows = [line for _, line in sorted(ranked, key=lambda pair: pair[0])[:FILLS_SHOWN]]
    return make_table(("row", "column", "value", "confidence", "why"), rows, right=("row", "confidence"))


@verb(
    "Ask a model",
    "navi search films/ --like 'title=Alien, year=1979'",
    "navi search --model model films/ --row imdb:12 -k 3 --index films.index",
    options="model sheet device as_json",
)
def search(
    run: Run,
    paths: Paths,
    like: str | None = Option(None, metavar="ROW", help="Cells to look for: title=Alien, year=1979"),
    row: str | None = Option(None, metavar="TABLE:N", help="A row of these tables to look for."),
    k: int = Option(10, "-k", min=1, metavar="N", help="Rows to find."),
    index: Path | None = Option(None, metavar="DIR", help="Keep the index here, or use the one here."),
) -> None:
    """Find the nearest rows of any tables, by example or by some of their cells."""
    from navi.files import scratch_folder
    from navi.tables import find_sources
    from navi.verbs import build_index, index_vectors, open_index, parse_like
    from navi.verbs.vector_files import has_vectors

    screen = run.screen
    if (like is None) == (row is None):
        raise ConfigError("Give one of --like ROW and --row TABLE:N.")
    # Embedding all rows takes long: check what may be mistyped before.
    cells = None if like is None else parse_like(like)
    of_vectors, num_rows, known = len(paths) == 1 and has_vectors(paths[0]), 0, None
    if not of_vectors:
        paths = pick_sheet(paths, run.sheet)
        sources = find_sources(paths).sources
        known = [source.name for source in sources]
        # An index that is kept may be asked where int8 is not to be had.
        num_rows = 0 if index is not None else estimate_rows(sources)
    wanted = None if row is None else parse_row(row, known)
    with screen.follow() as meter, scratch_folder() as scratch:
        opened, kept = run.open_model(meter, num_rows=num_rows), index or scratch / "index"
        meter.wait("Indexing")
        if of_vectors and not kept.exists():
            index_vectors(opened, paths[0], kept)
        elif not kept.exists():
            build_index(opened, paths, kept, progress=meter.count_rows("Indexing"))
        rows = open_index(opened, kept, [] if of_vectors else paths)
        found = rows.search_row(*wanted, k) if wanted else rows.search(cells, k)[0]
    screen.answer_json([asdict(each) for each in found])
    screen.answer(list_neighbours(found, screen.results.width))
    screen.note(*(f"Left out: {reason}" for reason in rows.left_out))
    if index is not None:
        screen.suggest("search faster: the index is kept", repeat_command())


def parse_row(text: str, known: Sequence[str] | None) -> tuple[str, int]:
    """Return table and number of `TABLE:N`, a row of one of the tables, where these are known.

    >>> parse_row("imdb:12", ["imdb", "kinothek"])
    ('imdb', 12)
    """
    table, _, number = text.rpartition(":")
    if not table or not number.isdecimal():
        raise ConfigError(f"Cannot read '{text}' as a row: expected TABLE:N, such as imdb:12.")
    if known is not None and table not in known:
        raise TableError(f"There is no table '{table}'. Expected one of {', '.join(known)}.")
    return table, int(number)


def estimate_rows(sources: Iterable[Source]) -> int:
    """Return about how many rows some files have, by their sizes; what lies in an object store is not asked."""
    paths = [Path(each.path) for each in sources]
    return sum(path.stat().st_size for path in paths if path.is_file()) // BYTES_PER_ROW


def list_neighbours(neighbours: Neighbours, width: int) -> Shown:
    """Return the rows found, the nearest first; with room for it, what vectors and words said for each."""
    scores = ("confidence", "similarity", "overlap")[: 3 if width >= NARROW else 1]
    rows = [
        (*(f"{getattr(each, score):.2f}" for score in scores), f"{each.table}:{each.row}", show_cells(each.cells))
        for each in neighbours
    ]
    columns = (*("confidence", "vector", "words")[: len(scores)], "row", "cells")
    return make_table(columns, rows, right=columns[:-2])


@verb(
    "Ask a model",
    "navi embed films/ -o rows.parquet",
    "navi embed films/ -o rows",
    "navi embed --model model films/ -o cells.parquet --kind segments --dtype float16",
    options="model sheet engine overwrite device as_json",
)
def embed(
    run: Run,
    paths: Paths,
    out: Path = Option(..., "--out", "-o", metavar="OUT", help="OUT.parquet, or a folder of shards."),
    kind: Kind = Option("rows", help="What gets a vector."),
    pooling: Pooling | None = Option(
        None, help="What stands for a row: the row read as a text, [CLS], or a mean.", show_default="text"
    ),
    normalize: bool = Option(False, help="Scale vectors to length 1."),
    dtype: Dtype = Option("float32", help="Numbers that are written."),
    batch_size: int | None = Option(None, metavar="N", help="Most rows of a batch."),
    precision: Precision | None = Option(
        None, help="Arithmetic; int8 is for CPUs.", show_default="float32 on a CPU, else bfloat16"
    ),
) -> None:
    """Write vectors to Parquet, with table, row and header beside each; files may be larger than memory.

    To a folder they go as shards, and what was killed goes on when it is started again.
    """
    from navi.verbs import EmbedConfig, embed_files
    from navi.verbs.vector_files import check_vectors

    screen, started = run.screen, monotonic()
    config = EmbedConfig(batch_size=batch_size, normalize=normalize, dtype=dtype, pooling=pooling)
    check_vectors(out, paths, overwrite=run.overwrite)
    with screen.follow() as meter:
        opened = run.open_model(meter, precision=precision)
        report, chosen = meter.count_rows(f"Embedding {kind}"), pick_sheet(paths, run.sheet)
        result = embed_files(
            opened, chosen, out, kind=kind, config=config, progress=report, overwrite=run.overwrite, engine=run.engine
        )
    seconds, size = monotonic() - started, opened.hidden_size
    lost, tables = summarise_reports(result.reports, result.skipped), {n: r.kept for n, r in result.reports.items()}
    facts = {"path": result.path, "vectors": result.num_vectors, "size": size, "tables": tables}
    screen.answer_json(facts | lost | {"seconds": round(seconds, 3)})
    num_rows, lines = sum(tables.values()), list_lost(lost)
    screen.summarise(
        make_heading(f"{result.path}: {count_things(result.num_vectors, 'vector')} of {size} numbers"),
        f"{count_things(num_rows, 'row')} of {count_things(len(tables), 'table')}, {format_duration(seconds)}, "
        f"{format_count(num_rows / max(seconds, 1e-3))} rows/s.",
        *(["Left out or changed:", *lines] if lines else []),
    )
    screen.suggest("read it in Python", f"pyarrow.parquet.read_table({str(out)!r})")
