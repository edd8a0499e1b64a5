"""Start: seconds of `navi --help`, and of the first embedding of a process that has just begun.

    python benchmarks/startup.py [--repeats 3] [--device cpu]

The quickest of several, after one that fills the file cache. The model is made of the default backbone.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIRST = "import sys; from navi import Navi; Navi.from_pretrained(*sys.argv[1:2], device=sys.argv[2]).embed_rows({row})"
ROW = [{"title": "Alien", "year": 1979, "genre": "horror", "country": "United Kingdom"}]


def time_command(command: list[str], repeats: int) -> float:
    seconds = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begun)
    return min(seconds[1:])


def main(repeats: int, device: str) -> None:
    # Imported here, so that the processes measured are the only ones that need to be quick.
    from navi.backbones import find_backbone
    from navi.model import load_backbone

    helped = time_command([sys.executable, "-m", "navi", "--help"], repeats)
    with tempfile.TemporaryDirectory() as folder:
        load_backbone("minilm").save_pretrained(folder)
        shutil.copy(find_backbone("minilm") / "tokenizer.json", Path(folder) / "tokenizer.json")
        first = time_command([sys.executable, "-c", FIRST.format(row=ROW), folder, device], repeats)
    print(f"startup device={device} help_s={helped:.2f} first_embedding_s={first:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    main(arguments.repeats, arguments.device)
