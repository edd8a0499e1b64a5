"""A disk that is full and rights that are taken away: one line, nothing half-written, and the same command goes on."""

from __future__ import annotations

import random
import shutil

import pytest

TRAIN = "pretrain corpus --from backbone --config fast.toml --max-steps 2 -o out/run"
VERBS = {
    "prepare": ("prepare tables -o out/new --backbone backbone", ""),
    "embed": ("embed tables --model model -o out/rows.parquet --kind segments", ""),
    "impute": ("impute gaps.csv --model model -o out/filled.csv", "--overwrite"),
    "name": ("name tables/films0.jsonl --model model --columns * --apply out/named.csv", ""),
    "match": ("match tables --model model --csv out/columns.csv --mapping out/m.json", "--overwrite"),
    "unify": ("unify tables --model model -o out/all.parquet", ""),
    "search": ("search tables --model model --like title=night --index out/index", ""),
    "pretrain": (TRAIN, "--resume"),
}
"""For each verb the command, and what goes on after it failed."""


@pytest.fixture
def attempt(place, run_process, tally):
    """Run a verb with a fault, and again without; say whether it failed."""

    def run(verb: str, fault: str, **how: object) -> bool:
        command, again = VERBS[verb]
        shutil.rmtree(place / "out", ignore_errors=True)
        (place / "out").mkdir()
        failed = run_process(place, *command.split(), **how)
        (place / "out").chmod(0o755)
        tally[f"{fault}: {verb}, {'refused in one line' if failed.code else 'had room'}"] += 1
        if not failed.code:
            return False
        lines = [line for line in failed.output.splitlines() if line.startswith("navi: ")]
        assert failed.code in (1, 2), failed.output
        assert len(lines) == 1, failed.output
        reasons = ("Permission denied", "File too large", "Operation not permitted")
        assert any(reason in lines[0] for reason in reasons), lines[0]
        found = {path.name for path in (place / "out").rglob("*") if path.is_file()}
        second = run_process(place, *command.split(), *again.split())
        assert second.code == 0, f"{second.output} after {lines[0]} with {found}"
        assert not [path for path in (place / "out").rglob("*") if path.name.startswith(".navi")]
        return True

    return run


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_is_one_line_and_nothing_is_half_written(verb, attempt):
    assert attempt(verb, "disk full", room=300)


@pytest.mark.parametrize("verb", VERBS)
def test_rights_that_are_taken_away_are_one_line(verb, attempt, place):
    assert attempt(verb, "permission revoked", at=0, revoked=place / "out")


@pytest.mark.long
@pytest.mark.parametrize("verb", VERBS)
def test_disks_with_any_room_and_rights_taken_at_any_write_lose_nothing(verb, attempt, place):
    draw = random.Random(verb)
    for _ in range(15):
        attempt(verb, "disk full", room=round(10 ** draw.uniform(1, 5.5)))
        attempt(verb, "permission revoked", at=draw.randrange(12), revoked=place / "out")
