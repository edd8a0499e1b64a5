"""TabPFN, version 1: code and weights from a folder beside the package, checked before they are used.

`scripts/fetch_tabpfn.py` fills the folder. The code was written for older libraries: what it misses in torch and
scikit-learn is given to it while it runs, and to nobody else.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import typing
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Self
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from navi.errors import ConfigError, ModelError
from navi.files import digest_file

CODE_FILE = "tabpfn-0.1.11-py3-none-any.whl"
WEIGHTS_FILE = "models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt"
"""Where the code itself looks for its weights."""
CODE_SHA256 = "d7699467049cf6e3950121777a5ee6aa625cb9066447a7888f8ebf8937d3858a"
WEIGHTS_SHA256 = "3c9aadaeddbf51462af8c0ee4b3ca3c697890f77e92318abbb0821b75261c392"
FOLDER_VARIABLE = "NAVI_TABPFN"
MAX_FEATURES, MAX_CLASSES, MAX_ROWS = 100, 10, 1024
"""What the model was made for; the code refuses more."""
NUM_PASSES = 4
"""Passes over the same rows that are averaged, each with features and classes in another order."""

Matrix = NDArray[np.float32]
Labels = NDArray[Any]


def find_folder() -> Path:
    """Return the folder that code and weights are kept in: $NAVI_TABPFN, or navi/tabpfn in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(FOLDER_VARIABLE) or cache / "navi" / "tabpfn")


def find_missing_files() -> str | None:
    """Return what brings the files that are not there; None if all are."""
    folder = find_folder()
    missing = [name for name in (CODE_FILE, WEIGHTS_FILE) if not (folder / name).is_file()]
    return f"TabPFN's files are not in {folder}; run: python scripts/fetch_tabpfn.py" if missing else None


def check_file(file: Path, sha256: str) -> Path:
    """Return the file if its content is what it should be; it is refused otherwise."""
    if not file.is_file():
        raise ModelError(f"TabPFN lacks {file}. Run: python scripts/fetch_tabpfn.py")
    digest = digest_file(file)
    if digest != sha256:
        raise ModelError(
            f"{file} is refused: its sha256 is {digest}, expected {sha256}. "
            "Remove it, then run: python scripts/fetch_tabpfn.py"
        )
    return file


@lru_cache(maxsize=1)
def load_code(folder: Path) -> ModuleType:
    """Return TabPFN's module, imported from its wheel; the weights beside it are as they should be, too."""
    import torch.nn.modules.transformer as transformer

    wheel = check_file(folder / CODE_FILE, CODE_SHA256)
    check_file(folder / WEIGHTS_FILE, WEIGHTS_SHA256)
    # A newer TabPFN that somebody installed has the same name; it is neither used nor left replaced.
    others = _take_modules()
    with (
        tempfile.TemporaryDirectory() as unpacked,
        # The code imports this name from torch, which had it by chance.
        patch.object(transformer, "Optional", typing.Optional, create=True),
        patch.object(sys, "path", [unpacked, *sys.path]),
    ):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        try:
            return importlib.import_module("tabpfn.scripts.transformer_prediction_interface")
        finally:
            _take_modules()
            sys.modules.update(others)


def _take_modules() -> dict[str, ModuleType]:
    """Take every module called TabPFN out of those imported."""
    names = [name for name in sys.modules if name.split(".")[0] == "tabpfn"]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def _bridge(code: ModuleType) -> Iterator[None]:
    """Let the code call torch and scikit-learn as it is used to, and keep to itself its warnings and its seed."""
    import torch

    def check(own: Callable[..., Any], *data: Any, force_all_finite: bool) -> Any:
        return own(*data, ensure_all_finite=force_all_finite)

    bridges: dict[str, Any] = {name: partial(check, getattr(code, name)) for name in ("check_X_y", "check_array")}
    # Without gradients there is nothing to recompute, and torch warns of the old way of calling it.
    bridges["checkpoint"] = lambda function, *data: function(*data)
    with warnings.catch_warnings(), torch.random.fork_rng(), patch.multiple(code, **bridges):
        warnings.simplefilter("ignore")
        yield


class TabPFN:
    """TabPFN behind `fit` and `predict`; more than 100 features are reduced to their principal components."""

    def __init__(self, seed: int, folder: Path | None = None) -> None:
        self._folder = folder or find_folder()
        self._code = load_code(self._folder)
        self._seed = seed

    def fit(self, vectors: Matrix, labels: Labels) -> Self:
        """Keep the rows: the model learns from them while it predicts."""
        from sklearn.decomposition import PCA
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        classes = np.unique(labels)
        if len(classes) > MAX_CLASSES or len(labels) > MAX_ROWS:
            raise ConfigError(
                f"TabPFN takes at most {MAX_CLASSES} classes and {MAX_ROWS} rows to learn from, "
                f"got {len(classes)} and {len(labels)}."
            )
        steps = [SimpleImputer(keep_empty_features=True), StandardScaler()]
        if vectors.shape[1] > MAX_FEATURES:
            steps.append(PCA(min(MAX_FEATURES, len(vectors)), svd_solver="full", random_state=self._seed))
        self._reduce = make_pipeline(*steps)
        with _bridge(self._code):
            self._model = self._code.TabPFNClassifier(
                device="cpu", base_path=str(self._folder), N_ensemble_configurations=NUM_PASSES, seed=self._seed
            ).fit(self._reduce.fit_transform(vectors), labels)
        return self

    def predict(self, vectors: Matrix) -> Labels:
        """Return the likeliest class of each row."""
        reduced = self._reduce.transform(vectors)
        with _bridge(self._code):
            found: Labels = self._model.predict(reduced)
        return found
