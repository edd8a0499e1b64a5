"""Whether vectors of rows tell the classes of rows apart in tables that no classifier has seen, by kinds of pooling.

    python benchmarks/rows.py CORPUS GOLD [--pooling cls text] [--model MODEL] [--record]

GOLD is the prefix of the gold's files (`movie` for `movie_labels.json`). Rows, hidden columns and draws are those of
the paper's row classification: macro-F1 of a logistic regression, with whole tables held out, and with rows of all
tables on both sides.
"""

# needs: a prepared corpus, and gold for it
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from records import add_record

from navi.corpus import Corpus
from navi.verbs import EmbedConfig, Navi
from navi.verbs.embed import POOLINGS, embed_arrays
from navi_paper.data import EvaluationData
from navi_paper.gold import Gold, find_revealing_columns
from navi_paper.table_views import hide_columns
from navi_paper.tasks.classification import classify, draw_runs, draw_table_runs, find_pool

SECTION = "Rows of tables that were held out"
"""Of docs/benchmarks.md."""


def main(options: argparse.Namespace) -> None:
    navi, corpus = Navi.from_pretrained(options.model), Corpus.open(options.corpus)
    data = EvaluationData(corpus=corpus, gold=Gold.find(options.gold))
    pool = find_pool(data)
    view = hide_columns(corpus.arrays.take_rows(pool.rows), find_revealing_columns(corpus, data.gold.labels))
    tables = np.array(corpus.tables)[corpus.arrays.row_table[pool.rows]]
    draws = {
        "": draw_table_runs(pool.labels, tables, data.config),
        ", all tables": draw_runs(pool.labels, pool.rows, data.config),
    }
    figures: dict[str, float] = {}
    for pooling in options.pooling:
        vectors = embed_arrays(navi, view, "rows", EmbedConfig(pooling=pooling))
        for name, drawn in draws.items():
            scores = classify(lambda a, b, v=vectors: (v[a], v[b]), pool.labels, drawn, "lr", data.config.seed)
            label = f"{pooling}{name}"
            figures |= {label: scores.mean(), f"{label}, deviation": scores.std(ddof=1)}
            print(
                f"{options.corpus.name} {label}: F1={scores.mean():.3f} deviation={scores.std(ddof=1):.3f}", flush=True
            )
    if options.record:
        files = [file for file in options.gold.parent.glob(f"{options.gold.name}_*") if file.is_file()]
        add_record(figures, setting=f"{SECTION}: {options.corpus.name}", data=files, seed=0, navi=navi)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("gold", type=Path)
    parser.add_argument("--pooling", nargs="+", choices=POOLINGS, default=["cls", "text"])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--record", action="store_true", help="append the figures to benchmarks/results.jsonl")
    main(parser.parse_args())
