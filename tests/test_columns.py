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
    DEFAULT_SCORER,
    FEATURES,
    STATES,
    Background,
    ColumnProfiles,
    PairScorer,
    average_columns,
    average_states,
    choose_rows,
    find_stem,
    fit_scorer,
    is_useless,
    join_profiles,
    measure_features,
    profile_columns,
    sketch_columns,
)
from navi.columns.features import SMOOTHING, TermWeights, compare_bags, measure_overlap
from navi.columns.headers import split_header
from navi.columns.profiles import FACTS, LEVELS, NUM_TERMS, hash_terms, make_bags, sample_cells
from navi.columns.quantities import KINDS, NOT_A_QUANTITY, parse_quantities
from navi.columns.scorer import SPELLING_WEIGHTS
from navi.errors import ModelError

GENRES = ("drama", "comedy", "horror", "action")
NAMES = ("ann", "bob", "cleo", "dan", "eve", "fay", "gus", "hal")
SAME = {name: name for name in ("title", "genre", "year", "votes", "actor")}
OTHER = {"title": "film", "genre": "kind", "year": "date", "votes": "rating", "actor": "star"}
# A machine busy with something else must not fail a law.
patient = settings(deadline=None, max_examples=50)


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


@pytest.fixture(scope="module")
def films(reference_navi):
    """Three tables about films, two with the same headers, one with others."""
    return reference_navi.encode({"amber": draw(1, 60, SAME), "birch": draw(2, 50, SAME), "cedar": draw(3, 40, OTHER)})


@pytest.fixture(scope="module")
def profiles(reference_navi, films):
    return profile_columns(reference_navi.runner, films, rows_per_column=6)


@pytest.fixture(scope="module")
def place(profiles):
    """The number of each column, by table and header."""
    return {key: number for number, key in enumerate(zip(profiles.tables, profiles.headers, strict=True))}


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


@patient
@given(st.integers(0, 10**6), st.sampled_from(["col", "column", "field", "Unnamed:", "attr", "var"]))
def test_a_filler_with_a_number_says_nothing(number, filler):
    assert is_useless(f"{filler}{number}")
    assert is_useless(f"{filler} {number}")
    assert is_useless(f"{filler.upper()}_{number}")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("engine:", "Engine"),
        ("Director(s)", "director"),
        ("Languages", "language"),
        ("product weight :", "product_weights"),
        ("GDP nominal [50]", "gdpNominal"),
        ("categories", "Category"),
        ("Boxes", "box"),
        ("Release-Date", "releaseDate"),
    ],
)
def test_headers_that_differ_in_signs_case_or_number_are_spelled_alike(first, second):
    assert split_header(first) == split_header(second) != []


@pytest.mark.parametrize(("first", "second"), [("width", "height"), ("title", "title length"), ("status", "statu")])
def test_headers_of_other_words_are_not(first, second):
    assert split_header(first) != split_header(second)


@pytest.mark.parametrize("word", ["status", "class", "analysis", "gas", "year"])
def test_a_word_that_only_looks_like_a_plural_stays_and_signs_alone_are_no_words(word):
    assert split_header(word) == [word]
    assert split_header("?") == split_header("[3]") == []


def test_members_of_a_list_have_one_stem():
    assert find_stem("actor_1_name") == find_stem("actor 2 name") == "actor name"


def parse(text):
    kinds, numbers = parse_quantities(pa.array([text]))
    return (KINDS[kinds[0]] if kinds[0] != NOT_A_QUANTITY else None), numbers[0]


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("1,200", "number", 1200),
        ("-3.5", "number", -3.5),
        ("(2019)", "number", 2019),
        ("7.8/10", "number", 7.8),
        ("1.2M", "number", 1_200_000),
        ("95%", "percent", 95),
        ("$3.5 million", "money", 3_500_000),
        ("€12.50", "money", 12.5),
        ("12 USD", "money", 12),
        ("2h 10m", "duration", 130),
        ("142 min", "duration", 142),
        ("1:30:00", "duration", 90),
        ("PT2H22M", "duration", 142),
        ("PT95M", "duration", 95),
        ("2001-07-01", "date", 2001.5),
        ("2014-06-13T00:00:00Z", "date", 2014 + 5 / 12),
        ("May 3, 1999", "date", 1999 + 4 / 12),
        ("25 December 2011", "date", 2011 + 11 / 12),
        ("12/25/2011", "date", 2011 + 11 / 12),
        ("12-May-99", "date", 1999 + 4 / 12),
        ("3-Jan-05", "date", 2005),
        ("15.6 inches", "measure", 15.6),
        ("12.1MP", "measure", 12.1),
    ],
)
def test_quantities_are_read_on_the_scale_of_their_kind(text, kind, number):
    found_kind, found = parse(text)
    assert found_kind == kind
    assert found == pytest.approx(number)


@pytest.mark.parametrize("text", ["Alien", "", "h", "pt", "The 400 Blows", "PG-13", "1999–2003", "tt0078748"])
def test_words_are_no_quantities(text):
    kind, number = parse(text)
    assert kind is None
    assert math.isnan(number)


@patient
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


def test_a_bag_has_the_share_of_cells_that_hold_each_term():
    bags = bag([5, 3, 5, 5], [9], [])
    assert bags.shape == (3, NUM_TERMS)
    assert bags.indices.tolist() == [3, 5, 9]
    assert bags.data.tolist() == [0.25, 0.75, 1.0]


@pytest.mark.parametrize(("sampled", "kept"), [(False, [2, 7]), (True, [1, 2])])
def test_a_bag_keeps_the_most_frequent_terms_or_a_sample_that_is_the_same_everywhere(sampled, kept):
    assert bag([7, 7, 1, 2, 2, 2], limit=2, sampled=sampled).indices.tolist() == kept


def test_equal_bags_have_cosine_one_and_strangers_none():
    bags = bag([1, 2, 3], [1, 2, 3], [8, 9], [])
    expected = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(compare_bags(bags, bags, TermWeights([bags])), expected, atol=1e-9)


def test_a_rare_term_in_common_says_more_than_a_frequent_one():
    bags = bag([1, 2], [1, 3], [2, 4], [1, 5], [1, 6])
    cosine = compare_bags(bags, bags, TermWeights([bags]))
    assert cosine[0, 2] > cosine[0, 1]


def test_terms_that_the_weights_have_never_met_still_count():
    known, new = bag([1, 2], [2, 3]), bag([50, 60], [50, 60])
    assert compare_bags(new, new, TermWeights([known]))[0, 1] == pytest.approx(1)


def test_one_value_in_common_is_little_evidence_and_many_are_much():
    flags, titles = bag([1, 2], [1, 2]), bag(range(100), range(100))
    overlap = [measure_overlap(bags, bags, TermWeights([bags]), 1000)[0][0, 1] for bags in (flags, titles)]
    assert overlap[0] < 0.5 < overlap[1]


@patient
@given(st.integers(0, 2**32), st.integers(150, 400), st.integers(150, 400), st.integers(0, 400))
def test_overlap_can_be_estimated_from_samples(seed, num_first, num_second, num_shared):
    num_shared = min(num_shared, num_first, num_second)
    terms = hash_terms([f"{seed} {number}" for number in range(num_first + num_second - num_shared)])
    first, second = terms[:num_first], terms[num_first - num_shared :]
    alike = TermWeights([bag()])
    whole = measure_overlap(bag(first), bag(second), alike, 1000)[0][0, 0]
    samples = [bag(each, limit=100, sampled=True) for each in (first, second)]
    assert whole == pytest.approx(num_shared / (min(num_first, num_second) + SMOOTHING))
    assert measure_overlap(*samples, alike, 100)[0][0, 0] == pytest.approx(whole, abs=0.3)


@pytest.fixture(scope="module")
def sketch(reference_navi):
    """Return the profile of each column, by header."""

    def make(**columns):
        length = max(len(values) for values in columns.values())
        rows = [{name: values[n] for name, values in columns.items() if n < len(values)} for n in range(length)]
        found = sketch_columns(reference_navi.encode({"table": rows}))
        return {header: found.take(np.array([number])) for number, header in enumerate(found.headers)}

    return make


def list_terms(profile, name):
    bags = profile.bags[name]
    return dict(zip(bags.indices.tolist(), bags.data.tolist(), strict=True))


def fact(profile, name):
    return float(profile.facts[0, FACTS.index(name)])


def test_values_and_the_members_of_lists_are_items(sketch):
    found = sketch(genre=["Drama, Comedy", "horror"])["genre"]
    expected = hash_terms(["drama, comedy", "drama", "comedy", "horror"]).tolist()
    assert list_terms(found, "items") == dict.fromkeys(expected, 0.5)


def test_short_numbers_are_no_items_but_long_codes_are(sketch):
    found = sketch(code=["12", "7.5", "9780306406157"])["code"]
    assert list(list_terms(found, "items")) == hash_terms(["9780306406157"]).tolist()


def test_words_are_counted_once_a_cell(sketch):
    found = sketch(title=["night night", "night day"])["title"]
    night, day = hash_terms(["night", "day"]).tolist()
    assert list_terms(found, "words") == {night: 1.0, day: 0.5}


def test_trigrams_do_not_tell_digits_apart(sketch):
    first, second = (list_terms(sketch(code=[text])["code"], "grams") for text in ("a12b", "A98B"))
    assert first == second
    assert len(first) == 4


def test_numbers_are_kept_as_quantiles(sketch):
    found = sketch(votes=[str(number) for number in range(101)], genre=["drama", "comedy"])
    np.testing.assert_allclose(found["votes"].quantiles[0], LEVELS * 100)
    assert fact(found["votes"], "quantities") == fact(found["votes"], "whole") == 1
    assert np.isnan(found["genre"].quantiles).all()


def test_facts_tell_kinds_shapes_and_diversity(sketch):
    found = sketch(price=["$5", "$6", "$7", "$7"], year=["1999", "2001", "2001", "2001"], flag=["true"] * 4)
    assert fact(found["price"], "money") == 1
    assert (fact(found["year"], "years"), fact(found["price"], "years")) == (1, 0)
    assert (fact(found["flag"], "entropy"), fact(found["flag"], "distinct")) == (0, 0.25)
    assert fact(found["flag"], "letters") == fact(found["year"], "digits") == 1


def test_text_beyond_ascii_is_read(sketch):
    found = sketch(title=["Амели", "千と千尋の神隠し", "año"])["title"]
    assert fact(found, "letters") == pytest.approx(1)
    assert found.bags["words"].nnz == 3


def test_the_order_of_rows_does_not_matter(sketch):
    values = [f"film {number}" for number in range(30)]
    first, second = sketch(title=values)["title"], sketch(title=values[::-1])["title"]
    assert {name: list_terms(first, name) for name in first.bags} == {
        name: list_terms(second, name) for name in second.bags
    }
    np.testing.assert_allclose(first.facts, second.facts, rtol=1e-6)


def test_which_cells_are_read_depends_on_their_rows_alone(reference_navi):
    rows = [{"title": f"film {number}"} for number in range(50)]
    drawn = []
    for each in (rows, rows[::-1]):
        encoded = reference_navi.encode({"a": each})
        drawn.append(encoded.values.take(pa.array(sample_cells(encoded, np.arange(50), 9).value)).to_pylist())
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 9


def test_profiles_stand_in_the_order_of_the_columns(profiles, films):
    assert profiles.tables == tuple(films.tables[number] for number in films.arrays.column_table)
    assert profiles.headers[0] == films.headers[int(films.arrays.column_header[0])].as_py()
    assert len(profiles) == 15


def assert_same(first, second, tolerance=0.0):
    assert (first.tables, first.headers, first.attributes) == (second.tables, second.headers, second.attributes)
    for name in ("cells", "quantiles", "facts"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert first.bags.keys() == second.bags.keys()
    for name, bags in first.bags.items():
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(bags, part), getattr(second.bags[name], part))
    assert first.states.keys() == second.states.keys()
    for name, state in first.states.items():
        np.testing.assert_allclose(state, second.states[name], atol=tolerance)


def test_profiles_survive_saving(profiles, tmp_path):
    profiles.save(tmp_path)
    assert_same(ColumnProfiles.load(tmp_path), profiles, tolerance=2e-3)


def test_taking_and_joining_are_inverse(profiles):
    assert_same(join_profiles([profiles.take(np.arange(0, 6)), profiles.take(np.arange(6, 15))]), profiles)


def test_a_folder_without_profiles_is_an_error(tmp_path):
    with pytest.raises(ModelError, match=r"Cannot read .*columns\.arrow"):
        ColumnProfiles.load(tmp_path)


def test_another_format_is_an_error(profiles, tmp_path):
    profiles.save(tmp_path)
    file = tmp_path / "columns.arrow"
    table = pa.ipc.open_file(file.read_bytes()).read_all().replace_schema_metadata({"format": "99"})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ModelError, match="has format 99"):
        ColumnProfiles.load(tmp_path)


def test_only_the_given_rows_have_a_part(reference_navi, films):
    found = profile_columns(
        reference_navi.runner, films, np.flatnonzero(films.arrays.row_table == 0), rows_per_column=4
    )
    other = films.arrays.column_table != 0
    assert (found.cells[other] == 0).all()
    assert (found.states["header"][other] == 0).all()
    assert (found.cells[~other] == 60).all()


def test_no_rows_leave_the_headers_alone(films):
    found = sketch_columns(films, np.arange(0))
    assert (found.cells == 0).all()
    assert found.bags["items"].nnz == 0
    assert found.bags["header_words"].nnz > 0


def test_a_trained_model_knows_the_columns_of_its_corpus(model_dir, corpus_dir):
    from navi.corpus import Corpus

    known = ColumnProfiles.load(model_dir)
    assert set(known.tables) == set(Corpus.open(corpus_dir).tables)
    assert (known.cells > 0).all()
    assert set(known.states) == set(STATES)


def test_informed_states_are_the_means_of_the_embeddings(reference_navi, films):
    arrays = films.arrays.take_rows(np.arange(0, 150, 10))
    states = average_states(reference_navi.runner, arrays)
    assert {state.shape for state in states.values()} == {(arrays.num_columns, reference_navi.hidden_size)}
    embedded = reference_navi.runner.embed(arrays, np.arange(arrays.num_rows), parts=("header_states",))
    for column in range(arrays.num_columns):
        mean = embedded["header_states"][arrays.cell_column == column].mean(axis=0)
        np.testing.assert_allclose(states["header"][column], mean, atol=1e-5)


def test_blind_states_do_not_depend_on_the_own_header(reference_navi):
    rows = [{"title": f"film {number}"} for number in range(6)]
    renamed = [{"price": row["title"]} for row in rows]
    first, second = (
        average_states(reference_navi.runner, reference_navi.encode({"a": each}).arrays) for each in (rows, renamed)
    )
    for name in ("blind_header", "blind_value"):
        np.testing.assert_allclose(first[name], second[name], atol=1e-5)
    assert np.abs(first["header"] - second["header"]).max() > 0.01


def test_columns_of_one_attribute_share_its_vector(profiles, place):
    amber, birch = (profiles.states["attribute"][place[table, "title"]] for table in ("amber", "birch"))
    np.testing.assert_allclose(amber, birch, atol=1e-6)


def test_a_few_rows_are_added_for_sparse_columns(reference_navi):
    rows = [{"title": f"film {number}"} for number in range(200)]
    rows[150]["award"] = "star"
    chosen = choose_rows(reference_navi.encode({"a": rows}), np.arange(200), 10)
    assert 150 in chosen.tolist()
    assert len(chosen) <= 20


def expect(navi, arrays, *hidden, num_masks=1):
    """Return the log-likelihoods of tokens where some columns' headers are hidden."""
    hidden_K = np.isin(np.arange(arrays.num_columns), hidden)
    return average_columns(navi.runner, arrays, hidden_K, num_masks=num_masks, parts=("tokens",))["tokens"]


def test_each_mask_of_one_row_has_a_distribution_over_all_tokens(reference_navi, films):
    tokens = expect(reference_navi, films.arrays.take_rows(np.array([0])), 0, 2, num_masks=2)
    assert tokens.shape == (2, 2 * reference_navi.runner.model.config.vocab_size)
    np.testing.assert_allclose(np.exp(tokens).reshape(4, -1).sum(axis=1), 1, atol=1e-4)


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


def test_features_are_symmetric(features):
    for name, matrix in features.items():
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-5, err_msg=name)


def test_a_column_is_like_itself(features, profiles):
    for name in ("header_words", "header_grams", "attribute", "header_state", "grams", "kind", "shape"):
        np.testing.assert_allclose(np.diag(features[name]), 1.0, atol=1e-4, err_msg=name)
    years = [n for n, header in enumerate(profiles.headers) if header in ("year", "date")]
    np.testing.assert_allclose(features["numbers"][years, years], 1.0, atol=1e-6)


@pytest.mark.parametrize("name", ["contained", "frequent", "words"])
def test_shared_values_are_seen_whatever_the_headers(features, place, name):
    genre, kind = place["amber", "genre"], place["cedar", "kind"]
    others = [number for key, number in place.items() if key[0] == "cedar" and key[1] != "kind"]
    assert features[name][genre, kind] > features[name][genre, others].max()
    assert features["header_words"][genre, kind] == 0


@pytest.mark.parametrize("name", ["numbers", "scale"])
def test_numbers_are_compared_by_range(features, place, name):
    year, votes = place["amber", "year"], place["amber", "votes"]
    assert features[name][year, place["cedar", "date"]] > features[name][year, place["cedar", "rating"]] + 0.5
    assert features[name][votes, place["cedar", "rating"]] > features[name][votes, place["cedar", "date"]] + 0.5


def test_headers_that_share_a_table_are_rivals(features, place):
    assert features["together"][place["amber", "title"], place["birch", "year"]] < 0
    assert features["together"][place["amber", "title"], place["birch", "title"]] == 0
    assert features["together"][place["amber", "title"], place["cedar", "film"]] == 0


def test_members_of_one_list_and_headers_never_met_are_no_rivals(profiles):
    five = replace(profiles.take(np.arange(5)), headers=("star1", "star2", "title", "year", "votes"))
    found = compare(five, five)["together"]
    assert found[0, 1] == 0
    assert found[0, 2] < 0
    unheard = replace(profiles.take(np.arange(1)), headers=("unheard of",))
    assert compare(unheard, profiles)["together"].max() == 0


@pytest.mark.parametrize("written", ["Title:", "titles", "TITLE(S)"])
def test_headers_spelled_alike_are_equal_whatever_a_model_makes_of_their_signs(profiles, place, written):
    headers = tuple(written if header == "title" else header for header in profiles.headers)
    states = {**profiles.states, "attribute": profiles.states["attribute"][::-1]}
    found = compare(replace(profiles, headers=headers, states=states), profiles)["attribute"]
    assert found[place["amber", "title"], place["birch", "title"]] == pytest.approx(1.0, abs=1e-5)
    assert found[place["amber", "title"], place["birch", "year"]] < 1


def test_headers_without_words_are_not_equal(profiles):
    signs = replace(profiles.take(np.arange(2)), headers=("?", "?"))
    assert compare(signs, signs)["attribute"][0, 1] < 1


def test_a_column_without_values_is_like_none_by_values(reference_navi, profiles):
    empty = profile_columns(reference_navi.runner, reference_navi.encode({"a": [{"title": "x"}]}), np.arange(0))
    found = compare(empty, profiles)
    for name in ("contained", "shared", "frequent", "words", "grams", "numbers", "blind_header", "blind_value"):
        assert (found[name] == 0).all(), name


def test_the_same_column_scores_above_others(profiles):
    scores = DEFAULT_SCORER.score(profiles, profiles, Background([profiles]))
    np.testing.assert_allclose(scores.total, scores.headers + scores.values)
    assert (np.diag(scores.total) >= scores.total.max(axis=1) - 1e-4).all()


def test_a_useless_header_says_nothing(profiles):
    nameless = replace(profiles, headers=tuple(f"col_{number}" for number in range(len(profiles))))
    scores, named = (DEFAULT_SCORER.score(each, profiles, Background([profiles])) for each in (nameless, profiles))
    assert (scores.headers == 0).all()
    np.testing.assert_allclose(scores.values, named.values, atol=1e-5)


def test_a_column_without_values_is_judged_by_its_header(profiles):
    bare = replace(profiles, cells=np.zeros_like(profiles.cells))
    scores = DEFAULT_SCORER.score(bare, profiles, Background([profiles]))
    assert (scores.values == 0).all()
    assert np.ptp(scores.headers) > 1


def test_many_columns_score_as_few_do(profiles, monkeypatch):
    background = Background([profiles])
    whole = DEFAULT_SCORER.score(profiles, profiles, background)
    monkeypatch.setattr("navi.columns.scorer.BLOCK", 4)
    np.testing.assert_allclose(DEFAULT_SCORER.score(profiles, profiles, background).total, whole.total, atol=1e-5)


def test_weights_and_biases_are_what_is_added():
    scorer = PairScorer(weights={"words": 2.0, "attribute": 3.0}, header_bias=-1.0, value_bias=-0.5)
    pair = np.zeros((len(FEATURES), 1, 1), np.float32)
    pair[FEATURES.index("words")], pair[FEATURES.index("attribute")] = 0.5, 1.0
    headers, values = scorer.weigh(pair)
    assert (headers.item(), values.item()) == (2.0, 0.5)


def test_a_scorer_survives_saving_and_the_default_serves_without_one(tmp_path):
    assert PairScorer.load(tmp_path) == DEFAULT_SCORER
    scorer = replace(DEFAULT_SCORER, temperature=1.7)
    scorer.save(tmp_path)
    assert PairScorer.load(tmp_path) == scorer


@pytest.mark.parametrize("content", ["no json", json.dumps({"weights": {}, "surprise": 1})])
def test_a_file_that_is_no_scorer_is_an_error(tmp_path, content):
    (tmp_path / "scorer.json").write_text(content)
    with pytest.raises(ModelError, match=r"Cannot read .*scorer\.json"):
        PairScorer.load(tmp_path)


@pytest.fixture(scope="module")
def many(reference_navi):
    """Ten tables about films, half of them with other headers."""
    tables = {f"t{n}": draw(n, 40, SAME if n % 2 else OTHER) for n in range(10)}
    return profile_columns(reference_navi.runner, reference_navi.encode(tables), rows_per_column=3)


@pytest.fixture(scope="module")
def scorer(many):
    return fit_scorer(many)


def test_values_alone_find_columns_of_one_meaning_under_different_headers(many, scorer):
    scores = scorer.score(many, many, Background([many])).values
    odd, even = ([n for n, table in enumerate(many.tables) if int(table[1:]) % 2 == rest] for rest in (1, 0))
    for number in odd:
        best = max(even, key=lambda other: scores[number, other])
        assert many.headers[best] == OTHER[many.headers[number]]


def test_headers_are_weighed_by_what_values_say_of_them(scorer):
    assert scorer.weights["attribute"] + scorer.weights["header_state"] > 0
    assert min(scorer.weights.values()) >= 0
    assert {name: scorer.weights[name] for name in SPELLING_WEIGHTS} == dict(SPELLING_WEIGHTS)


def test_what_spelling_says_is_not_counted_twice(many, scorer, monkeypatch):
    monkeypatch.setattr("navi.columns.scorer.SPELLING_WEIGHTS", {"header_words": 0.0})
    alone = fit_scorer(many)
    fitted = ("attribute", "header_state")
    assert sum(scorer.weights[name] for name in fitted) < sum(alone.weights[name] for name in fitted)


def test_fitting_is_the_same_each_time(many, scorer):
    assert fit_scorer(many) == scorer


def test_few_tables_leave_the_default(many):
    assert fit_scorer(many.take(np.arange(8))) == DEFAULT_SCORER
    assert fit_scorer(many.take(np.arange(0))) == DEFAULT_SCORER


def test_names_are_surer_where_no_other_header_has_the_same_values(many, scorer):
    odd = many.take(np.array([n for n, table in enumerate(many.tables) if int(table[1:]) % 2]))
    assert fit_scorer(odd).temperature < scorer.temperature


def test_values_that_seldom_agree_with_headers_do_not_teach_what_headers_say(many, scorer, monkeypatch):
    monkeypatch.setattr("navi.columns.scorer.LEAST_AGREEMENT", 1.1)
    untaught = fit_scorer(many)
    assert untaught.header_bias == DEFAULT_SCORER.header_bias != scorer.header_bias
    assert untaught.weights["attribute"] == DEFAULT_SCORER.weights["attribute"] != scorer.weights["attribute"]
    assert untaught.value_bias == scorer.value_bias
