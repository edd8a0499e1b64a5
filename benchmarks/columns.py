"""Matching many columns: time and peak memory of the pair scorer, of competition and of clustering.

    python benchmarks/columns.py [--columns 1000 4000 20000]

Made-up profiles: tables of twenty columns, each column about one of a tenth as many things, with values, words, numbers
and vectors around those of its thing. Each size runs in a process of its own. One line a figure.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from scipy.sparse import csr_array

from navi.columns import ColumnProfiles, load_packaged
from navi.columns.profiles import BAGS, FACTS, LEVELS, NUM_TERMS
from navi.verbs.column_groups import ColumnMatcher
from navi.verbs.match import match_profiles

WIDTH, SIZE, TERMS = 20, 384, 96


def make_profiles(num_columns: int) -> ColumnProfiles:
    draw = np.random.default_rng(0)
    num_things = max(WIDTH, num_columns // 10)
    tables = [f"table{place // WIDTH}" for place in range(num_columns)]
    things = np.concatenate([draw.permutation(num_things)[:WIDTH] for _ in range(-(-num_columns // WIDTH))])[
        :num_columns
    ]
    bags = {}
    for place, name in enumerate(BAGS):
        terms = (
            things[:, None] * 1000 + draw.permuted(np.tile(np.arange(2 * TERMS), (num_columns, 1)), axis=1)[:, :TERMS]
        )
        shares = draw.random((num_columns, TERMS))
        ends = np.arange(0, num_columns * TERMS + 1, TERMS)
        inner = (place << 40) + np.sort(terms, axis=1)
        bags[name] = csr_array((shares.ravel(), inner.ravel(), ends), shape=(num_columns, NUM_TERMS))
    facts = draw.random((num_things, len(FACTS)))[things] + 0.05 * draw.standard_normal((num_columns, len(FACTS)))
    quantiles = np.sort(draw.random((num_columns, len(LEVELS))) + things[:, None] % 7, axis=1)
    quantiles[things % 2 == 0] = np.nan
    vectors = {}
    for name in ("header", "value", "column"):
        vector = draw.standard_normal((num_things, SIZE))[things] + 0.5 * draw.standard_normal((num_columns, SIZE))
        vectors[name] = (vector / np.linalg.norm(vector, axis=1, keepdims=True)).astype(np.float32)
    headers = tuple(f"thing{thing} {place}" for place, thing in enumerate(things))
    return ColumnProfiles(
        tables=tuple(tables),
        headers=headers,
        attributes=headers,
        cells=np.full(num_columns, 100),
        bags=bags,
        quantiles=quantiles,
        facts=facts.astype(np.float32),
        vectors=vectors,
    )


def measure(num_columns: int) -> dict[str, float]:
    profiles = make_profiles(num_columns)
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    found = match_profiles(ColumnMatcher(profiles, load_packaged()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "columns": num_columns,
        "clusters": len(found.clusters),
        "pairs": len(found.pairs),
        "cpu_s": round(time.process_time() - begun, 1),
        "before_MB": round(before / 1024),
        "peak_MB": round(peak / 1024),
        "bytes_a_pair": round((peak - before) * 1024 / num_columns**2, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="*", default=[1000, 4000, 20_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print("columns", json.dumps(measure(options.one)), flush=True)
        return
    for num_columns in options.columns:
        subprocess.run([sys.executable, __file__, "--one", str(num_columns)], check=True)


if __name__ == "__main__":
    main()
