"""Bulk work on a cluster of Ray's: the corpora and vectors of the local engine, whoever dies on the way."""

from __future__ import annotations

import os
import signal
import threading
import time

import psutil
import pytest

from navi.corpus import PrepareConfig, prepare
from navi.errors import ConfigError, StorageError
from navi.verbs import embed_files

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    """A local cluster of two workers."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def list_workers():
    return [each for each in psutil.process_iter(["cmdline"]) if "ray::_Worker" in " ".join(each.info["cmdline"] or ())]


def read_files(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.suffix == ".parquet"}


def test_a_corpus_has_the_same_bytes_and_what_fails_is_said_as_here(cluster, toy_tables, tiny_backbone, tmp_path):
    config = PrepareConfig(backbone=str(tiny_backbone), workers=1, max_unknown_share=None)
    here = prepare([toy_tables], tmp_path / "here", config)
    there = prepare([toy_tables], tmp_path / "there", config, engine="ray")
    assert there.fingerprint == here.fingerprint
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "a.csv").write_bytes(b"\x89PNG and no table")
    with pytest.raises(ValueError, match="the file is a PNG image"):
        prepare([tmp_path / "tables"], tmp_path / "corpus", config, engine="ray")
    assert not (tmp_path / "corpus").exists()


def test_a_killed_worker_is_replaced_and_the_shards_are_those_of_one_process(
    cluster, navi, catalogues, tmp_path, monkeypatch
):
    monkeypatch.setattr("navi.verbs.vector_files.GROUP_BYTES", 1)
    embed_files(navi, [catalogues], tmp_path / "here")
    before, killed = {each.pid for each in list_workers()}, []

    def kill():
        end = time.monotonic() + 240
        while not killed and time.monotonic() < end:
            # Midway: something is written, and not all of it.
            if list((tmp_path / "there").glob("*.parquet")):
                for worker in list_workers()[:1]:
                    os.kill(worker.pid, signal.SIGKILL)
                    killed.append(worker.pid)
            time.sleep(0.005)

    killer = threading.Thread(target=kill)
    killer.start()
    done = embed_files(navi, [catalogues], tmp_path / "there", engine="ray")
    killer.join()
    assert killed
    assert not before & set(killed)
    assert read_files(tmp_path / "there") == read_files(tmp_path / "here")
    assert done.num_vectors == sum(report.kept for report in done.reports.values())


def test_vectors_of_a_cluster_go_to_a_folder(navi, catalogues, tmp_path):
    with pytest.raises(ConfigError, match="--engine ray writes a folder of shards"):
        embed_files(navi, [catalogues], tmp_path / "rows.parquet", engine="ray")
    with pytest.raises(ConfigError, match="Unknown engine 'spark'"):
        embed_files(navi, [catalogues], tmp_path / "rows", engine="spark")


def test_a_cluster_that_is_not_there_is_one_line(toy_tables, prepare_config, tmp_path, monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("ray.init", lambda **_: pytest.fail("Ray waits for minutes"))
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(StorageError, match=f"Cannot reach the cluster at RAY_ADDRESS={address}: .*refused"):
            prepare([toy_tables], tmp_path / "corpus", prepare_config, engine="ray")
    assert not (tmp_path / "corpus").exists()


def test_a_node_with_another_version_is_one_line(cluster, toy_tables, prepare_config, tmp_path, monkeypatch):
    monkeypatch.setattr("navi.cluster.VERSION", "0.0.1")
    with pytest.raises(ConfigError, match=r"has NAVI .*, this machine 0\.0\.1: install the same on all"):
        prepare([toy_tables], tmp_path / "corpus", prepare_config, engine="ray")
    assert not (tmp_path / "corpus").exists()
