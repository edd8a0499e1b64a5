"""NAVI in scikit-learn: a transformer from the rows of a frame to their embeddings."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from navi.backbones import BASE_MODEL, find_model
from navi.errors import ConfigError
from navi.verbs import Navi
from navi.verbs.loading import PackedModel, check_folder, list_model_files

Frame = nw.DataFrame[Any]
Vectors = NDArray[np.float32]
NUMBERS = ("embed", "passthrough")


class NaviEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns each row of a frame into the vector that a NAVI model has for it.

    Parameters
    ----------
    model : `navi-base`, which comes along, a model directory, or an opened `Navi`.
    n_components : reduce the vectors to this many principal components, found in `fit`; None keeps them whole.
    numbers : `embed` writes numbers out and embeds them with the rest of the row; `passthrough` embeds the others
        alone and puts the numbers, as they are, beside the vector (the paper's NAVI_FE).
    pooling : `text`, `cls`, `mean` or `values`, as in `Navi.embed_rows`; None for the model's own.
    batch_size, device : as in `Navi`.
    include_weights : pickle the model with the estimator; otherwise the pickle refers to the model's directory.

    Arrays are taken as frames with the headers x0, x1, and so on.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.linear_model import LogisticRegression
    >>> make_pipeline(NaviEncoder("model"), LogisticRegression())  # doctest: +ELLIPSIS
    Pipeline(...)
    """

    def __init__(
        self,
        model: str | Path | Navi = BASE_MODEL,
        *,
        n_components: int | None = None,
        numbers: str = "embed",
        pooling: str | None = None,
        batch_size: int | None = None,
        device: str | None = None,
        include_weights: bool = False,
    ) -> None:
        self.model = model
        self.n_components = n_components
        self.numbers = numbers
        self.pooling = pooling
        self.batch_size = batch_size
        self.device = device
        self.include_weights = include_weights

    def fit(self, X: Any, y: Any = None) -> Self:
        """Open the model; find the numeric columns and the principal components."""
        self._fit(self._read(X, reset=True))
        return self

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Any:
        """Fit, and return what `transform` would."""
        frame = self._read(X, reset=True)
        vectors = self._fit(frame)
        return self._finish(frame, self._embed(frame) if vectors is None else vectors)

    def transform(self, X: Any) -> Any:
        """Return a vector for each row: (rows, D), or (rows, n_components), and the numbers that stand beside."""
        check_is_fitted(self, "numeric_columns_")
        frame = self._read(X, reset=False)
        return self._finish(frame, self._embed(frame))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Return navi0, navi1, … and the headers of the numbers that stand beside."""
        check_is_fitted(self, "numeric_columns_")
        _check_feature_names_in(self, input_features)
        vectors = [f"navi{number}" for number in range(self._n_features_out - len(self.numeric_columns_))]
        return np.array([*vectors, *self.numeric_columns_], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that texts and gaps are welcome, and that numbers come out as they must."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: where the weights are included, the model itself need not be found again."""
        state: dict[str, Any] = super().__getstate__()
        if state.get("packed_") is not None and isinstance(state["model"], Navi):
            return state | {"model": str(state["model"].folder)}
        return state

    def _fit(self, frame: Frame) -> Vectors | None:
        """Set everything that fitting sets; return the vectors of the frame if it needed them."""
        if self.numbers not in NUMBERS:
            raise ConfigError(f"numbers must be one of {', '.join(NUMBERS)}, got '{self.numbers}'.")
        columns = {name for name, kind in frame.schema.items() if self.numbers == "passthrough" and kind.is_numeric()}
        self.numeric_columns_ = [name for name in frame.columns if name in columns]
        self.packed_ = self._pack() if self.include_weights else None
        self.pca_, vectors = None, None
        width = self._open().hidden_size if len(columns) < len(frame.columns) else 0
        if self.n_components is not None and width:
            vectors = self._embed(frame)
            self.pca_ = PCA(_check_components(self.n_components, vectors.shape), random_state=0).fit(vectors)
            width = self.n_components
        self._n_features_out = width + len(columns)
        return vectors

    def _pack(self) -> PackedModel:
        """Return the model to keep with the estimator."""
        folder = self.model.folder if isinstance(self.model, Navi) else find_model(self.model)
        check_folder(folder)
        return PackedModel.read(folder)

    def _open(self) -> Navi:
        if isinstance(self.model, Navi):
            return self.model
        if self.packed_ is not None:
            return open_packed(self.packed_, self.device)
        folder = find_model(str(self.model))
        check_folder(folder)
        return open_folder(folder.resolve(), self.device, (folder / list_model_files(folder)[-1]).stat().st_mtime_ns)

    def _read(self, X: Any, *, reset: bool) -> Frame:
        """Return `X` as a frame with texts for headers, checked as scikit-learn asks."""
        if hasattr(X, "columns") and not isinstance(X, np.ndarray):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if nw.dependencies.is_pandas_dataframe(X):
                X = X.set_axis([str(name) for name in X.columns], axis=1)
            opened: Frame = nw.from_native(X, eager_only=True)
            return opened
        array = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        headers = getattr(self, "feature_names_in_", [f"x{place}" for place in range(array.shape[1])])
        made: Frame = nw.from_native(pa.table([_to_arrow(column) for column in array.T], names=list(headers)))
        return made

    def _embed(self, frame: Frame) -> Vectors:
        """Return the vectors of the columns that are not numbers beside; of no columns, vectors of length 0."""
        columns = [name for name in frame.columns if name not in self.numeric_columns_]
        if not columns:
            return np.zeros((len(frame), 0), np.float32)
        native = frame.select(columns).to_native()
        vectors = self._open().embed_rows(native, batch_size=self.batch_size, pooling=self.pooling)
        return np.asarray(vectors, np.float32)

    def _finish(self, frame: Frame, vectors: Vectors) -> Any:
        if self.pca_ is not None:
            vectors = self.pca_.transform(vectors)
        if not self.numeric_columns_:
            return vectors
        numbers = [np.asarray(frame[name].to_arrow().cast(pa.float64())) for name in self.numeric_columns_]
        return np.column_stack([vectors, *numbers])


@lru_cache(maxsize=4)
def open_packed(packed: PackedModel, device: str | None) -> Navi:
    """Return the model of some files in memory."""
    with tempfile.TemporaryDirectory() as folder:
        return Navi.from_pretrained(packed.unpack(Path(folder)), device=device)


@lru_cache(maxsize=4)
def open_folder(folder: Path, device: str | None, modified: int) -> Navi:
    """Return the model of a directory, opened once for all estimators; `modified` tells new weights from old ones."""
    del modified
    return Navi.from_pretrained(folder, device=device)


def _check_components(n_components: int, shape: tuple[int, ...]) -> int:
    if not 1 <= n_components <= min(shape):
        raise ConfigError(
            f"n_components must lie between 1 and {min(shape)} for {shape[0]} rows and vectors of length {shape[1]}, "
            f"got {n_components}."
        )
    return n_components


def _to_arrow(column: NDArray[Any]) -> pa.Array:
    """Return a column of an array; one that mixes types as texts."""
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if cell is None or cell != cell else str(cell) for cell in column], pa.string())
