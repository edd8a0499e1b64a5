from __future__ import annotations

from collections import Counter

from navi.cli.read_summary import summarise_manifest


def make_table(name, **entries):
    return {"name": name, "kept": 1, "dropped": {}, "cells": {}, "places": {}, "notes": []} | entries


def make_manifest(*tables, skipped=(), notes=()):
    return {"tables": list(tables), "skipped": list(skipped), "notes": list(notes)}


def test_reasons_are_summed_over_tables_and_show_their_first_places():
    losses = summarise_manifest(
        make_manifest(
            make_table("a", dropped={"broken row": 2}, places={"broken row": ["a:1", "a:5"]}),
            make_table("b", dropped={"broken row": 3}, places={"broken row": ["b:2", "b:3", "b:4"]}),
            make_table("c", cells={"binary value": 1}, places={"binary value": ["c:9"]}),
        )
    )
    assert losses.rows == Counter({"broken row": 5})
    assert losses.list_lines() == [
        "  5 rows: broken row",
        "    a:1",
        "    a:5",
        "    b:2",
        "  1 cell: binary value",
        "    c:9",
    ]


def test_skipped_files_are_named_by_reason():
    entries = [{"path": f"f{number}.txt", "reason": "unknown suffix"} for number in range(5)]
    lines = summarise_manifest(make_manifest(skipped=entries)).list_lines()
    assert lines == ["  5 files skipped: unknown suffix (f0.txt, f1.txt, f2.txt, …)"]


def test_a_table_left_out_says_why_and_a_kept_one_says_nothing():
    kept = make_table("a", notes=["read as latin-1"])
    lost = make_table("b", kept=0, notes=["empty file: nothing in it"])
    assert summarise_manifest(make_manifest(kept, lost)).list_lines() == ["  b: empty file: nothing in it"]


def test_nothing_lost_is_nothing_said():
    assert summarise_manifest(make_manifest(make_table("a"))).list_lines() == []
