"""Measure the compressed index: recall of the ten nearest, time of a query, bytes a vector, time to build and to add.

python benchmarks/index.py --rows 1000000 --size 64: vectors like those of a small model, drawn around one centre for
fifty rows. Recall is against comparing with all. Times are of one thread; on a busy machine CPU time says more.
`--folder DIR` keeps the index there; where one is, only its queries are timed.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np

from navi.verbs.embed import normalize_rows
from navi.verbs.vector_lists import BLOCK, add_vectors, build_lists, find_nearest, read_lists, rerank


def draw_blocks(num_rows, size, seed):
    """Yield unit vectors, rows of things of which there are about fifty each, in blocks."""
    draw = np.random.default_rng(seed)
    mix = np.random.default_rng(1).standard_normal((24, size)).astype(np.float32)
    centres = np.random.default_rng(2).standard_normal((max(1, num_rows // 50), 24)).astype(np.float32)
    for start in range(0, num_rows, BLOCK):
        number = min(BLOCK, num_rows - start)
        inner = centres[draw.integers(0, len(centres), number)] + 0.5 * draw.standard_normal((number, 24), np.float32)
        yield normalize_rows(inner @ mix + 0.3 * draw.standard_normal((number, size), np.float32))


def build(folder, num_rows, size):
    """Write vectors and their index."""
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, (num_rows, size))
    start = 0
    for block in draw_blocks(num_rows, size, seed=0):
        vectors[start : start + len(block)] = block
        start += len(block)
    begun, used = time.perf_counter(), time.process_time()
    first = num_rows * 9 // 10
    lists = build_lists(vectors[:first])
    took = time.perf_counter() - begun, time.process_time() - used
    print(f"built of nine tenths in {took[0]:.0f} s ({took[1]:.0f} s CPU)", flush=True)
    begun, used = time.perf_counter(), time.process_time()
    add_vectors(lists, vectors[first:])
    took = time.perf_counter() - begun, time.process_time() - used
    print(f"the last tenth added in {took[0]:.0f} s ({took[1]:.0f} s CPU)", flush=True)
    faiss.write_index(lists, str(folder / "lists"))


def draw_queries(folder, num_queries):
    """Write queries and the nearest of each by comparing with all."""
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")
    asked = next(draw_blocks(max(len(vectors), num_queries), vectors.shape[1], seed=5))[:num_queries]
    np.savez(folder / "queries.npz", asked=asked, nearest=find_nearest(vectors, asked, 10))


def ask(folder):
    """Time the queries of an index that was built."""
    vectors, queries = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "queries.npz")
    opened = read_lists(folder / "lists")
    size = (folder / "lists").stat().st_size / len(vectors)
    print(f"{len(vectors):,} vectors of {vectors.shape[1]} numbers, {opened.nlist} lists, {opened.nprobe} asked")
    print(f"{opened.code_size + 8} bytes a vector and its number, {size:.1f} with lists and tables, on disk")
    clock, cpu, hits = [], [], 0
    for query, nearest in zip(queries["asked"], queries["nearest"], strict=True):
        begun, used = time.perf_counter(), time.thread_time()
        found = rerank(opened, vectors, query, 10)[0]
        clock.append(time.perf_counter() - begun)
        cpu.append(time.thread_time() - used)
        hits += len(set(found) & set(nearest))
    print(f"recall@10 {hits / (10 * len(clock)):.3f} of {len(clock)} queries")
    for name, times in (("clock", clock), ("CPU", cpu)):
        print(f"a query, {name}: median {1e3 * np.median(times):.1f} ms, p95 {1e3 * np.quantile(times, 0.95):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=None, help="keep the index here, or ask the one that is here")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        if not (folder / "lists").is_file():
            build(folder, arguments.rows, arguments.size)
        if not (folder / "queries.npz").is_file():
            draw_queries(folder, arguments.queries)
        ask(folder)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, mapped pages included")


if __name__ == "__main__":
    main()
