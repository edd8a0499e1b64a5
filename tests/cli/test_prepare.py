from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.fixture
def shop(tmp_path):
    """A folder with a table that has two broken lines, and a file that is no table."""
    folder = tmp_path / "shop"
    folder.mkdir()
    good = [json.dumps({"price": str(n % 3), "name": f"red {n}"}) for n in range(20)]
    (folder / "shop.jsonl").write_text("\n".join(["{broken", *good, "[1]"]) + "\n")
    (folder / "notes.docx").write_text("no table")
    return folder


def test_the_summary_adds_up_and_names_the_first_places(shop, tmp_path, tiny_backbone, navi_command):
    out = tmp_path / "my corpus"
    told = navi_command("prepare", shop, "-o", out, "--backbone", tiny_backbone, "--workers", 1).stdout
    assert "22 rows read, 20 kept" in told
    assert "2 dropped" in told
    assert "1 row: broken row" in told
    assert "shop.jsonl:1" in told
    assert "1 row: not an object" in told
    assert "shop.jsonl:22" in told
    assert "notes.docx" in told
    assert "corpus.json" in told
    assert f"navi pretrain '{out}' -o " in told.replace("\n", "")


def test_json_tells_the_same_to_a_program(shop, tmp_path, tiny_backbone, navi_command):
    out = tmp_path / "corpus"
    result = navi_command("prepare", shop, "-o", out, "--backbone", tiny_backbone, "--workers", 1, "--json")
    told = json.loads(result.stdout)
    assert told["corpus"] == str(out)
    assert told["totals"]["read"] == 22
    assert told["dropped"] == {"broken row": 1, "not an object": 1}
    assert sum(told["splits"].values()) == 20


def test_quiet_says_nothing(shop, tmp_path, tiny_backbone, navi_command):
    result = navi_command("prepare", shop, "-o", tmp_path / "corpus", "--backbone", tiny_backbone, "--quiet")
    assert result.output == ""


def test_flags_reach_the_corpus(tables, settings_file, tmp_path, navi_command):
    flags = ("--seed", 3, "--unseen-tables", 1, "--total-rows", 40, "--max-value-tokens", 4, "--workers", 1)
    result = navi_command("prepare", tables, "-o", tmp_path / "corpus", "--config", settings_file, *flags, "--json")
    assert json.loads(result.stdout)["totals"]["rows"] == 40
    assert json.loads(result.stdout)["splits"]["unseen"] > 0
    settings = json.loads((tmp_path / "corpus" / "corpus.json").read_text())["settings"]
    assert (settings["seed"], settings["max_value_tokens"]) == (3, 4)


def test_the_largest_tables_may_be_chosen_and_attributes_given(tables, settings_file, tmp_path, navi_command):
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps({"headers": {"no such header": "x"}, "tables": {}}))
    flags = ("--largest-tables", 1, "--attributes", mapping)
    told = navi_command("prepare", tables, "-o", tmp_path / "corpus", "--config", settings_file, *flags).stdout
    assert "1 table" in told
    assert "table not among the largest" in told
    assert "no table has the header 'no such header'" in told


def test_strict_makes_the_first_loss_an_error_and_writes_nothing(shop, tmp_path, tiny_backbone, navi_command):
    flags = ("--backbone", tiny_backbone, "--strict")
    result = navi_command("prepare", shop, "-o", tmp_path / "corpus", *flags, code=2)
    assert result.stderr.startswith("navi: ")
    assert "shop.jsonl:1: broken row" in result.stderr
    assert not (tmp_path / "corpus").exists()


def test_a_corpus_is_replaced_only_when_asked(shop, corpus, tiny_backbone, tmp_path, navi_command):
    out = tmp_path / "corpus"
    navi_command("prepare", shop, "-o", out, "--backbone", tiny_backbone)
    assert "already" in navi_command("prepare", shop, "-o", out, "--backbone", tiny_backbone, code=2).stderr
    navi_command("prepare", shop, "-o", out, "--backbone", tiny_backbone, "--overwrite")


def test_a_backbone_that_is_none_is_a_users_mistake(shop, tmp_path, navi_command, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = navi_command("prepare", shop, "-o", tmp_path / "corpus", "--backbone", "no/such", code=2)
    assert "Cannot find the backbone 'no/such'" in result.stderr


def test_the_output_must_be_named(shop, navi_command):
    assert "Missing option '--out'" in navi_command("prepare", shop, code=2).stderr


def test_preparing_by_a_settings_file_needs_no_torch(shop, tmp_path, settings_file):
    arguments = ["prepare", str(shop), "-o", str(tmp_path / "corpus"), "--config", str(settings_file), "--workers", "1"]
    run = f"from navi.cli import app; app({arguments!r}, standalone_mode=False)"
    code = f"import sys; {run}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "False"
