"""`navi match`, `navi unify` and `navi name`: what columns mean, one table of many, and what columns may be called."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from navi.cli.app import repeat_command, verb
from navi.cli.console import NARROW, Screen, count_things, find_free, make_heading, make_table, quote, shorten
from navi.cli.options import (
    Device,
    Inputs,
    Json,
    ModelFolder,
    Overwrite,
    Paths,
    Quiet,
    SafeCsv,
    Sheet,
    TablePath,
    check_outputs,
    note_lost,
    open_model,
    pick_sheet,
    show_inputs,
    split_names,
)
from navi.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from navi.tables import Table as TableInMemory
    from navi.verbs.column_groups import ColumnCluster, ColumnPair
    from navi.verbs.match import Matches, SchemaMatches
    from navi.verbs.name import ColumnNames

LEAST_SHOWN = 0.005
"""Score below which a candidate is shown only if there is no better one."""
Threshold = Annotated[float, typer.Option(help="Probability from which columns match.")]
DecisionsFile = Annotated[
    Path | None, typer.Option("--decisions", metavar="FILE", help="Pairs of columns that are the same, or not.")
]


@verb(
    "Ask a model",
    "navi match films/",
    "navi match films/ --explain",
    "navi match films/ --to schema.csv --top 5",
    "navi match films/ --write-decisions decisions.csv",
    "navi match --model model films/ --decisions decisions.csv --mapping mapping.json",
)
def match(
    paths: Paths,
    to: Annotated[
        Path | None, typer.Option(metavar="SCHEMA", help="Rank candidates in this table, or list of names.")
    ] = None,
    model: ModelFolder = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Candidates for each column, with --to.")] = 5,
    threshold: Threshold = 0.5,
    one_to_one: Annotated[bool, typer.Option("--one-to-one", help="Members of a list do not share a match.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say what spoke for and against each pair.")] = False,
    decisions: DecisionsFile = None,
    write_decisions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write pairs to decide on, what was decided among them.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the answer: .csv, .parquet …")] = None,
    mapping: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write attributes for `navi prepare --attributes`.")
    ] = None,
    overwrite: Overwrite = False,
    sheet: Sheet = None,
    safe_csv: SafeCsv = False,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the columns that mean the same over all tables, or in a target schema."""
    screen = Screen(quiet=quiet, as_json=as_json)
    # A person fills the file of decisions in and has it written back: the same name is what is meant.
    check_outputs([csv, write_decisions], [*paths, to], others=[mapping], overwrite=True)
    written = check_outputs([write_decisions], paths, overwrite=overwrite or write_decisions == decisions)
    written += check_outputs([csv], [*paths, decisions], others=[mapping], overwrite=overwrite)
    with screen.follow() as meter:
        inputs = Inputs(meter, paths, sheet)
        if to is not None:
            inputs.leave_out(to)
        opened = open_model(meter, model, device)
        from navi.files import write_json
        from navi.tables import write_table
        from navi.verbs.match import Matches, read_decisions

        decided = () if decisions is None else read_decisions(decisions)
        meter.wait(f"Comparing the columns of {count_things(len(inputs.tables), 'table')}")
        found: Matches | SchemaMatches
        if to is None:
            found = opened.match(
                inputs.tables, threshold=threshold, one_to_one=one_to_one, decisions=decided, explain=explain
            )
        else:
            found = opened.match(inputs.tables, to=to, top=top, threshold=threshold, decisions=decided, explain=explain)
    if csv is not None:
        write_table(found.to_arrow(), csv, safe_csv=safe_csv)
    if mapping is not None:
        write_json(mapping, found.as_mapping())
    if write_decisions is not None:
        write_table(found.list_decisions(), write_decisions)
    screen.answer_json(found.as_dict())
    show_clusters(screen, found, explain) if isinstance(found, Matches) else show_candidates(screen, found, explain)
    screen.summarise(*(f"Written: {path}" for path in written))
    inputs.note_lost(screen)
    shown, taken = show_inputs(model, inputs.paths), f" --decisions {quote(decisions)}" if decisions else ""
    if write_decisions is not None:
        target = "" if to is None else f" --to {quote(to)}"
        screen.suggest(
            f"fill in the column `same` of {write_decisions} with yes or no, and have it taken",
            f"navi match {shown}{target} --decisions {quote(write_decisions)}",
        )
    elif mapping is not None:
        command = f"navi prepare {quote(*inputs.paths)} -o {quote(find_free('corpus'))} --attributes {quote(mapping)}"
        screen.suggest("pretrain on these attributes", command)
    elif to is None:
        screen.suggest("write all rows as one table", f"navi unify {shown}{taken} -o {quote(find_free('all.parquet'))}")
    elif not explain:
        screen.suggest("see what speaks for the candidates", repeat_command("--explain"))


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
)
def unify(
    paths: Paths,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="File to write: .parquet, .csv …")],
    model: ModelFolder = None,
    spec: Annotated[
        Path | None, typer.Option(metavar="SPEC.toml", help="Do what this says, instead of matching columns.")
    ] = None,
    write_spec: Annotated[
        Path | None, typer.Option(metavar="SPEC.toml", help="Write what was done, to edit and to run again.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for a page of what came out: report.html.")
    ] = None,
    threshold: Threshold = 0.5,
    decisions: DecisionsFile = None,
    originals: Annotated[
        bool, typer.Option("--originals", help="Keep the texts beside what was read in them.")
    ] = False,
    source_headers: Annotated[
        bool, typer.Option("--source-headers", help="Keep the header that each cell stood under.")
    ] = False,
    merge_duplicates: Annotated[
        bool, typer.Option("--merge-duplicates", help="Make rows about the same thing one, as `navi link` finds them.")
    ] = False,
    prefer: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Tables whose values go before others in a merged row.", show_default="as read"
        ),
    ] = None,
    overwrite: Overwrite = False,
    sheet: Sheet = None,
    safe_csv: SafeCsv = False,
    device: Device = None,
    quiet: Quiet = False,
) -> None:
    """Write all rows of many tables as one table, with one type a column, losing nothing."""
    screen = Screen(quiet=quiet)
    written = check_outputs([out], [*paths, spec, decisions], others=[write_spec], overwrite=overwrite)
    if spec is not None and (decisions is not None or originals or source_headers or merge_duplicates):
        raise ConfigError("A specification says all: change it instead of giving other options.")
    if prefer is not None and not merge_duplicates:
        raise ConfigError("--prefer says whose values a merged row takes: give it with --merge-duplicates.")
    with screen.follow() as meter:
        inputs = Inputs(meter, paths, sheet, max_family=None)
        from navi.report import write_html
        from navi.tables import write_table
        from navi.verbs.match import read_decisions
        from navi.verbs.unify import Duplicates, UnifySpec
        from navi.verbs.unify import unify as unify_tables

        given = None if spec is None else UnifySpec.load(spec)
        if given is not None and given.duplicates is None:
            found = unify_tables(inputs.tables, given)
        else:
            decided = () if decisions is None else read_decisions(decisions)
            opened = open_model(meter, model, device)
            meter.wait(f"Comparing {count_things(len(inputs.tables), 'table')}")
            found = opened.unify(
                inputs.tables,
                spec=given,
                threshold=threshold,
                decisions=decided,
                originals=originals,
                source_headers=source_headers,
                duplicates=Duplicates(prefer=tuple(split_names(prefer) or ())) if merge_duplicates else None,
            )
    write_table(found.table, out, safe_csv=safe_csv)
    if write_spec is not None:
        found.spec.save(write_spec)
    if report is not None:
        written.append(write_html(found.to_page(), report, overwrite=overwrite))
    shared = [column for column in found.spec.columns if len(column.sources) > 1]
    rows = [
        (column.name, column.type, ", ".join(f"{source.table}/{source.header}" for source in column.sources))
        for column in shared
    ]
    alone = len(found.spec.columns) - len(shared)
    counted = f"{count_things(found.table.num_rows, 'row')} of {count_things(len(inputs.tables), 'table')}"
    screen.summarise(
        make_table(("column", "type", "made of"), rows),
        f"Besides, {count_things(alone, 'column')} of one table alone." if alone else "",
        make_heading(f"{counted} in {count_things(found.table.num_columns, 'column')}."),
        *(f"Written: {path}" for path in written),
    )
    screen.note(*found.notes)
    inputs.note_lost(screen)
    if write_spec is not None:
        # Only merging asks the model again.
        read = show_inputs(model if merge_duplicates else None, inputs.paths)
        command = f"navi unify {read} --spec {quote(write_spec)} -o {quote(out)} --overwrite"
        screen.suggest("do the same again, on these tables or the next ones", command)
    elif spec is None:
        more = ("--write-spec", find_free("spec.toml"), *(() if overwrite else ("--overwrite",)))
        screen.suggest("write down how, to edit it and to run it again", repeat_command(*more))


@verb(
    "Ask a model",
    "navi name export.csv",
    "navi name --model model export.csv --columns col_3,x --top 3",
    "navi name --model model export.csv --apply named.csv --confidence 0.8",
)
def name(
    table: TablePath,
    model: ModelFolder = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Columns to name, `*` for all.", show_default="those with useless headers"),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Candidates for each.")] = 5,
    apply: Annotated[Path | None, typer.Option(metavar="OUT", help="Write the table with its columns renamed.")] = None,
    confidence: Annotated[float, typer.Option(min=0, max=1, help="How sure --apply must be of a name.")] = 0.5,
    overwrite: Overwrite = False,
    sheet: Sheet = None,
    safe_csv: SafeCsv = False,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Propose headers for a table's columns from their values, blind to their own header."""
    screen = Screen(quiet=quiet, as_json=as_json)
    check_outputs([apply], [table], overwrite=overwrite)
    from navi.tables import WRITERS, read_table, write_table

    with screen.follow() as meter:
        meter.wait("Reading the table")
        read = read_table(pick_sheet([table], sheet)[0], whole=True)
        wanted = list(read.headers) if columns == "*" else split_names(columns)
        read.find_headers(wanted or [])
        opened = open_model(meter, model, device)
        meter.wait("Reading the columns")
        found = opened.name_columns(read, wanted, top=top)
    screen.answer_json({"table": read.name, "columns": [each.as_dict() for each in found]})
    if found:
        screen.answer(list_names(read, found))
    else:
        screen.note("Every header of this table says something. To name columns all the same: --columns A,B or '*'.")
    note_lost(screen, [read])
    if apply is not None:
        from navi.verbs.name import apply_names

        renamed = apply_names(read.frame, found, confidence=confidence)
        write_table(renamed, apply, safe_csv=safe_csv)
        count = sum(old != new for old, new in zip(read.frame.column_names, renamed.column_names, strict=True))
        screen.summarise(f"{count_things(count, 'column')} renamed in {apply}.")
    elif found:
        suffix = table.suffix if table.suffix.lower() in WRITERS else ".csv"
        screen.suggest("write the table with these names", repeat_command("--apply", find_free(f"named{suffix}")))


def list_names(table: TableInMemory, found: Iterable[ColumnNames]) -> Table:
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


def show_example(table: TableInMemory, column: str) -> str:
    """Return the first value of a column; nested ones have no column of their own name."""
    if column not in table.frame.column_names:
        return ""
    cells = table.frame[column].drop_null()
    return shorten(str(cells[0].as_py()), 30) if len(cells) else ""
