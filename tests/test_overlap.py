"""Tests of the check that keeps training tables out of a benchmark."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

FILMS = [
    {"title": f"The film {n}", "director": f"Director {n}", "studio": f"Studio {n}", "gross": f"{n}1234567"}
    for n in range(40)
]
RENAMED = [{f"x {header}": value for header, value in reversed(film.items())} for film in FILMS]
SAME_GROSS = [
    {header: value if header == "gross" else f"Not {value}" for header, value in film.items()} for film in FILMS
]
SAME_TITLES = [{"name": film["title"], "stars": f"Star {film['gross']}"} for film in FILMS]
SAME_HEADERS = [{header: f"Not {value}" for header, value in film.items()} for film in FILMS]


@pytest.fixture
def overlap(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return pytest.importorskip("overlap")


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (RENAMED, "same rows"),
        (FILMS[:10], "same rows"),
        (SAME_GROSS, "sisters"),
        (SAME_TITLES, None),
        (SAME_HEADERS, None),
    ],
)
def test_tables_overlap_by_rows_or_by_headers_and_some_values(
    overlap: ModuleType, other: list[dict[str, str]], kind: str | None
) -> None:
    found = overlap.find_overlaps({"films": FILMS}, {"other": other})
    assert [(each.training, each.benchmark, each.kind) for each in found] == (
        [("films", "other", kind)] if kind else []
    )


def test_a_benchmark_refuses_what_was_trained_on_unless_it_was_left_out(overlap: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    lines = [",".join(FILMS[0]), *(",".join(film.values()) for film in FILMS)]
    (folder / "films.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SystemExit, match="1 training tables overlap with this benchmark: open/films"):
        overlap.check_no_overlap(folder, {"films": FILMS})
    left_out = tmp_path / "without.txt"
    left_out.write_text("open/films same rows\n", encoding="utf-8")
    overlap.check_no_overlap(folder, {"films": FILMS}, without=left_out)
