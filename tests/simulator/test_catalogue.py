"""Catalogues: rows, gaps, slips and overlap of a simulated world."""

from collections import Counter, defaultdict

import pytest

from navi.errors import ConfigError
from navi.simulator import SimulatorConfig, catalogue, simulate
from navi.simulator.catalogue import Simulation, misspell
from navi.simulator.cells import flatten

SMALL = SimulatorConfig(rows_per_catalogue=60, gap_rate=0.1)


@pytest.fixture(scope="module")
def world():
    return simulate(SMALL)


def leaves(node, header=""):
    """Header and text of each leaf of a row."""
    if isinstance(node, dict):
        return [leaf for key, cell in node.items() for leaf in leaves(cell, f"{header}.{key}" if header else key)]
    return list(flatten(header, node))


def test_the_rows_add_up_and_no_catalogue_is_empty(world):
    sizes = [len(table.rows) for table in world.catalogues]
    assert sum(sizes) == 14 * 60
    assert min(sizes) >= 1
    assert len(set(sizes)) > 5


def test_every_row_has_a_film_and_no_catalogue_repeats_one(world):
    for table in world.catalogues:
        assert len(table.row_films) == len(set(table.row_films)) == len(table.rows)


def test_films_are_in_several_catalogues(world):
    counts = Counter(film for table in world.catalogues for film in table.row_films)
    assert sum(count > 1 for count in counts.values()) > 0.5 * len(counts)


def test_the_headers_of_the_rows_are_those_of_the_concepts(world):
    for table in world.catalogues:
        seen = {header for row in table.rows for header, _ in leaves(row)}
        assert seen == table.concepts.keys(), table.name


def test_a_gap_is_absent_from_its_row_and_its_text_is_known(world):
    for table in world.catalogues:
        assert table.gaps
        for (row, header), text in table.gaps.items():
            assert header not in dict(leaves(table.rows[row]))
            assert text.strip()


def test_gaps_fill_in_to_the_world_without_gaps():
    full = simulate(SimulatorConfig(rows_per_catalogue=60, gap_rate=0.0, typo_rate=0.0))
    holed = simulate(SimulatorConfig(rows_per_catalogue=60, gap_rate=0.3, typo_rate=0.0))
    for whole, table in zip(full.catalogues, holed.catalogues, strict=True):
        assert not whole.gaps
        for place, (complete, row) in enumerate(zip(whole.rows, table.rows, strict=True)):
            missing = {header: text for (number, header), text in table.gaps.items() if number == place}
            assert dict(leaves(row)) | missing == dict(leaves(complete))


def test_the_gap_rate_is_about_the_share_of_gaps(world):
    gaps = sum(len(table.gaps) for table in world.catalogues)
    cells = sum(len(leaves(row)) for table in world.catalogues for row in table.rows)
    assert 0.05 < gaps / (gaps + cells) < 0.12


def test_slips_touch_names_and_titles_alone():
    clean = simulate(SimulatorConfig(rows_per_catalogue=60, typo_rate=0.0))
    sloppy = simulate(SimulatorConfig(rows_per_catalogue=60, typo_rate=0.1))
    changed = Counter()
    for table, other in zip(clean.catalogues, sloppy.catalogues, strict=True):
        for row, worse in zip(table.rows, other.rows, strict=True):
            pairs = zip(leaves(row), leaves(worse), strict=True)
            changed.update(table.concepts[header] for (header, text), (_, slipped) in pairs if text != slipped)
    assert changed.keys() == {
        *("title", "original_title", "director", "writer", "composer", "actor", "studio", "distributor", "location"),
    }


@pytest.mark.parametrize(("bits", "text"), [(0, "Hrbour"), (1, "Haarbour"), (2, "Hrabour"), (3, "Habour")])
def test_a_slip_drops_doubles_or_swaps_a_letter(bits, text):
    assert misspell("Harbour", bits) == text


def test_a_slip_stays_within_a_word():
    assert misspell("X 2", 5) == "X 2"
    assert {misspell("A Bc", bits) for bits in range(30)} == {"A Bc"}


def test_the_same_seed_gives_the_same_world_and_another_gives_another(world):
    assert simulate(SMALL) == world
    other = simulate(SimulatorConfig(rows_per_catalogue=60, gap_rate=0.1, seed=1))
    assert other.catalogues[0].rows != world.catalogues[0].rows


def test_the_size_of_a_block_changes_nothing(world, monkeypatch):
    monkeypatch.setattr(catalogue, "_BLOCK_ROWS", 17)
    assert simulate(SMALL) == world


def test_a_catalogue_shows_films_to_its_taste_first(world):
    tables = dict(zip([table.name for table in world.catalogues], world.catalogues, strict=True))
    table = tables["classic_reels"]
    header = next(header for header, concept in table.concepts.items() if concept in ("release_year", "release_date"))
    years = [int(str(row[header])[-4:]) for row in table.rows if header in row]
    assert max(years) < 1992


def test_the_truth_of_a_world_names_its_catalogues(world):
    table = world.catalogues[1]
    header, concept = next(iter(table.concepts.items()))
    (row, gap), text = next(iter(table.gaps.items()))
    assert world.truth.concepts[table.name, header] == concept
    assert world.truth.gaps[table.name, row, gap] == text
    assert world.truth.films[table.name] == table.row_films


def test_the_language_of_a_row_follows_from_its_country_and_studio():
    scores = []
    for table in simulate(SimulatorConfig()).catalogues:
        headers = {concept: header for header, concept in table.concepts.items()}
        if not headers.keys() >= {"language", "country", "studio"}:
            continue
        wanted = [headers[concept] for concept in ("country", "studio", "language")]
        rows = [dict(leaves(row)) for row in table.rows]
        scores.append(
            count_and_guess([[row[header] for header in wanted] for row in rows if row.keys() >= set(wanted)])
        )
    assert len(scores) >= 3
    for most_frequent, counting in scores:
        assert counting > most_frequent + 0.25
        assert counting > 0.85


def count_and_guess(rows):
    """Accuracy of the most frequent last cell, and of the most frequent beside the same first cells or the first."""
    known, held_out = [row for place, row in enumerate(rows) if place % 5], rows[::5]
    seen = defaultdict(Counter)
    for country, studio, language in known:
        for key in ((), (country,), (country, studio)):
            seen[key][language] += 1
    guess = seen[()].most_common(1)[0][0]
    hits = []
    for country, studio, language in held_out:
        key = next(key for key in ((country, studio), (country,), ()) if key in seen)
        hits.append(seen[key].most_common(1)[0][0] == language)
    return sum(row[2] == guess for row in held_out) / len(held_out), sum(hits) / len(hits)


def test_fewer_films_than_rows_are_refused():
    with pytest.raises(ConfigError, match=r"largest catalogue, got 10 films for \d+ rows\. Ask for more films"):
        Simulation(SimulatorConfig(num_films=10))


def test_a_world_of_one_catalogue_and_one_row_exists():
    world = simulate(SimulatorConfig(num_catalogues=1, rows_per_catalogue=1))
    assert len(world.catalogues[0].rows) == 1
