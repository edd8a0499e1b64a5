"""Load on `navi serve` over loopback: 64 clients for a minute, beside `navi embed`'s throughput on the same rows.

python benchmarks/serving.py [--model DIR] [--clients 64] [--seconds 60] [--rows 32]
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import threading
import time
from collections import Counter

import numpy as np
import psutil
import pyarrow as pa

from navi.simulator import SimulatorConfig, simulate
from navi.verbs import Navi

ARROW = "application/vnd.apache.arrow.stream"
NUM_EMBEDDED = 2_048
"""Rows that `embed_rows` is timed with: as many as 64 clients with 32 each wait with."""


def make_requests(num_rows):
    """Return Arrow bodies of so many rows each, out of simulated catalogues, and the tables."""
    bodies, frames = [], []
    for rows in (catalogue.rows for catalogue in simulate(SimulatorConfig(seed=3, num_rows=4000)).catalogues):
        for start in range(0, len(rows) - num_rows + 1, num_rows):
            part = [{key: str(cell) for key, cell in row.items()} for row in rows[start : start + num_rows]]
            frame = pa.Table.from_pylist(part)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, frame.schema) as writer:
                writer.write_table(frame)
            bodies.append(bytes(sink.getvalue()))
            frames.append(frame)
    return bodies, frames


def send(port, bodies, number, until, seconds, codes):
    """Ask again and again on one connection; note how long each answer took, and its code."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    draw = np.random.default_rng(number)
    while time.perf_counter() < until:
        begun = time.perf_counter()
        headers = {"content-type": ARROW, "accept": ARROW}
        connection.request("POST", "/v1/embed", bodies[draw.integers(len(bodies))], headers)
        answer = connection.getresponse()
        answer.read()
        codes[answer.status] += 1
        if answer.status == 200:
            seconds.append(time.perf_counter() - begun)
        else:
            time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--queue", type=int, default=64)
    asked = parser.parse_args()
    bodies, frames = make_requests(asked.rows)
    navi = Navi.from_pretrained(asked.model, device="cpu")
    whole = {str(place): frame for place, frame in enumerate(frames[: -(-NUM_EMBEDDED // asked.rows)])}
    navi.embed_rows(frames[0])
    begun = time.perf_counter()
    navi.embed_rows(whole)
    embedded = len(whole) * asked.rows / (time.perf_counter() - begun)
    command = [sys.executable, "-m", "navi", "serve", "--port", "0", "--device", "cpu", "--queue", str(asked.queue)]
    command += ["--model", asked.model] if asked.model else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)
    port = int(server.stdout.readline().split(" at ")[1].split(",")[0].rsplit(":", 1)[1])
    process, seconds, codes = psutil.Process(server.pid), [], Counter()
    begun = time.perf_counter()
    until = begun + asked.seconds
    clients = [
        threading.Thread(target=send, args=(port, bodies, number, until, seconds, codes))
        for number in range(asked.clients)
    ]
    for client in clients:
        client.start()
    memory = []
    while any(client.is_alive() for client in clients):
        memory.append((time.perf_counter() - begun, process.memory_info().rss / 2**20))
        time.sleep(0.5)
    took = time.perf_counter() - begun
    server.terminate()
    code = server.wait(120)
    served = len(seconds) * asked.rows / took
    warm = np.array([each for each in memory if asked.seconds / 3 <= each[0] <= asked.seconds])
    slope = np.polyfit(warm[:, 0], warm[:, 1], 1)[0] * 60
    print(f"{asked.clients} clients, {asked.rows} rows a request, {took:.0f} s; answers by code: {dict(codes)}")
    print(f"p50 {np.percentile(seconds, 50) * 1000:.0f} ms, p99 {np.percentile(seconds, 99) * 1000:.0f} ms")
    print(f"{served:.0f} rows/s served, {embedded:.0f} rows/s by embed_rows at once: {served / embedded:.0%}")
    shown = ", ".join(f"{rss:.0f}" for _, rss in memory[:: max(1, len(memory) // 12)])
    print(f"memory over time, MiB: {shown}")
    print(f"after a third of the time: {warm[:, 1].min():.0f} to {warm[:, 1].max():.0f} MiB, {slope:+.1f} MiB a minute")
    print(f"exit code {code}")


if __name__ == "__main__":
    main()
