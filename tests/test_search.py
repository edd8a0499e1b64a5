"""Nearest rows across tables with different schemas: `Navi.search`, indexes, and `navi search`."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.errors import ConfigError, MissingExtraError, ModelError, TableError
from navi.tables import find_sources
from navi.verbs import Navi, build_index, embed_files, index_frames, index_vectors, open_index, parse_like
from navi.verbs.embed import normalize_rows
from navi.verbs.vector_lists import build_lists, find_nearest, read_lists, rerank


@pytest.fixture(scope="module")
def frames(world):
    """The first rows of each catalogue."""
    return {catalogue.name: catalogue.rows[:25] for catalogue in world.catalogues}


@pytest.fixture(scope="module")
def index(navi, frames):
    """An index of these rows."""
    return index_frames(navi, frames)


def places_of(found):
    return [(each.table, each.row) for each in found]


def test_a_row_is_nearest_to_itself_with_full_confidence(index, frames):
    for table, rows in frames.items():
        best = index.search(rows[3], k=1)[0][0]
        assert (best.table, best.row) == (table, 4)
        assert best.confidence == pytest.approx(1, abs=1e-3)


def test_neighbours_fall_in_confidence_and_say_what_it_is_made_of(index, frames):
    found = index.search(next(iter(frames.values()))[0], k=20)[0]
    confidences = [each.confidence for each in found]
    assert confidences == sorted(confidences, reverse=True)
    weight = index.similarity_weight
    for each in found:
        assert 0 <= each.confidence <= 1
        assert each.confidence == pytest.approx(weight * each.similarity + (1 - weight) * each.overlap, abs=1e-5)


def test_the_same_film_is_found_in_tables_with_other_schemas(index, truth, frames):
    found = {table: [set(places_of(each)) for each in index.search(rows)] for table, rows in frames.items()}
    shared = [
        (other, match + 1) in found[table][row]
        for table in frames
        for other in frames
        if table != other
        for row, match in truth.shared_rows(table, other)
        if row < 25 and match < 25
    ]
    assert len(shared) >= 10
    assert sum(shared) / len(shared) > 0.7


def test_a_few_cells_in_words_find_their_row(index, truth, frames):
    table = next(iter(frames))
    title = next(header for (name, header), concept in truth.concepts.items() if (name, concept) == (table, "title"))
    row = frames[table][7]
    found = index.search(f'{title}="{row[title]}"', k=3)[0]
    assert (table, 8) in places_of(found)
    assert found[0].cells[title]


def test_several_rows_are_answered_in_their_order(index, frames):
    rows = next(iter(frames.values()))[:3]
    together = index.search(rows, k=2)
    assert [places_of(each) for each in together] == [places_of(index.search(row, k=2)[0]) for row in rows]


def test_an_example_row_is_not_among_its_own_neighbours(index, frames):
    table = next(iter(frames))
    found = index.search_row(table, 4, k=5)
    assert len(found) == 5
    assert (table, 4) not in places_of(found)
    assert places_of(found) == places_of(index.search(frames[table][3], k=6)[0])[1:]


def test_more_neighbours_than_rows_are_all_rows_even_without_any_word(index, navi):
    assert len(index.search({"title": "king"}, k=1000)[0]) == len(index.vectors)
    assert navi.search([{"title": "..."}, {"title": "!"}], {"title": "night"}, k=1)[0].overlap == 0


def test_the_model_searches_frames_in_one_call(navi, index, frames):
    table = next(iter(frames))
    assert navi.search(frames, (table, 4), k=3) == index.search_row(table, 4, k=3)
    assert navi.search(frames, "title=night", k=3) == index.search("title=night", k=3)[0]


def test_words_are_compared_without_case_accents_and_signs(navi):
    rows = [{"title": "Amélie!"}, {"title": "The Dark  City"}, {"title": "七人の侍"}, {"title": "1979-05-25"}]
    for like, row in (("amelie", 1), ("DARK", 2), ("七人の侍", 3), ("25/1979", 4)):
        found = navi.search(rows, {"name": like}, k=4)
        assert max(found, key=lambda each: each.overlap).row == row


def test_overlap_is_the_share_of_the_asked_words_and_the_rarer_a_word_the_more_it_counts(navi):
    rows = [{"title": "film night alien"}, {"title": "film night"}, {"title": "film"}, {"title": "film x"}]
    found = {each.row: each.overlap for each in navi.search(rows, {"title": "film night alien"}, k=4)}
    assert found[1] == pytest.approx(1)
    assert 0 < found[2] < 0.5
    assert found[3] == found[4] == 0
    unknown = navi.search(rows, {"title": "night nowhere"}, k=4)
    assert max(each.overlap for each in unknown) < 0.5


@pytest.mark.parametrize("like", [{}, {"title": None}, [{"title": "a"}, {}]])
def test_a_row_without_cells_is_refused(index, like):
    with pytest.raises(TableError, match=r"A row to search for has no cells. Give it at least one"):
        index.search(like)


def test_what_is_not_there_or_out_of_range_is_refused(navi, index, frames):
    with pytest.raises(TableError, match=r"The index has no table 'songs'. It has "):
        index.search_row("songs", 1)
    with pytest.raises(TableError, match="has no row 99"):
        index.search_row(next(iter(frames)), 99)
    with pytest.raises(ConfigError, match="k must be at least 1, got 0"):
        index.search({"title": "a"}, k=0)
    with pytest.raises(ConfigError, match=r"Unknown method 'tree'. Expected one of auto, exact, lists"):
        index_frames(navi, [{"title": "a"}], method="tree")
    with pytest.raises(TableError, match="No row to search in"):
        index_frames(navi, [{"title": None}])


def test_an_approximate_index_finds_what_comparing_with_all_finds(navi, index, frames):
    pytest.importorskip("faiss")
    approximate = index_frames(navi, frames, method="lists")
    assert approximate.method == "lists"
    for rows in frames.values():
        assert places_of(approximate.search(rows[5], k=5)[0]) == places_of(index.search(rows[5], k=5)[0])


def test_without_faiss_the_extra_is_named(navi, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'navi-tables\[index\]'"):
        index_frames(navi, [{"title": "a"}], method="lists")


@pytest.fixture
def files(tmp_path, frames):
    """Two of the tables as files."""
    (tmp_path / "in").mkdir()
    for name in list(frames)[:2]:
        (tmp_path / "in" / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in frames[name]))
    return tmp_path / "in"


@pytest.mark.parametrize("method", ["exact", "lists"])
def test_an_index_on_disk_answers_as_one_in_memory(navi, frames, files, tmp_path, method):
    two = dict(sorted(frames.items(), key=lambda item: item[0] not in [file.stem for file in files.iterdir()])[:2])
    built = build_index(navi, [files], tmp_path / "index", method=method)
    opened = open_index(navi, tmp_path / "index", [files])
    memory = index_frames(navi, dict(sorted(two.items())))
    for row in next(iter(two.values()))[:3]:
        expected = places_of(memory.search(row)[0])
        assert places_of(built.search(row)[0]) == expected
        assert places_of(opened.search(row)[0]) == expected
    assert isinstance(opened.vectors, np.memmap)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "index"]
    assert not (tmp_path / "index" / "scratch").exists()


def test_a_file_that_cannot_be_read_is_left_out_of_an_index_and_said(navi, files, tmp_path):
    (files / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    built = build_index(navi, [files], tmp_path / "index")
    assert len(built.left_out) == 1
    assert "broken.parquet" in built.left_out[0]
    assert built.search("title=king", k=1)[0].rows
    assert open_index(navi, tmp_path / "index", [files]).left_out == built.left_out
    with pytest.raises(TableError, match=r"Cannot read .*broken\.parquet"):
        build_index(navi, [files / "broken.parquet"], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_index_of_other_files_or_another_model_is_refused(navi, files, tmp_path, model_dir, monkeypatch):
    build_index(navi, [files], tmp_path / "index")
    (files / "more.jsonl").write_text('{"title": "king"}\n')
    with pytest.raises(TableError, match="made of other files, or they have changed"):
        open_index(navi, tmp_path / "index", [files])
    assert open_index(navi, tmp_path / "index").search("title=king", k=1)
    other = Navi.from_pretrained(model_dir, device="cpu")
    monkeypatch.setattr(type(other), "fingerprint", "other", raising=False)
    with pytest.raises(ModelError, match=r"was made with another model than .* build it again"):
        open_index(other, tmp_path / "index")


def test_an_index_is_not_built_over_another_or_where_there_is_no_folder(navi, files, tmp_path):
    (tmp_path / "index").mkdir()
    with pytest.raises(ConfigError, match=r"exists. Remove it to build the index again"):
        build_index(navi, [files], tmp_path / "index")
    with pytest.raises(ConfigError, match=r"there is no folder .*nowhere. Make it first"):
        build_index(navi, [files], tmp_path / "nowhere" / "index")


def test_an_index_goes_nowhere_among_its_tables_and_one_that_is_there_is_none_of_them(navi, files, tmp_path):
    with pytest.raises(ConfigError, match=r"index: it would lie among the tables of .*in. Write it elsewhere"):
        build_index(navi, [files], files / "index")
    build_index(navi, [files], tmp_path / "index").folder.rename(files / "index")
    assert open_index(navi, files / "index", [files]).search("title=king", k=1)
    found = find_sources(files)
    assert {source.path.parent for source in found.sources} == {files}
    assert set(dict(found.skipped).values()) == {"part of an index"}
    with pytest.raises(TableError, match=r"No tables in .*index: all files are part of an index"):
        find_sources(files / "index")


def test_what_is_no_index_is_refused(navi, files, tmp_path):
    with pytest.raises(ConfigError, match=r"is not a search index: it has no index.json"):
        open_index(navi, files)
    build_index(navi, [files], tmp_path / "index")
    facts = json.loads((tmp_path / "index" / "index.json").read_text())
    del facts["checksum"]
    for changes, message in (
        ({"format_version": 9}, "has format version 9"),
        ({"method": []}, "method must be one of"),
        ({"num_rows": -(1 << 50)}, "Cannot read the index"),
    ):
        (tmp_path / "index" / "index.json").write_text(json.dumps(facts | changes))
        with pytest.raises(ConfigError, match=message):
            open_index(navi, tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text("{")
    with pytest.raises(ConfigError, match=r"Cannot read .*index.json"):
        open_index(navi, tmp_path / "index")


@pytest.mark.parametrize("name", ["vectors.f16", "rows-0.arrow", "words.npy", "index.json"])
def test_a_changed_byte_of_an_index_is_seen(navi, files, tmp_path, name):
    build_index(navi, [files], tmp_path / "index")
    file = tmp_path / "index" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=r"is not as it was written|Cannot read .*index\.json"):
        open_index(navi, tmp_path / "index")


def test_several_that_build_the_same_index_at_once_all_search_it(navi, files, tmp_path):
    begun, built = [], []

    def build_another(table, count):  # the last to begin is the first to be done
        if len(begun) < 3:
            begun.append(table)
            built.append(build_index(navi, [files], tmp_path / "index", progress=build_another))

    build_another("", 0)
    assert [len(index.search("title=night", k=2)[0]) for index in built] == [2, 2, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "index"]


def test_a_failed_build_leaves_nothing_behind(navi, files, tmp_path):
    def stop(table, count):
        raise TableError("injected")

    with pytest.raises(TableError, match="injected"):
        build_index(navi, [files], tmp_path / "index", progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_neighbours_become_frames_and_show_themselves(index):
    found = index.search("title=night", k=2)[0]
    assert found.to_pandas()["row"].tolist() == [each.row for each in found]
    assert found.to_polars().columns == ["table", "row", "confidence", "similarity", "overlap", "cells"]
    assert f"<td>{found[0].table}</td>" in found._repr_html_()


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("title=Alien, year=1979", {"title": "Alien", "year": "1979"}),
        ("title = Alien ,year=1979", {"title": "Alien", "year": "1979"}),
        (
            "title=The Good, the Bad and the Ugly, year=1966",
            {"title": "The Good, the Bad and the Ugly", "year": "1966"},
        ),
        ('title="a=b, c=d", x=1', {"title": "a=b, c=d", "x": "1"}),
        ("title='a, b=c'", {"title": "a, b=c"}),
        (r'title="say \"no\""', {"title": 'say "no"'}),
        ("'made in'=China", {"made in": "China"}),
        ("title=Don't Look Now, plot='it''s", {"title": "Don't Look Now", "plot": "'it''s"}),
        ("cast.0.name=Ann", {"cast.0.name": "Ann"}),
        ("formula=a=b", {"formula": "a=b"}),
        ('{"title": "Alien", "cast": [{"name": "Ann"}]}', {"title": "Alien", "cast": [{"name": "Ann"}]}),
    ],
)
def test_a_row_in_words_is_read_as_it_was_meant(text, cells):
    assert parse_like(text) == cells


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected header=value, such as title=Alien, year=1979"),
        ("=Alien", "expected header=value"),
        ('{"title": ', "as a JSON object"),
    ],
)
def test_a_text_that_is_no_row_is_refused_with_an_example(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_like(text)


headers = st.text("abc_. ", min_size=1).map(str.strip).filter(bool)
values = st.text("ab,='\"\\ ")


@given(st.dictionaries(headers, values, min_size=1))
def test_quoted_cells_come_back_as_they_were_written(cells):
    def quote(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert parse_like(", ".join(f"{header}={quote(value)}" for header, value in cells.items())) == cells


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Two small tables that share two films."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "left.csv").write_text("title,year\nnight king,1999\nday house,2001\nlove war,2010\n")
    (folder / "right.jsonl").write_text(
        '{"movie": "love war", "date": "2010"}\n{"movie": "night king", "date": "1999"}\n{"movie": "dark star"}\n'
    )
    return folder


@pytest.fixture
def search_files(model_dir, navi_command):
    """Run `navi search` with the trained model."""
    return lambda *arguments, code=0: navi_command("search", "--model", model_dir, *arguments, code=code)


def test_the_command_goes_on_without_a_file_that_cannot_be_read(search_files, films, tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    result = search_files(films, tmp_path, "--like", "title=day house")
    assert "left:3" in result.stdout
    assert f"Left out: Cannot read {tmp_path / 'broken.parquet'}" in " ".join(result.stderr.split())


def test_the_command_finds_rows_by_words_or_like_another_row(search_files, films):
    found = json.loads(search_files(films, "--like", "title=day house", "-k", 2, "--json").stdout)
    assert [set(row) for row in found] == [{"table", "row", "confidence", "similarity", "overlap", "cells"}] * 2
    assert (found[0]["table"], found[0]["row"]) == ("left", 3)
    assert found[0]["cells"] == {"title": "day house", "year": "2001"}
    shown = search_files(films, "--like", "title=dark star").stdout
    assert "right:3" in shown
    assert "movie=dark star" in shown
    found = json.loads(search_files(films, "--row", "left:2", "-k", 1, "--json").stdout)
    assert (found[0]["table"], found[0]["row"]) == ("right", 2)


def test_the_command_writes_an_index_and_uses_it_again(search_files, films, tmp_path):
    flags = ("--like", "title=night king", "--json", "--index", tmp_path / "index")
    first = json.loads(search_files(films, *flags).stdout)
    written = (tmp_path / "index" / "index.json").stat().st_mtime_ns
    again = json.loads(search_files(films, *flags).stdout)
    assert (tmp_path / "index" / "index.json").stat().st_mtime_ns == written
    assert [row["cells"] for row in again] == [row["cells"] for row in first]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "navi: Give one of --like ROW and --row TABLE:N.\n"),
        (("--like", "a=b", "--row", "left:2"), "navi: Give one of --like ROW and --row TABLE:N.\n"),
        (("--like", "Alien"), "expected header=value, such as title=Alien, year=1979"),
        (("--row", "middle:2"), "navi: There is no table 'middle'. Expected one of left, right.\n"),
        (("--row", "left:three"), "expected TABLE:N, such as imdb:12"),
        (("--row", ":3"), "expected TABLE:N, such as imdb:12"),
        (("nowhere.csv", "--like", "a=b"), "Cannot read"),
    ],
)
def test_the_command_refuses_a_mistyped_question_before_any_work(flags, message, films, tmp_path, navi_command):
    result = navi_command("search", "--model", tmp_path / "no model", films, *flags, code=2)
    assert message in result.stderr
    assert "No model" not in result.stderr


@pytest.fixture
def vectors(navi, files, tmp_path):
    """Vectors of two tables, each in a Parquet file, and of both in a folder of shards."""
    for file in sorted(files.iterdir()):
        embed_files(navi, [file], tmp_path / f"{file.stem}.parquet")
    embed_files(navi, [files], tmp_path / "shards")
    return sorted(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize("method", ["exact", "lists"])
def test_a_file_of_vectors_is_searched_and_added_to_as_if_all_had_been_there(navi, frames, vectors, tmp_path, method):
    pytest.importorskip("faiss")
    one = index_vectors(navi, vectors[0], tmp_path / "index", method=method)
    with (tmp_path / "index" / "vectors.f16").open("ab") as file:
        file.write(b"of a process that was killed")
    added = open_index(navi, tmp_path / "index").add(vectors[1])
    both = index_vectors(navi, tmp_path / "shards", tmp_path / "both", method=method)
    assert len(one.rows) + len(frames[vectors[1].stem]) == len(added.rows) == len(both.rows)
    assert added.rows.to_pylist() == both.rows.to_pylist()
    for number, file in enumerate(vectors):
        asked = frames[file.stem][3 + number]
        found = [index.search(asked, k=3)[0] for index in (added, both)]
        assert [places_of(answer)[0] for answer in found] == [(file.stem, 4 + number)] * 2
        assert found[0][0].confidence == found[0][0].similarity == pytest.approx(1, abs=2e-3)
        beside = places_of(added.search_row(file.stem, 4 + number, k=2))
        assert beside == places_of(added.search(asked, k=3)[0])[1:]
    kept = sorted(file.name for file in (tmp_path / "index").glob("nearest*"))
    assert kept == (["nearest-1.faiss"] if method == "lists" else [])


def test_a_lance_dataset_of_vectors_is_searched_as_the_parquet_file_it_was_made_of(navi, frames, vectors, tmp_path):
    if find_spec("lance") is None:
        with pytest.raises(MissingExtraError, match="A Lance dataset needs an extra"):
            index_vectors(navi, tmp_path / "rows.lance", tmp_path / "index")
        pytest.skip("needs pylance")
    import lance

    lance.write_dataset(pq.read_table(vectors[0]), str(tmp_path / "rows.lance"), max_rows_per_file=5)
    index = index_vectors(navi, tmp_path / "rows.lance", tmp_path / "index")
    assert index.rows.to_pylist() == index_vectors(navi, vectors[0], tmp_path / "other").rows.to_pylist()
    found = index.add(vectors[1]).search(frames[vectors[0].stem][3], k=1)[0]
    assert places_of(found) == [(vectors[0].stem, 4)]


def test_what_others_added_since_an_index_was_opened_stays_when_more_is_added(navi, vectors, tmp_path):
    opened = index_vectors(navi, vectors[0], tmp_path / "index")
    open_index(navi, tmp_path / "index").add(vectors[1])
    found = opened.add(vectors[0]).rows["table"].to_pylist()
    assert list(dict.fromkeys(found)) == [file.stem for file in vectors]
    assert found[: len(opened.rows)] == found[-len(opened.rows) :]


def test_the_lists_find_95_of_100_nearest_in_at_most_64_bytes_a_vector(tmp_path):
    faiss = pytest.importorskip("faiss")
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((200, 32)).astype(np.float32)
    vectors = normalize_rows(centres[draw.integers(0, 200, 8000)] + draw.standard_normal((8000, 32), np.float32))
    lists = build_lists(vectors)
    assert lists.code_size + 8 <= 64
    assert lists.nprobe < lists.nlist
    asked = normalize_rows(centres[:50] + draw.standard_normal((50, 32), np.float32))
    faiss.write_index(lists, str(tmp_path / "lists"))
    hits = 0
    for query, exact in zip(asked, find_nearest(vectors, asked, 10), strict=True):
        nearest, _ = rerank(read_lists(tmp_path / "lists"), vectors, query, 10)
        hits += len(set(nearest) & set(exact))
    assert hits >= 0.95 * 500


def test_vectors_of_another_model_kind_or_writer_and_damaged_indexes_are_refused(navi, files, vectors, tmp_path):
    with pytest.raises(TableError, match=r"is not a Parquet file of vectors that `navi embed` wrote"):
        index_vectors(navi, next(files.iterdir()), tmp_path / "index")
    index = index_vectors(navi, vectors[0], tmp_path / "index")
    embed_files(navi, [files], tmp_path / "cells.parquet", kind="segments")
    with pytest.raises(ConfigError, match="has vectors of segments; rows are sought among rows"):
        index_vectors(navi, tmp_path / "cells.parquet", tmp_path / "cells")
    with pytest.raises(ConfigError, match="have another kind than those of"):
        index.add(tmp_path / "cells.parquet")
    (tmp_path / "index" / "vectors.f16").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"Cannot read the index in .* Remove the index and build it again"):
        open_index(navi, tmp_path / "index")
    with pytest.raises(ConfigError, match=r"exists\. Remove it"):
        index_vectors(navi, vectors[0], tmp_path / "index")


def test_the_command_searches_a_file_of_vectors(navi_command, model_dir, frames, vectors):
    asked = json.dumps(frames[vectors[0].stem][3])
    said = navi_command("search", "--model", model_dir, vectors[0], "--like", asked, "-k", 2, "--json").stdout
    assert [(json.loads(said)[0]["table"], json.loads(said)[0]["row"])] == [(vectors[0].stem, 4)]
