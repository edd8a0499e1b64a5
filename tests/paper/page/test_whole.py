from __future__ import annotations

import importlib.util
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from navi.report import Map, Number, Table, load_page, save_page, write_report
from navi_paper.page import make_page
from navi_paper.page.contents import SECTIONS
from navi_paper.page.layout import ABLATED, WHOLE
from navi_paper.page.tabulate import STAR
from navi_paper.results import Record, Results

MODELS = (*WHOLE, *ABLATED[:3], "navi-paper-random_routing")
SINGLE = ("beer_style", "film_certificate")
ABOUT = {"command": "navi evaluate corpus -o results", "versions": {"torch": "2.0"}, "device": "cpu"}


def guess(*names: str) -> float:
    """Return a figure between 0.5 and 1 that depends on the names alone."""
    return 0.5 + zlib.crc32("/".join(names).encode()) % 1000 / 2000


def make_measures(task: str, model: str, corpus: str) -> dict[str, float]:
    """Return a figure for every column that some table has of a task."""
    shown = [each for section in SECTIONS for table in section.tables for each in table.columns if each.task == task]
    names = [name for each in shown for name in (each.measure, each.loss, each.floor) if name]
    names = [name.replace(STAR, single) for name in names for single in SINGLE]
    names = [name.replace("{row}", row) for name in names for row in ("raw", "table_vectorizer", "navi_fe")]
    measures = {name: guess(corpus, model, name) for name in names}
    if "classification" in task:
        measures |= {f"{name}_deviation": 0.0125 for name in names}
    return measures


def make_arrays(task: str, model: str) -> dict[str, np.ndarray]:
    """Return what figures are drawn from."""
    random = np.random.default_rng(zlib.crc32(model.encode()))
    if task == "reconstruction":
        return {"test_value": random.beta(8 if "navi" in model else 2, 2, 400)}
    if task == "clustering":
        concepts = np.arange(60) % 6
        vectors = np.eye(6)[concepts] + random.normal(size=(60, 6)) / 4
        return {
            "test_headers": vectors.astype(np.float16),
            "test_table": np.array([f"table {number % 5}" for number in range(60)]),
            "test_header": np.array([f"header {number % 12}" for number in range(60)]),
            "test_concept": np.array([f"concept {concept}" for concept in concepts]),
        }
    if task == "geometry":
        return {
            "segments": random.normal(size=(80, 8)).astype(np.float16),
            "role": np.array(["low", "high"] * 40),
            "table": np.array([f"table {number % 5}" for number in range(80)]),
            "header": np.array([f"header {number % 7}" for number in range(80)]),
            "value": np.array([f"<b>value {number}</b>" for number in range(80)]),
        }
    if task == "reliability":
        probability = random.random(300)
        return {"probability": probability, "right": random.random(300) < probability}
    return {}


def fill(folder: Path, corpora=("movie", "product"), models=MODELS, seeds=(0,), leave: tuple[str, ...] = ()) -> Results:
    """Make up results of everything but some tasks."""
    results = Results(folder)
    tasks = [
        task for task in dict.fromkeys(task for section in SECTIONS for task in section.tasks) if task not in leave
    ]
    for corpus in corpora:
        for model in models:
            write_run(folder / "models" / corpus / f"{model}-0", model)
            for seed in seeds:
                for task in tasks:
                    measures = {name: value + seed / 100 for name, value in make_measures(task, model, corpus).items()}
                    results.add(
                        Record(
                            corpus=corpus, task=task, model=model, seed=seed, digest="", measures=measures, about=ABOUT
                        ),
                        make_arrays(task, model),
                    )
    return results


def write_run(folder: Path, model: str) -> None:
    """Write what a trained model's folder tells of its run."""
    folder.mkdir(parents=True)
    settings = {"backbone": "minilm", "training": {"epochs": 2, "learning_rate": 0.0002, "max_steps": None}}
    if model.startswith("navi"):
        settings["masking"] = {"header_share": 0.15}
        (folder / "pretrain.json").write_text(json.dumps({"config": settings}))
    else:
        (folder / "training.json").write_text(json.dumps({"identity": settings}))
    lines = [{"kind": "train", "step": step, "loss": 8 / step} for step in range(1, 20)]
    lines += [{"kind": "validation", "step": step, "value_accuracy": step / 20} for step in (5, 10)]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))


def find_section(page, title):
    return next(section for section in page.sections if section.title == title)


def find_table(page, caption):
    tables = [item for section in page.sections for item in section.items if isinstance(item, Table)]
    return next(table for table in tables if table.caption.startswith(caption))


def read_column(table, name, group=""):
    """Return the cells of a column by the first cell of their row."""
    place = next(
        place for place, each in enumerate(table.described_columns) if (each.name, each.group) == (name, group)
    )
    return {row[0]: row[place] for row in table.rows}


@pytest.fixture(scope="module", autouse=True)
def _quick_maps():
    """Place points by principal components, which takes no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("navi_paper.page.placing.FEWEST", 10**6)
        yield


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page(results):
    return make_page(results)


def test_every_section_is_there(page):
    titles = [section.title for section in page.sections]
    assert titles[0].startswith("NAVI against BERT")
    assert titles[1:-2] == [section.title for section in SECTIONS]
    assert titles[-2:] == ["Hyper-parameters and learning curves", "Where the figures come from"]


def test_the_page_is_the_same_when_read_back(page, results):
    save_page(page, results.folder)
    assert load_page(results.folder) == page


def test_the_papers_figures_stand_beside_ours(page):
    table = find_table(page, "movie: rows of known tables, columns as they stand")
    names = [(column.group, column.name) for column in table.described_columns]
    place = names.index(("Value", "token"))
    assert names[place + 1] == ("Value", "paper")
    row = next(row for row in table.rows if row[0] == "NAVI (paper)")
    assert row[place] == Number(guess("movie", "navi-paper", "test_value_token"))
    assert row[place + 1] == Number(0.7077)


def test_a_figure_of_the_papers_that_stands_alone_is_not_marked(page):
    table = find_table(page, "movie: cosines of hidden fields")
    assert [column.best for column in table.described_columns if column.name == "paper"] == [None, None]
    table = find_table(page, "movie: columns of known tables")
    assert [column.best for column in table.described_columns if column.name == "paper"] == ["highest"] * 2


def test_every_table_of_models_has_the_three_first(page):
    for section in SECTIONS:
        for table in (item for item in find_section(page, section.title).items if isinstance(item, Table)):
            firsts = [row[0] for row in table.rows]
            if "NAVI_FE" not in firsts and "random routing" not in " ".join(firsts):
                assert {"BERT", "NAVI (paper)", "NAVI"} <= set(firsts), table.caption


def test_deviations_of_runs_are_shown(page):
    cell = read_column(find_table(page, "movie: macro-F1 on the row embeddings of LM encoders"), "F1", "XGBoost")[
        "BERT"
    ]
    assert cell.deviation == 0.0125


def test_several_seeds_are_averaged_with_their_deviation(tmp_path):
    page = make_page(fill(tmp_path, ("movie",), ("bert", "navi"), seeds=(0, 1)))
    cell = read_column(find_table(page, "movie: columns of known tables"), "NMI", "Headers")["BERT"]
    assert cell.value == pytest.approx(guess("movie", "bert", "test_headers_nmi") + 0.005)
    assert cell.deviation == pytest.approx(0.01 / 2**0.5)
    assert "means over 2 seeds" in page.lead


def test_losses_stand_beside_accuracies_and_the_papers(page):
    table = find_table(page, "product: headers predicted, informed")
    assert read_column(table, "token", "Typos")["BERT"].change == -guess("product", "bert", "informed_typos_loss")
    assert read_column(table, "paper", "Typos")["BERT"] == Number(0.8855, change=-0.058)
    assert all(column.best_change for column in table.described_columns if column.group == "Typos")


def test_feature_pipelines_are_rows(page):
    table = find_table(page, "movie: macro-F1 of feature pipelines")
    ours = read_column(table, "F1", "LR")
    assert list(ours) == ["Raw features", "TableVectorizer", "NAVI_FE (paper)", "NAVI_FE"]
    assert ours["NAVI_FE"] == Number(guess("movie", "navi", "navi_fe_f1"))
    assert read_column(table, "paper", "TabPFN")["TableVectorizer"] is None


def test_single_tables_have_a_column_each(page):
    table = find_table(page, "movie: macro-F1 of XGBoost, row embeddings")
    assert [column.name for column in table.described_columns[1:]] == ["beer style", "film certificate"]


def test_a_corpus_that_the_paper_does_not_have_is_shown_without_it(tmp_path):
    page = make_page(fill(tmp_path, ("feeds",), ("bert", "navi")))
    table = find_table(page, "feeds: columns of known tables")
    assert "paper" not in [column.name for column in table.described_columns]
    assert "quote the paper" not in page.lead


def test_a_model_that_no_table_knows_is_a_row_too(tmp_path):
    page = make_page(fill(tmp_path, ("feeds",), ("bert", "mine")))
    assert [row[0] for row in find_table(page, "feeds: columns of known tables").rows] == ["BERT", "mine"]


def test_the_simple_guess_is_the_last_row(page):
    row = find_table(page, "movie: tables that were never seen.").rows[-1]
    assert row[0] == "Most frequent of the column"
    assert isinstance(row[-1], Number)


def test_what_was_left_out_says_what_would_fill_it(tmp_path):
    reason = "there is no gold for concepts (--gold)"
    page = make_page(
        fill(tmp_path, ("feeds",), ("bert", "navi"), leave=("clustering", "naming")), {"clustering": reason}
    )
    assert reason in find_section(page, "Header clustering").text
    assert "Naming columns of unseen tables" not in [section.title for section in page.sections]
    rows = find_table(page, "What was left out").rows
    assert rows[0] == ("clustering", "Header clustering", reason)
    assert rows[1][:2] == ("naming", "Naming columns of unseen tables")
    assert "--tasks naming" in rows[1][2]


def test_a_classifier_that_is_missing_is_explained_below_its_table(tmp_path):
    left_out = {"classification_xgboost": "install the extra: pip install 'navi-tables[eval]'"}
    page = make_page(fill(tmp_path, ("movie",), ("bert", "navi"), leave=tuple(left_out)), left_out)
    table = find_table(page, "movie: macro-F1 on the row embeddings of LM encoders")
    assert "`classification_xgboost` was left out: install the extra" in table.note
    assert set(read_column(table, "F1", "XGBoost").values()) == {None}


def test_a_classifier_that_failed_everywhere_is_explained_below_its_table(tmp_path):
    results = fill(tmp_path, ("feeds",), ("bert",), leave=("classification_tabpfn",))
    error = "ConfigError: There are no weights of TabPFN."
    results.add(Record(corpus="feeds", task="classification_tabpfn", model="bert", seed=0, digest="", error=error))
    table = find_table(make_page(results), "feeds: macro-F1 on the row embeddings of LM encoders")
    assert table.note == f"`classification_tabpfn` failed: {error}"


def test_cells_that_failed_are_told_with_their_error(tmp_path):
    results = fill(tmp_path, ("movie",), ("bert",))
    record = Record(corpus="movie", task="naming", model="navi", seed=1, digest="", error="ValueError: no rows")
    results.add(record)
    rows = find_table(make_page(results), "Cells that failed").rows
    assert rows == (("naming", "movie", "NAVI", 1, "ValueError: no rows"),)


def test_settings_are_shown_as_run_beside_the_papers(page):
    table = find_table(page, "movie: hyper-parameters as run")
    assert [column.name for column in table.described_columns][:2] == ["setting", "BERT"]
    rows = {row[0]: row for row in table.rows}
    assert rows["training.learning_rate"][1] == "0.0002"
    assert rows["training.learning_rate"][-1] == "3e-05"
    assert rows["training.max_steps"][1] == "off"
    assert rows["masking.header_share"][1] is None


def test_no_results_make_a_page_that_says_how_to_get_some(tmp_path):
    page = make_page(Results.open(tmp_path))
    assert "navi evaluate CORPUS -o RESULTS" in page.lead
    assert [section.title for section in page.sections] == ["What was left out"]


def test_every_column_is_measured_by_its_task(bench, navi_tables, encoders):
    from navi_paper.classification.scoring import CLASSIFICATION
    from navi_paper.tasks import TASKS

    # The oracle is quick and always right, so that it has something to lose; it knows no probabilities.
    asked = {"naming": navi_tables, "reliability": navi_tables}
    found = {task.name: task.run(asked.get(task.name, encoders.oracle), bench) for task in TASKS}
    measured = {name: set(outcome.measures) for name, outcome in found.items()}
    for sequel in CLASSIFICATION:
        if sequel.name == "classification_lr":
            measured[sequel.name] = set(sequel.run(found[sequel.after].arrays, bench).measures)
    shown = [each for section in SECTIONS for table in section.tables for each in table.columns]
    for each in shown:
        if each.task in measured and STAR not in each.measure:
            named = {name for name in (each.measure, each.loss, each.floor) if name}
            assert named <= measured[each.task], each
    known = {
        *measured,
        *(sequel.name for sequel in CLASSIFICATION),
        "features_xgboost",
        "features_lr",
        "features_tabpfn",
    }
    assert {each.task for each in shown} <= known


def load_report_fixtures():
    """Return the module that knows how to drive a headless Chromium: that of the report's own tests."""
    file = Path(__file__).parents[2] / "report" / "conftest.py"
    spec = importlib.util.spec_from_file_location("report_fixtures", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tab(page, results, tmp_path_factory):
    """The page in a browser."""
    driver = load_report_fixtures()
    if driver.find_chromium() is None:
        pytest.skip("there is no Chromium here")
    browser = driver.Browser(tmp_path_factory.mktemp("profile"))
    yield browser.open(write_report(page, results.folder))
    browser.close()


def test_the_page_opens_without_complaint_and_draws_every_figure(tab, page):
    assert tab.complaints == []
    figures = [item for section in page.sections for item in section.items if not isinstance(item, Table)]
    drawn = [item for item in figures if hasattr(item, "caption")]
    assert tab.ask("document.querySelectorAll('.plot svg').length") == len(drawn)


def test_pointing_at_a_map_tells_table_header_and_concept(tab, page):
    first = next(item for section in page.sections for item in section.items if isinstance(item, Map))
    tab.ask("document.querySelector('.map').scrollIntoView({ behavior: 'instant' })")
    box = "document.querySelector('.map .mark-symbol path').getBoundingClientRect()"
    x, y = tab.ask(f"((box) => [box.x + box.width / 2, box.y + box.height / 2])({box})")
    tab.move(x - 30, y)
    tab.move(x, y)
    tab.wait("!document.getElementById('tooltip').hidden")
    told = tab.ask("document.getElementById('tooltip').textContent")
    assert all(name in told for name in first.labels)
    assert re.search(r"table \d", told)
    assert tab.complaints == []


def test_best_and_second_are_marked_in_ours_and_in_the_papers(tab):
    marked = "[...document.querySelectorAll('td.best .value')].map((cell) => cell.textContent)"
    assert {"0.9998", "0.7996"} <= set(tab.ask(marked))
    assert tab.ask("document.querySelectorAll('td.second').length") > 0
    assert tab.ask("document.querySelectorAll('.change.least').length") > 0
