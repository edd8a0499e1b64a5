"""Tests of the page: which figure stands in which cell, beside the paper's, and which of its claims hold."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from navi.files import digest_file
from navi.report import Measurement, ReportTable, write_html, write_markdown
from navi_paper import Record, Results, make_page
from navi_paper.page import figures
from navi_paper.page.evaluation_page import compare, list_claims
from navi_paper.page.tables import KNOWN, SECTIONS, Averages, find_published
from navi_paper.results import Cell
from navi_paper.tasks import ENCODER_TASKS, TASKS

PUBLISHED = Path(__file__).parents[2] / "paper"
"""Our own results as they are in the repository."""
BENCHMARKS = [
    json.loads(line) for line in (PUBLISHED.parent / "benchmarks" / "results.jsonl").read_text("utf-8").splitlines()
]
"""What benchmarks recorded of the verbs."""


@pytest.fixture(scope="module")
def page():
    return make_page(Results.open(PUBLISHED))


@pytest.fixture(scope="module")
def first_page():
    spec = importlib.util.spec_from_file_location("first_page", PUBLISHED.parent / "benchmarks" / "first_page.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


def add(results, model, task, *, corpus="movie", seed=0, arrays=None, error=None, **measures):
    record = Record(corpus=corpus, task=task, model=model, seed=seed, digest="", measures=measures, error=error)
    results.add(record, arrays)


def find_table(page, caption):
    tables = [item for section in page.sections for item in section.items if isinstance(item, ReportTable)]
    return next(table for table in tables if table.caption.startswith(caption))


def read_column(table, name, group=""):
    """Return the cells of a column by the first cell of their row."""
    columns = [(each.name, each.group) for each in table.described_columns]
    return {row[0]: row[columns.index((name, group))] for row in table.rows}


def test_the_published_tables_are_those_of_the_published_results(page):
    assert write_markdown(page) == (PUBLISHED / "tables.md").read_text("utf-8")


def test_all_figures_of_a_model_and_seed_are_of_the_same_weights():
    weights = {}
    without_model = ("frozen", "features_lr")  # raw features and TableVectorizer
    for record in (each for each in Results.open(PUBLISHED) if (each.model, each.task) != without_model):
        weights.setdefault((record.corpus, record.model, record.seed), set()).add(record.about["weights"])
    assert [cell for cell, found in weights.items() if len(found) > 1] == []


def test_every_published_figure_says_where_it_comes_from():
    for record in Results.open(PUBLISHED):
        assert all(record.about.get(name) for name in ("command", "commit", "fingerprint", "weights", "device"))
    for record in BENCHMARKS:
        assert all(record[name] for name in ("commit", "command", "data", "model"))


def test_every_picture_is_of_models_that_the_results_are_of():
    lines = (PUBLISHED / "figures" / "records.jsonl").read_text("utf-8").splitlines()
    drawn = {line["figure"]: line for line in map(json.loads, lines)}
    assert set(drawn) == {file.name for file in (PUBLISHED / "figures").glob("*.png")}
    results = Results.open(PUBLISHED)
    for name, line in drawn.items():
        assert digest_file(PUBLISHED / "figures" / name) == line["sha256"]
        assert line["drawn_from"]
        for origin in line["drawn_from"]:
            record = results.find(Cell(**{key: origin.pop(key) for key in ("corpus", "task", "model", "seed")}))
            assert origin == {key: record.about[key] for key in origin}
            assert {"commit", "command", "fingerprint", "weights"} <= set(origin)


FIGURE = re.compile(r"(?<![\d.])[01]\.\d{3}(?!\d)")
SETS = {
    **{"films": "movie unseen", "products": "product unseen", "studies of cancer": "gdc"},
    **{"shops, 121 clean pairs": "wdc_product_sites", "DBpedia, 178 pairs": "t2d_sm_wh.tar.gz"},
}
"""What docs/benchmarks.md calls the tables that were measured, and what records call them."""
MATCHED = {
    **{"films, 10 unseen tables": "movie_old unseen", "products, 10 unseen tables": "product_old unseen"},
    **{"shops, 121 clean pairs": "wdc_product_sites", "DBpedia, all 178": "t2d_sm_wh.tar.gz"},
}
"""The same where methods of matching are compared."""
OF_MATCHING = {
    **{"NAVI, own": "own F1", "NAVI, clusters": "clusters F1", "NAVI, others' rule": "assigned F1"},
    **{"best 1:1: NAVI": "best 1:1 F1", "its calibration error, pairs from 0.1 on": "calibration error"},
    "right at 0.95 or more": "right at 0.95",
}
"""What a line there says of NAVI, and what records call it."""
NAMED = {"films": "movie_old unseen", "products": "product_old unseen"}
"""The same where columns are named."""
NAMERS = {
    **{evidence: f"navi {evidence}" for evidence in ("both", "model", "profiles")},
    **{"nearest by words": "nearest by words", "most frequent": "most frequent header"},
}
"""The methods of naming, and what records call them."""
COLUMNS = {
    **{"error": ("", "ece"), "right": ("", "right at 0.8"), "calibration error": ("link", "error")},
    **{"`navi link`, threshold 0.5": ("link", "F1"), "no labels": ("link", "F1"), "right at ≥ 0.95": ("link", "sure")},
    **{"TF-IDF of words": ("TF-IDF, words", "F1"), "of trigrams": ("TF-IDF, trigrams", "F1")},
}
"""What it calls what was measured, and by which method and figure a record has it."""


def list_cells(page):
    """Yield the section, row, column, number within the cell and figure of each figure in a table."""
    for section in page.split("\n## ")[1:]:
        heads = None
        for line in section.replace("**", "").splitlines():
            first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("|"):
                heads = None
            elif heads is None:
                heads = cells
            else:
                found = [(head, FIGURE.findall(cell)) for head, cell in zip(heads, cells, strict=True)]
                where = section.split("\n", 1)[0], first
                yield from ((*where, head, n, float(each)) for head, some in found for n, each in enumerate(some))


def name_records(section, row, column, number):
    """Yield by which setting and figure a cell may have been recorded: the benchmark's own names, then the page's."""
    what, _, rest = row.rpartition(", ")
    evidence, _, choice = column.partition(", ")
    if column in MATCHED:
        spoken = ("own precision", "own recall")[number] if "precision and recall" in row else OF_MATCHING.get(row)
        yield f"{MATCHED[column]}: navi both", spoken
    if section == "Naming" and column in NAMERS:
        yield f"{NAMED[row]} {NAMERS[column]}", ("top 1", "top 5")[number]
    if row == "NAVI":
        yield "gdc: navi both", column
    elif what in SETS and evidence in ("model", "profiles", "both"):
        yield f"{SETS[what]}: navi {evidence}", "own F1" if choice else rest
    elif what in SETS:
        yield f"{SETS[what]}, {rest}", COLUMNS.get(column, ("", column))[1]
    method, figure = COLUMNS.get(column, ("link", column.split(", ")[number] if ", " in column else column))
    yield f"{row.split(', ')[0]}, {method}", figure
    yield f"{row}, {column.replace(',', '')} labels", ("F1", "not learned")[number]
    yield from ((f"{section}: {row}", name) for name in (f"{column} {number + 1}", column))


def test_every_cell_of_a_table_of_the_benchmarks_is_the_one_that_was_recorded():
    page = (PUBLISHED.parent / "docs" / "benchmarks.md").read_text("utf-8")
    known = {}
    for record in BENCHMARKS:
        known.setdefault(record["setting"], {}).update(record["figures"])
    wrong = []
    for section, row, column, number, figure in list_cells(page):
        named = (known.get(setting, {}).get(name) for setting, name in name_records(section, row, column, number))
        recorded = next((each for each in named if each is not None), None)
        if recorded is None or abs(figure - recorded) > 0.00056:
            wrong.append((section, row, column, number, figure, recorded))
    assert wrong == []


def test_the_tables_of_the_first_page_are_those_of_the_results_cell_by_cell(first_page):
    page = (PUBLISHED / "README.md").read_text("utf-8")
    assert first_page.split_page(page)[1] == first_page.write_table(Averages(Results.open(PUBLISHED)))


def test_the_other_figures_of_the_first_page_are_those_of_the_tables_and_the_rates(first_page):
    page, tables, rates = ((PUBLISHED / name).read_text("utf-8") for name in ("README.md", "tables.md", "rates.json"))
    known = {float(figure) for figure in re.findall(r"(?<![\d.])\d\.\d{3,}", tables + rates)}
    before, _, behind = first_page.split_page(page)
    for figure in FIGURE.findall(before + behind):
        assert any(abs(float(figure) - each) < 0.00056 for each in known), figure


def test_the_papers_figures_stand_beside_ours(page):
    table = find_table(page, "movie: rows of known tables, columns as they stand")
    assert read_column(table, "paper", "Value")["NAVI (paper)"] == Measurement(0.7077)
    table = find_table(page, "product: headers predicted, informed")
    assert read_column(table, "paper", "Typos")["BERT"] == Measurement(0.8855, change=-0.058)
    assert read_column(table, "token", "Typos")["BERT"].change < 0


@pytest.mark.parametrize(
    ("table", "corpus", "model", "measure", "figure"),
    [
        ("generative", "product", "bert", "header", Measurement(0.94)),
        ("generative", "Movie-2024", "navi-paper", "value", Measurement(0.7077)),
        ("robustness", "product", "navi-paper", "permuted", Measurement(0.9997, change=0.0002)),
        ("classification", "movie", "tapas", "tabpfn", Measurement(0.688, 0.017)),
        ("pipelines", "product", "navi-paper/navi_fe", "xgboost", Measurement(0.944, 0.017)),
        ("pipelines", "movie", "any/table_vectorizer", "tabpfn", None),
        ("routing", "movie", "navi-paper-random_routing", "xgboost", Measurement(0.592, 0.022)),
        ("clustering", "feeds", "bert", "nmi", None),
    ],
)
def test_figures_are_the_papers(table, corpus, model, measure, figure):
    assert find_published(table, corpus, model, measure) == figure


def test_every_column_names_a_task_and_every_task_has_a_place(page):
    shown = {column.task for section in SECTIONS.values() for table in section.tables for column in table.columns}
    made = {task.name for task in TASKS}
    assert shown == made - {"row_vectors", "text_vectors", "variant_vectors"}
    models = {model for section in SECTIONS.values() for table in section.tables for model in table.models}
    assert {model for model in models if "/" not in model} <= KNOWN


def test_every_column_is_measured_by_its_task(data, encoders):
    # The oracle is quick and always right, so that it has something to lose; it knows no probabilities.
    measured = {task.name: set(task(encoders.oracle, data).measures) for task in ENCODER_TASKS}
    for section in SECTIONS.values():
        for column in (column for table in section.tables for column in table.columns if column.task in measured):
            named = {name for name in (column.measure, column.loss, column.floor) if name}
            # The films have no validation tables; those are measured as the unseen ones are.
            assert {name.replace("validation_tables", "unseen") for name in named} <= measured[column.task]


def test_seeds_are_averaged_with_the_deviations_of_seeds_and_runs(results):
    for seed, value in enumerate((0.5, 0.7)):
        add(results, "bert", "classification_lr", seed=seed, rows_f1=value, rows_f1_deviation=0.3)
    page = make_page(results)
    cell = read_column(find_table(page, "movie: macro-F1 on the row embeddings"), "F1", "LR")["BERT"]
    assert (cell.value, cell.deviation) == (pytest.approx(0.6), pytest.approx((0.09 + 0.02) ** 0.5))
    assert "means over up to 2 seeds" in page.lead


def test_a_model_that_no_table_knows_is_a_row_too_and_a_corpus_of_ours_needs_no_paper(results):
    for model in ("bert", "mine"):
        add(results, model, "clustering", corpus="feeds", test_headers_nmi=0.5)
    table = find_table(make_page(results), "feeds: columns of known tables")
    assert [row[0] for row in table.rows] == ["BERT", "mine"]
    assert [column.name for column in table.described_columns] == ["model", "NMI"]


def find_claim(results, claim, model="navi"):
    return [each for each in list_claims(Averages(results), "movie", model) if each.claim == claim]


@pytest.mark.parametrize(("ours", "holds"), [((0.85, 0.87), True), ((0.81, 0.87), False), ((0.9,), False)])
def test_a_margin_counts_beyond_the_deviation_of_seeds_and_one_seed_proves_nothing(results, ours, holds):
    for seed, value in enumerate(ours):
        add(results, "bert", "generative", seed=seed, test_value_token=0.8 + 0.001 * seed)
        add(results, "navi", "generative", seed=seed, test_value_token=value)
    (cell,) = find_claim(results, "Header prediction and value imputation: ahead of BERT")
    assert cell.holds == holds


def test_runs_with_whole_tables_held_out_are_less_sure_on_the_first_page(first_page, results):
    found = {}
    for model, runs in (("navi", (0.50, 0.62, 0.55)), ("frozen", (0.45, 0.53, 0.52)), ("bert", (0.45, 0.53, 0.52))):
        measures = {f"{kind}_f1_run{n}": value for kind in ("rows", "tables") for n, value in enumerate(runs)}
        add(results, model, "classification_lr", rows_f1=0.5, tables_f1=0.5, **measures)
    for line in first_page.write_table(Averages(results)).splitlines():
        found |= {line.split(" | ")[0]: float(p) for p in re.findall(r"p (\d\.\d\d)", line)}
    rows, tables = (
        found["| rows, LR, ahead of BERT"],
        found["| rows of tables held out, LR, ahead of the frozen backbone"],
    )
    assert rows < tables


def test_runs_on_the_same_rows_are_compared_in_pairs():
    runs = {f"f1_run{run}": 0.1 * run for run in range(8)}
    first = [{"f1": 0.36, **{name: value + 0.01 for name, value in runs.items()}}]
    noisy = [{"f1": 0.35, **dict(zip(runs, reversed(runs.values()), strict=True))}]
    assert compare([first[0] | {"f1_run0": 0.012}], [{"f1": 0.35, **runs}], "f1").holds
    assert not compare(first, noisy, "f1").holds


def test_claims_are_made_only_where_the_paper_has_its_model_ahead(results):
    # On Movie the paper's classification is better without alignment, and TableVectorizer with TabPFN is N/A.
    for seed in (0, 1):
        for model, value in (("navi-paper", 0.5), ("navi-paper-without_alignment", 0.6)):
            add(results, model, "generative", seed=seed, test_value_token=value)
            add(results, model, "classification_xgboost", seed=seed, rows_f1=value)
        add(results, "navi-paper", "features_tabpfn", seed=seed, table_vectorizer_f1=0.1, navi_fe_f1=0.2, raw_f1=0.1)
    (cell,) = find_claim(results, "Header prediction and value imputation: ahead of w/o ESA", "navi-paper")
    assert cell.margin == pytest.approx(-0.1)
    assert not find_claim(results, "Row classification: ahead of w/o ESA", "navi-paper")
    assert not find_claim(results, "Row classification: ahead of TableVectorizer", "navi-paper")
    assert find_claim(results, "Row classification: ahead of Raw features", "navi-paper")


def test_a_smallest_loss_is_claimed_where_the_paper_has_it_alone(results):
    # On Movie its model loses least by typos and by permuted columns, but not by synonyms.
    for seed in (0, 1):
        for model, lost in (("bert", 0.3), ("haetae", 0.1), ("navi", 0.2)):
            losses = {f"informed_{change}_loss": lost + 0.01 * seed for change in ("permuted", "synonyms", "typos")}
            add(results, model, "robustness", seed=seed, **losses)
    cells = find_claim(results, "Robustness to changed schemas: loses less than BERT")
    assert [(cell.measure, cell.holds) for cell in cells] == [
        ("robustness Columns permuted", True),
        ("robustness Typos", True),
    ]
    assert not any(cell.holds for cell in find_claim(results, "Robustness to changed schemas: loses less than HAETAE"))


def make_columns():
    return {
        "test_headers": np.random.default_rng(0).normal(size=(8, 5)).astype(np.float16),
        "test_table": np.array([f"t{number % 2}" for number in range(8)]),
        "test_header": np.array(["actor", "actors", "cast", "year", "date", "year", "title", "title"]),
        "test_concept": np.array(["actor", "actor", "actor", "year", "year", "year", "title", "title"]),
    }


def make_segments():
    return {
        "segments": np.random.default_rng(1).normal(size=(10, 4)).astype(np.float16),
        "role": np.array(["low", "high"] * 5),
        "table": np.array([f"t{number % 3}" for number in range(10)]),
        "header": np.array(["year"] * 10),
        "value": np.array([f"<b>{number}</b>" for number in range(10)]),
    }


def draw(results, name):
    return figures.FIGURES[name](Averages(results), "movie")


def read_records(figure):
    return figure.spec["layer"][0]["data"]["values"]


def test_headers_are_mapped_for_bert_and_both_encoders_and_one_concept_stands_out(results):
    for model in ("bert", "navi-paper", "navi"):
        add(results, model, "clustering")  # a seed that kept nothing
        add(results, model, "clustering", seed=1, arrays=make_columns())
    shown = [figure.caption.split(":")[0] for figure in draw(results, "headers")]
    assert shown == ["movie, BERT", "movie, NAVI (paper)", "movie, NAVI"]
    figure = draw(results, "headers")[2]
    assert "“actor”" in figure.caption
    assert [each["series"] for each in read_records(figure)] == ["other concepts"] * 5 + ["actor", "actors", "cast"]


def test_low_and_high_segments_have_maps_of_their_own_with_hulls(results):
    add(results, "bert", "geometry", arrays=make_segments())
    low, high = draw(results, "roles")
    assert [{each["role"] for each in read_records(figure)} for figure in (low, high)] == [{"low"}, {"high"}]
    assert all(each["series"] == each["table"] for each in read_records(low))
    assert [each["series"] for each in read_records(draw(results, "segments")[0])] == ["high"] * 5 + ["low"] * 5


def test_the_page_with_its_figures_is_one_file_that_needs_nothing_else(results):
    for model in ("bert", "navi"):
        add(results, model, "clustering", arrays=make_columns(), test_headers_nmi=0.5)
        add(results, model, "geometry", arrays=make_segments(), role_silhouette=0.1)
    html = write_html(make_page(results), results.folder).read_text(encoding="utf-8")
    assert "among all columns" in html
    assert "<b>3</b>" not in html
