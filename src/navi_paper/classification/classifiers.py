"""Classifiers of row vectors: XGBoost, logistic regression and TabPFN, all behind `fit` and `predict`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from navi.errors import MissingExtraError
from navi_paper.classification.tabpfn import TabPFN

Matrix = NDArray[np.float32]
Labels = NDArray[Any]


class Classifier(Protocol):
    """Learns classes from vectors; NaN stands for what a row does not have."""

    def fit(self, vectors: Matrix, labels: Labels) -> Self:
        """Learn from (N, D) vectors and the class of each."""

    def predict(self, vectors: Matrix) -> Labels:
        """Return the class of each vector."""


MakeClassifier = Callable[[int], Classifier]
"""Makes an untrained classifier from a seed."""


class XGBoost:
    """Boosted trees, 100 rounds of them, with everything else modest and fixed."""

    def __init__(self, seed: int) -> None:
        try:
            from xgboost import XGBClassifier
        except ImportError as error:
            raise MissingExtraError("The classifier XGBoost", "eval") from error
        self._model = XGBClassifier(
            n_estimators=100,
            max_depth=6,
            learning_rate=0.2,
            max_bin=64,
            # Vectors have hundreds of features, each of which says little: some for each split are enough.
            colsample_bynode=0.2,
            tree_method="hist",
            random_state=seed,
        )

    def fit(self, vectors: Matrix, labels: Labels) -> Self:
        """Grow the trees."""
        self._classes, numbers = np.unique(labels, return_inverse=True)
        self._model.fit(vectors, numbers)
        return self

    def predict(self, vectors: Matrix) -> Labels:
        """Return the likeliest class of each row."""
        found: Labels = self._classes[self._model.predict(vectors)]
        return found


class LogisticRegression:
    """Logistic regression on standardised features; gaps take the feature's mean."""

    def __init__(self, seed: int) -> None:
        from sklearn.impute import SimpleImputer
        from sklearn.linear_model import LogisticRegression as Regression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        self._model = make_pipeline(
            SimpleImputer(keep_empty_features=True),
            StandardScaler(),
            Regression(max_iter=2000, random_state=seed),
        )

    def fit(self, vectors: Matrix, labels: Labels) -> Self:
        """Fit the weights."""
        self._model.fit(vectors, labels)
        return self

    def predict(self, vectors: Matrix) -> Labels:
        """Return the likeliest class of each row."""
        found: Labels = self._model.predict(vectors)
        return found


CLASSIFIERS: Mapping[str, MakeClassifier] = {"xgboost": XGBoost, "lr": LogisticRegression, "tabpfn": TabPFN}
"""The classifiers by name."""
