from __future__ import annotations

import hashlib
import importlib.util
import io
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from navi.errors import ModelError

SCRIPT = Path(__file__).parents[3] / "scripts" / "fetch_tabpfn.py"


@pytest.fixture
def script(monkeypatch, tmp_path) -> ModuleType:
    """The script, whose downloads are an archive made here."""
    spec = importlib.util.spec_from_file_location("fetch_tabpfn", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("NAVI_TABPFN", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "download", _download)
    return module


def _download(requirement: str, folder: Path, kind: str) -> None:
    if requirement.startswith("tabpfn"):
        (folder / "tabpfn-0.1.11-py3-none-any.whl").write_bytes(b"code")
        return
    with tarfile.open(folder / "pfns-0.3.0.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("pfns-0.3.0/models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt")
        member.size = len(b"weights")
        archive.addfile(member, io.BytesIO(b"weights"))


def test_what_has_another_hash_never_reaches_the_folder(script, tmp_path):
    with pytest.raises(ModelError, match="is refused"):
        script.fetch_weights(tmp_path / "cache" / "weights")
    assert not (tmp_path / "cache").exists()


def test_a_refusal_ends_with_an_error(script, tmp_path, capsys):
    assert script.main() == 2
    assert "is refused" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_code_and_weights_are_put_where_they_are_looked_for(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "CODE_SHA256", hashlib.sha256(b"code").hexdigest())
    monkeypatch.setattr(script, "WEIGHTS_SHA256", hashlib.sha256(b"weights").hexdigest())
    assert script.main() == 0
    found = {str(file.relative_to(tmp_path / "cache")) for file in (tmp_path / "cache").rglob("*") if file.is_file()}
    assert found == {script.CODE_FILE, script.WEIGHTS_FILE}
