"""Embed rows for a classifier: NaviEncoder in a scikit-learn pipeline, beside a guess."""

from __future__ import annotations

from catalogues import load_frames, load_truth, make_model
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from navi.sklearn import NaviEncoder

model, frames, truth = make_model(), load_frames(), load_truth()

# The catalogue with most rows that knows a language; the column with the answer is not shown to the classifier.
columns = {table: header for (table, header), concept in truth.concepts.items() if concept == "language"}
name = max(columns, key=lambda table: len(truth.films[table]))
films = frames[name].dropna(subset=[columns[name]])
label = films[columns[name]] == films[columns[name]].mode()[0]
rows = films.drop(columns=[columns[name]])

pipeline = make_pipeline(NaviEncoder(model, pooling="mean"), StandardScaler(), LogisticRegression(max_iter=1000))
score = cross_val_score(pipeline, rows, label, cv=3).mean()
guess = cross_val_score(DummyClassifier(), rows, label, cv=3).mean()
print(f"{name}: is {columns[name]} '{films[columns[name]].mode()[0]}'? {len(rows)} rows, {rows.shape[1]} columns")
print(f"NAVI and logistic regression {score:.2f}, always the more frequent answer {guess:.2f}")
