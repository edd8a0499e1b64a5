"""Measure the compressed index: recall of the ten nearest, time of a query, bytes a vector, time to build and to add.

python benchmarks/index.py --rows 1000000 --size 64: vectors like those of a small model, drawn around one centre for
fifty rows. Recall is against comparing with all. Times are of one thread; on a busy machine CPU time says more.
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
from navi.verbs.vector_index import BLOCK, add_vectors, build_lists, find_nearest, read_lists, rerank


def draw_blocks(num_rows, size, seed):
    """Yield unit vectors, rows of things of which there are about fifty each, in blocks."""
    draw = np.random.default_rng(seed)
    mix = np.random.default_rng(1).standard_normal((24, size)).astype(np.float32)
    centres = np.random.default_rng(2).standard_normal((max(1, num_rows // 50), 24)).astype(np.float32)
    for start in range(0, num_rows, BLOCK):
        number = min(BLOCK, num_rows - start)
        inner = centres[draw.integers(0, len(centres), number)] + 0.5 * draw.standard_normal((number, 24), np.float32)
        yield normalize_rows(inner @ mix + 0.3 * draw.standard_normal((number, size), np.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        shape = (arguments.rows, arguments.size)
        vectors = np.lib.format.open_memmap(Path(folder, "vectors.npy"), "w+", np.float16, shape)
        start = 0
        for block in draw_blocks(*shape, seed=0):
            vectors[start : start + len(block)] = block
            start += len(block)
        begun, used = time.perf_counter(), time.process_time()
        first = arguments.rows * 9 // 10
        lists = build_lists(vectors[:first])
        build = time.perf_counter() - begun, time.process_time() - used
        begun = time.perf_counter()
        add_vectors(lists, vectors[first:])
        add = time.perf_counter() - begun
        faiss.write_index(lists, f"{folder}/lists")
        opened = read_lists(Path(folder, "lists"))
        asked = next(draw_blocks(max(arguments.rows, arguments.queries), arguments.size, seed=5))[: arguments.queries]
        clock, cpu, hits = [], [], 0
        for query in asked:
            begun, used = time.perf_counter(), time.thread_time()
            found = rerank(opened, vectors, query, 10)[0]
            clock.append(time.perf_counter() - begun)
            cpu.append(time.thread_time() - used)
            hits += len(set(found) & set(find_nearest(vectors, query, 10)))
        size = Path(folder, "lists").stat().st_size / arguments.rows
        print(f"{arguments.rows:,} vectors of {arguments.size} numbers, {opened.nlist} lists, {opened.nprobe} asked")
        print(f"built of nine tenths in {build[0]:.0f} s ({build[1]:.0f} s CPU), the last tenth added in {add:.0f} s")
        print(f"{opened.code_size + 8} bytes a vector and its number, {size:.1f} with lists and tables, on disk")
        print(f"recall@10 {hits / (10 * len(asked)):.3f}")
        for name, times in (("clock", clock), ("CPU", cpu)):
            print(
                f"a query, {name}: median {1e3 * np.median(times):.1f} ms, p95 {1e3 * np.quantile(times, 0.95):.1f} ms"
            )
        print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, mapped pages included")


if __name__ == "__main__":
    main()
