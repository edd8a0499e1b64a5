"""Tables, corpora, runs, models and vectors in an object store: a server of moto's, on loopback, stands for S3."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from threading import Thread
from wsgiref.simple_server import make_server

import numpy as np
import pyarrow.parquet as pq
import pytest

from navi import Navi
from navi.corpus import Corpus, PrepareConfig, prepare
from navi.errors import ConfigError, CorpusError, MissingExtraError, StorageError
from navi.files import is_there, list_folder, open_binary, remove_file, write_file
from navi.storage import list_remote, put
from navi.tables import find_sources, read_table
from navi.training import pretrain
from navi.verbs import embed_files, index_vectors

pytest.importorskip("s3fs")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def server():
    """The address of an S3 server with one bucket, `films`; credentials are in the environment."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    given = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    before = dict(os.environ)
    os.environ |= {**given, "AWS_DEFAULT_REGION": "us-east-1"}
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    s3fs.S3FileSystem().mkdir("films")
    yield given["AWS_ENDPOINT_URL"]
    os.environ.clear()
    os.environ.update(before)
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture(scope="module")
def tables(server, toy_tables):
    """The toy tables in the bucket, as an address."""
    for file in toy_tables.iterdir():
        put(file, Path("s3://films/toys") / file.name)
    return "s3://films/toys"


def test_tables_at_an_address_are_those_of_the_folder(tables, toy_tables):
    here, there = find_sources([toy_tables]).sources, find_sources([tables]).sources
    assert [source.name for source in there] == [source.name for source in here]
    for one, other in zip(here, there, strict=True):
        assert read_table(str(other.path)).text.equals(read_table(one.path).text)
    assert [source.name for source in find_sources([f"{tables}/*2.jsonl"]).sources] == ["films2"]


def test_a_corpus_goes_to_an_address_with_the_same_bytes_and_comes_back(tables, toy_tables, tiny_backbone, tmp_path):
    config = PrepareConfig(backbone=str(tiny_backbone), workers=2, max_unknown_share=None)
    here = prepare([toy_tables], tmp_path / "corpus", config)
    there = prepare([tables], "s3://films/corpus", config)
    assert there.fingerprint == here.fingerprint
    with pytest.raises(CorpusError, match="There is a corpus at s3://films/corpus already"):
        prepare([tables], "s3://films/corpus", config)
    assert prepare([tables], "s3://films/corpus", config, overwrite=True).fingerprint == here.fingerprint
    assert Corpus.open("s3://films/corpus", verify=True).manifest["tables"][0]["path"] == f"{tables}/films0.jsonl"


def test_a_run_that_was_stopped_goes_on_from_the_checkpoint_at_its_address(toy_corpus, make_config, server, tmp_path):
    config = make_config(training={"checkpoint_steps": 3, "max_steps": 6})

    def stop(report):
        if report.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(toy_corpus, "s3://films/run", config, progress=stop)
    assert is_there(Path("s3://films/run/checkpoints/step-000000003/state.json"))
    assert not is_there(Path("s3://films/run/pretrain.json"))
    with pytest.raises(ConfigError, match=r"s3://films/run holds files\. Resume it"):
        pretrain(toy_corpus, "s3://films/run", config)
    resumed = pretrain(toy_corpus, "s3://films/run", config, resume=True)
    plain = pretrain(toy_corpus, tmp_path / "run", config)
    assert str(resumed.path) == "s3:/films/run"
    there, here = (Navi.from_pretrained(path, device="cpu") for path in ("s3://films/run", plain.path))
    np.testing.assert_array_equal(*(model.embed_rows([{"title": "night king"}]) for model in (there, here)))
    assert not any("checkpoints" in path.parts for path in list_remote(Path("s3://films/run")))


def test_shards_at_an_address_are_those_of_a_folder_and_a_stopped_run_goes_on(
    navi, tables, toy_tables, tmp_path, monkeypatch
):
    monkeypatch.setattr("navi.verbs.vector_files.GROUP_BYTES", 3000)
    embed_files(navi, [toy_tables], tmp_path / "rows")
    out, seen = Path("s3://films/rows"), []

    def stop(table, rows):
        seen.append(table)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_files(navi, [tables], out, progress=stop)
    with pytest.raises(ConfigError, match="s3://films/rows is not a finished folder"):
        index_vectors(navi, out, tmp_path / "index")
    done = embed_files(navi, [tables], out, progress=lambda table, rows: seen.append(table))
    assert done.num_vectors == 160
    assert seen == ["films0", "films1", "films2", "films2", "films3"]
    shards = sorted((tmp_path / "rows").glob("*.parquet"))
    assert [name for name in list_folder(out) if name.endswith(".parquet")] == [file.name for file in shards]
    for file in shards:
        with open_binary(out / file.name) as there:
            assert pq.read_table(there).equals(pq.read_table(file))
    found = index_vectors(navi, out, tmp_path / "index").search([{"title": "night king"}], k=3)
    assert len(found[0]) == 3
    remove_file(out / shards[1].name)
    with pytest.raises(ConfigError, match=f"The shard s3://films/rows/{shards[1].name} is damaged or not there"):
        index_vectors(navi, out, tmp_path / "again")


def test_what_is_not_there_or_refused_is_one_line(navi_command, tables, tmp_path, monkeypatch):
    result = navi_command("embed", "s3://films/nothing", "-o", tmp_path / "rows.parquet", code=2)
    assert "Cannot read s3://films/nothing: no such file or folder" in " ".join(result.output.split())
    message = "Cannot reach s3://elsewhere/rows.parquet: .*bucket"
    with pytest.raises(StorageError, match=message), write_file(Path("s3://elsewhere/rows.parquet")) as aside:
        aside.write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"Cannot reach no-such-store://films/a\.csv: .*Check the address"):
        find_sources(["no-such-store://films/a.csv"])
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda address: importlib.import_module("no_such_package"))
    with pytest.raises(MissingExtraError, match=r"s3://films/toys needs an extra: pip install 'navi-tables\[cloud\]'"):
        find_sources([tables])


def refuse(request, respond):
    """Answer as S3 does where a right is missing."""
    respond("403 Forbidden", [("Content-Type", "application/xml")])
    body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    return [] if request["REQUEST_METHOD"] == "HEAD" else [body]


def test_a_bucket_that_refuses_is_one_line_and_leaves_nothing(navi, server, toy_tables, tmp_path, monkeypatch):
    import s3fs

    with make_server("127.0.0.1", 0, refuse) as refusing:
        thread = Thread(target=refusing.serve_forever)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{refusing.server_port}")
        s3fs.S3FileSystem.clear_instance_cache()
        try:
            for given, out in (("s3://films/toys", tmp_path / "rows"), (toy_tables, "s3://films/refused")):
                refused = r"Cannot reach s3://films/.*: (Access Denied|Forbidden)\. Check the address, the rights"
                with pytest.raises(StorageError, match=refused):
                    embed_files(navi, [given], out)
        finally:
            refusing.shutdown()
            thread.join()
            s3fs.S3FileSystem.clear_instance_cache()
    assert not (tmp_path / "rows").exists()
