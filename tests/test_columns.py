"""Columns: what is known of each one, and how much two of them speak for the same meaning."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from navi.columns import (
    FEATURES,
    Background,
    ColumnProfiles,
    PairScorer,
    average_columns,
    is_useless,
    join_profiles,
    load_packaged,
    measure_competition,
    measure_features,
    profile_columns,
)
from navi.columns.features import HEADER_FEATURES, SMOOTHING, VALUE_FEATURES, Overlaps, TermWeights
from navi.columns.headers import split_header
from navi.columns.profiles import bag_headers, hash_terms, make_bags, sample_cells
from navi.columns.quantities import KINDS, NOT_A_QUANTITY, parse_quantities
from navi.columns.texts import MAX_TOKENS, MOST_OF_A_TABLE, embed_texts, make_views, write_column
from navi.corpus.tokens import TextTokenizer
from navi.errors import ModelError

GENRES = ("drama", "comedy", "horror", "action")
NAMES = ("ann", "bob", "cleo", "dan", "eve", "fay", "gus", "hal")
SAME = {name: name for name in ("title", "genre", "year", "votes", "actor")}
OTHER = {"title": "film", "genre": "kind", "year": "date", "votes": "rating", "actor": "star"}
fifty = settings(max_examples=50)


def draw(seed, num_rows, headers):
    """Return rows about films under the given headers, seeded."""
    rng = random.Random(seed)
    rows = []
    for _ in range(num_rows):
        row = {
            "title": f"the {rng.choice(NAMES)} {rng.randrange(300)} night",
            "genre": ", ".join(sorted(rng.sample(GENRES, 2))),
            "year": str(rng.randrange(1950, 2020)),
            "votes": str(rng.randrange(10_000, 900_000)),
            "actor": f"{rng.choice(NAMES)} {rng.choice(NAMES)}",
        }
        rows.append({headers[name]: value for name, value in row.items()})
    return rows


def read_columns(navi, encoded, rows=None):
    """Return the profile of each column, read by a model."""
    return profile_columns(navi.runner, TextTokenizer(navi.tokenizer), encoded, rows)


@pytest.fixture(scope="module")
def films(reference_navi):
    """Three tables about films, two with the same headers, one with others."""
    return reference_navi.encode({"amber": draw(1, 60, SAME), "birch": draw(2, 50, SAME), "cedar": draw(3, 40, OTHER)})


@pytest.fixture(scope="module")
def profiles(reference_navi, films):
    return read_columns(reference_navi, films)


def compare(first, second, *background):
    """Return every feature by name."""
    return dict(zip(FEATURES, measure_features(first, second, Background(background or [second])), strict=True))


@pytest.fixture(scope="module")
def features(profiles):
    return compare(profiles, profiles)


@pytest.mark.parametrize(
    "header",
    ["col_3", "Column 12", "Unnamed: 7", "Unnamed: 0_level_0", "x", "A", "AB", "field_12", "1999", "?", "", " ", "V1",
     "c.2", "attribute_4", "unknown", "var", "X1", "feature 3", "value_2"],
)  # fmt: skip
def test_made_up_headers_say_nothing(header):
    assert is_useless(header)


@pytest.mark.parametrize(
    "header", ["title", "id", "ID", "r10", "actor 1", "año", "features", "TV", "data source", "value", "国家", "UK"]
)
def test_words_say_something(header):
    assert not is_useless(header)


@fifty
@given(st.integers(0, 10**6), st.sampled_from(["col", "column", "field", "Unnamed:", "attr", "var"]))
def test_a_filler_with_a_number_says_nothing(number, filler):
    assert is_useless(f"{filler}{number}")
    assert is_useless(f"{filler} {number}")
    assert is_useless(f"{filler.upper()}_{number}")


@pytest.mark.parametrize(
    "spellings",
    [
        *("engine:|Engine", "Director(s)|director", "Languages|language", "product weight :|product_weights"),
        *("GDP nominal [50]|gdpNominal", "categories|Category", "Boxes|box", "Release-Date|releaseDate"),
    ],
)
def test_headers_that_differ_in_signs_case_or_number_are_spelled_alike(spellings):
    first, second = spellings.split("|")
    assert split_header(first) == split_header(second) != []


def test_words_that_only_look_like_plurals_stay_and_signs_alone_are_no_words():
    words = ["width", "title length", "status", "class", "analysis", "gas", "year"]
    assert [" ".join(split_header(word)) for word in words] == words
    assert split_header("?") == split_header("[3]") == []


def parse(text):
    kinds, numbers = parse_quantities(pa.array([text]))
    return (KINDS[kinds[0]] if kinds[0] != NOT_A_QUANTITY else None), numbers[0]


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("number", {"1,200": 1200, "-3.5": -3.5, "(2019)": 2019, "7.8/10": 7.8, "1.2M": 1_200_000}),
        ("percent", {"95%": 95}),
        ("money", {"$3.5 million": 3_500_000, "€12.50": 12.5, "12 USD": 12}),
        ("duration", {"2h 10m": 130, "142 min": 142, "1:30:00": 90, "PT2H22M": 142, "PT95M": 95}),
        ("date", {"2001-07-01": 2001.5, "2014-06-13T00:00:00Z": 2014 + 5 / 12, "May 3, 1999": 1999 + 4 / 12}),
        ("date", {"25 December 2011": 2011 + 11 / 12, "12/25/2011": 2011 + 11 / 12, "12-May-99": 1999 + 4 / 12}),
        ("date", {"3-Jan-05": 2005}),
        ("measure", {"15.6 inches": 15.6, "12.1MP": 12.1}),
    ],
)
def test_quantities_are_read_on_the_scale_of_their_kind(kind, numbers):
    for text, number in numbers.items():
        assert parse(text) == (kind, pytest.approx(number)), text


@pytest.mark.parametrize("text", ["Alien", "", "h", "pt", "The 400 Blows", "PG-13", "1999–2003", "tt0078748"])
def test_words_are_no_quantities(text):
    kind, number = parse(text)
    assert kind is None
    assert math.isnan(number)


@fifty
@given(st.integers(-(10**12), 10**12))
def test_every_integer_is_read_back_with_and_without_separators(number):
    kinds, numbers = parse_quantities(pa.array([str(number), f"{number:,}"]))
    assert kinds.tolist() == [0, 0]
    assert numbers.tolist() == [number, number]


def bag(*columns, limit=1000, sampled=False):
    """Return bags of columns given as lists of terms, each a cell of its own."""
    ends = np.cumsum([0, *(len(terms) for terms in columns)])
    cells = csr_array((np.ones(ends[-1]), np.arange(ends[-1]), ends), shape=(len(columns), ends[-1]))
    terms = np.array([term for each in columns for term in each], dtype=np.int64)
    return make_bags(cells, np.arange(ends[-1]), terms, limit=limit, sampled=sampled)


@fifty
@given(st.integers(0, 2**32), st.integers(150, 400), st.integers(150, 400), st.integers(0, 400))
def test_overlap_can_be_estimated_from_samples(seed, num_first, num_second, num_shared):
    num_shared = min(num_shared, num_first, num_second)
    terms = hash_terms([f"{seed} {number}" for number in range(num_first + num_second - num_shared)])
    first, second = terms[:num_first], terms[num_first - num_shared :]
    alike = TermWeights([bag()])
    whole = Overlaps(bag(first), bag(second), alike, 1000).measure()[0][0, 0]
    samples = [bag(each, limit=100, sampled=True) for each in (first, second)]
    assert whole == pytest.approx(num_shared / (min(num_first, num_second) + SMOOTHING))
    assert Overlaps(*samples, alike, 100).measure()[0][0, 0] == pytest.approx(whole, abs=0.3)


def test_the_order_of_rows_does_not_matter(reference_navi):
    rows = [{"title": f"film {number}"} for number in range(50)]
    encoded = [reference_navi.encode({"a": each}) for each in (rows, rows[::-1])]
    assert_same(*(read_columns(reference_navi, each) for each in encoded), tolerance=1e-6)
    drawn = [each.values.take(pa.array(sample_cells(each, np.arange(50), 9).value)).to_pylist() for each in encoded]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 9


def assert_same(first, second, tolerance=0.0):
    assert (first.tables, first.headers, first.attributes) == (second.tables, second.headers, second.attributes)
    for name in ("cells", "quantiles", "facts"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.bags.keys() == second.bags.keys()
    for name, bags in first.bags.items():
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(bags, part), getattr(second.bags[name], part))
    assert first.vectors.keys() == second.vectors.keys() == {"header", "value", "column"}
    for name, vector in first.vectors.items():
        np.testing.assert_allclose(vector, second.vectors[name], atol=tolerance)


def test_profiles_survive_saving(profiles, tmp_path):
    profiles.save(tmp_path)
    assert_same(ColumnProfiles.load(tmp_path), profiles, tolerance=2e-3)


def test_taking_and_joining_are_inverse(profiles):
    assert_same(join_profiles([profiles.take(np.arange(0, 6)), profiles.take(np.arange(6, 15))]), profiles)


def test_a_folder_without_profiles_or_with_another_format_is_an_error(profiles, tmp_path):
    with pytest.raises(ModelError, match=r"Cannot read .*columns\.arrow"):
        ColumnProfiles.load(tmp_path)
    profiles.save(tmp_path)
    file = tmp_path / "columns.arrow"
    table = pa.ipc.open_file(file.read_bytes()).read_all().replace_schema_metadata({"format": "99"})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ModelError, match="has format 99"):
        ColumnProfiles.load(tmp_path)


def test_only_the_given_rows_have_a_part_in_values(reference_navi, films):
    found = read_columns(reference_navi, films, np.flatnonzero(films.arrays.row_table == 0))
    other = films.arrays.column_table != 0
    assert found.cells.tolist() == np.where(other, 0, 60).tolist()
    lengths = {name: np.linalg.norm(vector, axis=1).round(5) for name, vector in found.vectors.items()}
    assert lengths["value"].tolist() == (~other).tolist()
    assert (lengths["header"] == 1).all()
    np.testing.assert_allclose(found.vectors["column"][other], found.vectors["header"][other], atol=1e-6)
    assert found.bags["items"][other].nnz == 0
    assert found.bags["header_words"][other].nnz > 0


def test_a_trained_model_knows_the_columns_of_its_corpus_up_to_a_bound(model_dir, corpus_dir, navi, monkeypatch):
    from navi.corpus import Corpus
    from navi.training import export

    corpus, known = Corpus.open(corpus_dir), ColumnProfiles.load(model_dir)
    assert set(known.tables) == set(corpus.tables)
    assert (known.cells > 0).all()
    monkeypatch.setattr(export, "MAX_COLUMNS", 5)
    fullest = export.survey_columns(navi.runner.model, navi.runner.special, corpus)
    assert len(fullest) == 5
    assert fullest.cells.min() >= np.sort(known.cells)[-5]
    values = export.survey_values(corpus)
    monkeypatch.setitem(export.MAX_BYTES, export.VALUES_FILE, 200)
    counts = export.survey_values(corpus)["count"].to_pylist()
    assert 0 < len(counts) < len(values)
    assert sorted(counts, reverse=True) == sorted(values["count"].to_pylist(), reverse=True)[: len(counts)]


def test_a_column_is_read_as_its_header_and_a_few_distinct_values():
    assert write_column("releaseDate", ["1979", "1986", "1979"]) == "release date: 1979, 1986"
    assert (write_column("releaseDate", []), write_column("col_3", ["1979"])) == ("release date", "1979")
    assert write_column("?", ["a" * 99, *"bcdefghijklm"]) == f"{'a' * 40}, b, c, d, e, f, g, h, i, j"
    assert write_column("", []) == ""


def test_a_text_has_one_vector_whatever_is_read_with_it_and_an_empty_one_zeros(reference_navi):
    tokenizer = TextTokenizer(reference_navi.tokenizer)
    texts = ["title: alien", "", "year", "title: alien", *(f"year: {'1999, ' * number}" for number in range(1, 30))]
    found = embed_texts(reference_navi.runner, tokenizer, texts)
    np.testing.assert_array_equal(found[0], found[3])
    np.testing.assert_allclose(found[:1], embed_texts(reference_navi.runner, tokenizer, texts[:1]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found[:4], axis=1), [1, 0, 1, 1], atol=1e-5)
    assert found[0] @ found[2] < 1 - 1e-3


@pytest.fixture
def view(reference_navi):
    """Return the views of some columns and rows, and their texts, (K, num_texts)."""

    def make(encoded, seed):
        rows = np.arange(encoded.arrays.num_rows)
        views = make_views(encoded, TextTokenizer(reference_navi.tokenizer), rows, 6, seed)
        texts = np.split(views.texts.tokens, views.texts.offsets[1:-1])
        written = [reference_navi.tokenizer.decode(each).replace(" ##", "") for each in texts]
        return views, np.array(written, object).reshape(-1, views.num_texts)

    return make


def test_views_of_a_column_are_as_it_is_its_header_and_others_that_the_seed_gives(view, films):
    (views, first), (_, again), (_, other) = (view(films, seed) for seed in (1, 1, 2))
    assert len(first) == len(views) == films.arrays.num_columns + films.arrays.num_rows
    assert (first == again).all()
    assert (first[:, :2] == other[:, :2]).all()
    assert (first[:, 2:] != other[:, 2:]).mean() > 0.5
    first = first[: films.arrays.num_columns]
    headers = [films.headers[int(number)].as_py() for number in films.arrays.column_header]
    assert first[:, 1].tolist() == headers
    assert all(text.startswith(f"{header} :") for text, header in zip(first[:, 0], headers, strict=True))
    assert views.texts.lengths.max() <= MAX_TOKENS


def test_views_come_from_different_rows_where_there_are_enough(reference_navi, view, monkeypatch):
    monkeypatch.setattr("navi.columns.texts.perturb_values", lambda values, _: list(values))
    monkeypatch.setattr("navi.columns.texts.ALONE_SHARE", 0.0)
    rows = [{"col_1": chr(97 + row // 10) + str(row % 10)} for row in range(60)]
    shown = [value for text in view(reference_navi.encode({"a": rows}), 0)[1][0, 2:] for value in text.split(" , ")]
    assert len(shown) == len(set(shown)) == 60


def test_a_row_is_as_it_is_with_its_headers_and_as_other_tables_would_have_it(reference_navi, view):
    rows = [{"film": f"film {number}", "kind": "drama", "year": str(1950 + number)} for number in range(40)]
    views, texts = view(reference_navi.encode({"a": rows}), 0)
    assert len(texts) == 3 + 40
    (row,) = (each for each in texts[3:] if each[0] == "film 7 , drama , 1957")
    assert row[1] == "film : film 7 , kind : drama , year : 1957"
    assert len(set(row)) > 4
    assert sum("7" in text for text in row) >= 7  # its title is in nearly all of them
    assert len(set(views.meanings[3:].tolist())) == 40


def test_columns_and_rows_are_drawn_by_table_and_key(view, films):
    views, _ = view(films, 0)
    drawn = [views.choose(3, key) for key in range(60)]
    assert {len(set(views.tables[chosen])) for chosen in drawn} == {1}
    assert {int(views.tables[chosen[0]]) for chosen in drawn} == set(range(6))  # three tables' columns, and their rows
    np.testing.assert_array_equal(views.choose(3, 3), drawn[3])
    everything = views.choose(999, 0).tolist()
    assert len(everything) == len(set(everything))
    assert np.bincount(views.tables[everything]).max() <= MOST_OF_A_TABLE


def expect(navi, arrays, *hidden, num_masks=1):
    """Return the log-likelihoods of tokens where some columns' headers are hidden."""
    hidden_K = np.isin(np.arange(arrays.num_columns), hidden)
    return average_columns(navi.runner, arrays, hidden_K, num_masks=num_masks)


def test_what_a_model_expects_is_the_mean_over_rows(reference_navi, films):
    whole = expect(reference_navi, films.arrays.take_rows(np.arange(3)), 0)
    alone = [expect(reference_navi, films.arrays.take_rows(np.array([row])), 0) for row in range(3)]
    np.testing.assert_allclose(whole, np.mean(alone, axis=0), atol=1e-3)


def test_a_hidden_header_leaves_no_trace(reference_navi):
    found = [
        expect(reference_navi, reference_navi.encode({"a": [{"title": "x", header: "drama"}] * 2}).arrays, 1)
        for header in ("genre", "zebra")
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


def test_a_column_without_values_is_like_none_by_values_and_one_without_a_header_by_headers(reference_navi, profiles):
    empty = read_columns(reference_navi, reference_navi.encode({"a": [{"title": "x"}]}), np.arange(0))
    nameless = read_columns(reference_navi, reference_navi.encode({"a": [{"col_1": "drama"}]}))
    for profile, names in ((empty, (*VALUE_FEATURES, "filled", "few")), (nameless, (*HEADER_FEATURES, "named"))):
        found = compare(profile, profiles)
        for name in names:
            assert (found[name] == 0).all(), name
    assert compare(nameless, profiles)["filled"].all()


@pytest.fixture(scope="module")
def scorer():
    """The scorer that comes with the package."""
    return load_packaged()


def score(scorer, first, second):
    return scorer.score(first, second, Background([second]))


def test_it_does_not_matter_which_column_is_first(scorer, profiles, features):
    for name, matrix in features.items():
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-5, err_msg=name)
    odds = scorer.compete(score(scorer, profiles, profiles).total, profiles.tables)
    np.testing.assert_allclose(odds, odds.T, atol=1e-4)


@pytest.mark.parametrize("header", ["Unnamed: 0", "x", "?"])
def test_a_useless_header_says_nothing(reference_navi, scorer, profiles, header):
    tables = [[{name: genre, "year": "1999"} for genre in GENRES] for name in ("col_1", header)]
    read = [read_columns(reference_navi, reference_navi.encode({"a": rows})) for rows in tables]
    first, second = (score(scorer, each, profiles) for each in read)
    np.testing.assert_array_equal(first.total, second.total)
    np.testing.assert_array_equal(first.values, second.values)


def test_values_alone_are_blind_to_headers(scorer, profiles):
    background = Background([profiles])
    vectors = {**profiles.vectors, "header": profiles.vectors["header"][::-1], "column": profiles.vectors["column"] * 0}
    headers = tuple(f"col_{number}" for number in range(len(profiles)))
    renamed = replace(profiles, headers=headers, vectors=vectors, bags={**profiles.bags, **bag_headers(headers)})
    found = [scorer.score_values(each, profiles, background) for each in (profiles, renamed)]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_many_columns_score_as_few_do(scorer, profiles, monkeypatch):
    background = Background([profiles])
    whole, values = scorer.score(profiles, profiles, background), scorer.score_values(profiles, profiles, background)
    monkeypatch.setattr("navi.columns.scorer.BLOCK", 4)
    blocks = scorer.score(profiles, profiles, background)
    for part in ("total", "headers", "values"):
        np.testing.assert_allclose(getattr(blocks, part), getattr(whole, part), atol=1e-4)
    np.testing.assert_allclose(scorer.score_values(profiles, profiles, background), values, atol=1e-4)


def make_scorer(**weights):
    """Return a scorer of two hidden units that adds the weighted features up."""
    hidden = np.zeros((len(FEATURES) + 1, 2), np.float32)
    for name, weight in weights.items():
        hidden[FEATURES.index(name)] = weight, -weight
    hidden[-1] = 0.5, -0.5
    output, competition = np.array([1, -1, 0.25], np.float32), np.array([1, 0.5, 0.25, -0.1, 0.75], np.float32)
    return PairScorer(hidden=hidden, output=output, reading=0.0, competition=competition)


def test_competition_measures_the_lead_over_rivals_and_the_widths_of_tables():
    matrix = np.array([[3, 1], [2, -9]], np.float32)
    both, alone = np.array([0, 0]), np.array([0, 1])
    own, ahead, behind, widths = measure_competition(matrix, both, both)
    assert own.tolist() == matrix.tolist()
    assert ahead.tolist() == [[2, 10], [11, -10]]
    assert behind.tolist() == [[1, -2], [-1, -11]]
    np.testing.assert_allclose(widths, 2 * np.log(2))
    # Without a rival, what there is to beat is no partner at all.
    for lead in measure_competition(matrix, alone, alone)[1:3]:
        assert lead.tolist() == matrix.tolist()


def test_columns_of_one_table_do_not_compete():
    matrix = np.array([[9, 1, 2], [1, 9, 3], [2, 3, 9]], np.float32)
    found = make_scorer().compete(matrix, ("a", "a", "b"))
    assert found[0, 1] == matrix[0, 1]
    # Two points ahead of no partner, and beaten by a point, in tables of one column and of two.
    assert found[0, 2] == found[2, 0] == pytest.approx(2 + 0.5 * 2 - 0.25 - 0.1 * np.log(2) + 0.75)


def test_a_scorer_survives_saving_and_the_packaged_one_serves_without_one(tmp_path, scorer):
    assert PairScorer.load(tmp_path) is scorer
    made = make_scorer(words=1.7)
    made.save(tmp_path)
    for name, weight in vars(PairScorer.load(tmp_path)).items():
        np.testing.assert_array_equal(weight, getattr(made, name))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", r"Cannot read .*scorer\.json"),
        (json.dumps({"features": list(FEATURES), "surprise": 1}), r"Cannot read .*scorer\.json"),
        (
            json.dumps({"features": ["words"]}),
            r"scorer\.json was made for other features of columns\. .*Pretrain again",
        ),
        (json.dumps({"weights": {}}), "was made for other features of columns"),
    ],
)
def test_a_file_that_is_no_scorer_of_this_version_is_an_error_of_one_line(tmp_path, content, message):
    (tmp_path / "scorer.json").write_text(content)
    with pytest.raises(ModelError, match=message) as error:
        PairScorer.load(tmp_path)
    assert "\n" not in str(error.value)
