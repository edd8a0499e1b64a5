"""Other ways to match the columns of two tables: Valentine's matchers, and cosines of sentence embeddings."""

# needs: nothing; other benchmarks import it.
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

Rows = list[dict[str, str]]
Scores = dict[tuple[str, str], float]
Matcher = Callable[[Rows, Rows], Scores]


def list_headers(rows: Rows) -> list[str]:
    """Return the headers of a table in order of first appearance."""
    return list(dict.fromkeys(header for row in rows for header in row))


def make_valentine(name: str, num_rows: int) -> Matcher:
    """Return a matcher of Valentine over at most so many rows; its scores are its own."""
    import pandas as pd
    import valentine.algorithms.coma.similarity.tfidf as tfidf
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
    from valentine import valentine_match
    from valentine.algorithms import Coma, DistributionBased, JaccardDistanceMatcher

    # Coma asks a network for a list of English stop words; scikit-learn brings one.
    tfidf._english_stopwords = lambda: ENGLISH_STOP_WORDS
    matchers: dict[str, Any] = {
        "coma": lambda: Coma(),
        "coma+instances": lambda: Coma(use_instances=True),
        "jaccard": lambda: JaccardDistanceMatcher(),
        "distribution": lambda: DistributionBased(),
    }

    def match(first: Rows, second: Rows) -> Scores:
        frames, originals = [], []
        for rows in (first, second):
            headers = list_headers(rows)
            names = {
                header: f"{header}#{place}" if header.strip() != header else header
                for place, header in enumerate(headers)
            }
            originals.append({name: header for header, name in names.items()})
            frames.append(pd.DataFrame(rows[:num_rows], columns=headers, dtype=object).rename(columns=names).fillna(""))
        found = valentine_match(frames, matchers[name](), df_names=["first", "second"])
        scores: Scores = {}
        for pair, score in found.items():
            columns = {pair.source_table: pair.source_column, pair.target_table: pair.target_column}
            key = (originals[0].get(columns["first"]), originals[1].get(columns["second"]))
            if None not in key:
                scores[key] = float(score)
        return scores

    return match


def make_sentences(*, values: bool) -> Matcher:
    """Return cosines of sentence embeddings of each header, or of the header with its ten most frequent values."""
    from sentence_transformers import SentenceTransformer

    from navi.backbones import find_backbone

    encoder = SentenceTransformer(str(find_backbone("minilm")), device="cpu")
    memory: dict[str, np.ndarray] = {}

    def describe(rows: Rows, header: str) -> str:
        counted = Counter(row[header] for row in rows if row.get(header))
        return f"{header}: {', '.join(value for value, _ in counted.most_common(10))}" if values and counted else header

    def embed(texts: list[str]) -> np.ndarray:
        new = [text for text in texts if text not in memory]
        if new:
            memory.update(
                zip(new, encoder.encode(new, normalize_embeddings=True, show_progress_bar=False), strict=True)
            )
        return np.stack([memory[text] for text in texts])

    def match(first: Rows, second: Rows) -> Scores:
        ours, theirs = list_headers(first), list_headers(second)
        cosine = (
            embed([describe(first, header) for header in ours])
            @ embed([describe(second, header) for header in theirs]).T
        )
        return {(a, b): float(cosine[i, j]) for i, a in enumerate(ours) for j, b in enumerate(theirs)}

    return match
