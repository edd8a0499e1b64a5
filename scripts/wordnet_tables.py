"""Write tables from WordNet's nouns, one for each word with kinds or instances: what many headers and values mean.

    python scripts/wordnet_tables.py /usr/share/wordnet -o FOLDER

Debian's package wordnet-base brings the data. A table is headed by the general word, and has its kinds, what else they
are called, what they mean, what they are part of, and the field they belong to.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEAST_KINDS, MOST_KINDS = 5, 100
LINKS = {"@": "kinds", "@i": "kinds", "#p": "part of", "#m": "member of", ";c": "field"}
"""Pointers that are read, and what they are called here; a kind points to what it is a kind of."""


@dataclass(frozen=True)
class Synset:
    """Words of one meaning, what it is, and the synsets that it points to."""

    words: list[str]
    definition: str
    links: list[tuple[str, str]]


def read_nouns(file: Path) -> dict[str, Synset]:
    """Return the synsets of `data.noun` by offset (wndb(5WN) has the format)."""
    synsets = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        fields, definition = line.split(" | ")
        offset, _, _, count, *rest = fields.split()
        num_words = int(count, 16)
        pointers = rest[2 * num_words + 1 :]
        links = [
            (LINKS[symbol], target)
            for symbol, target, part in zip(pointers[::4], pointers[1::4], pointers[2::4], strict=False)
            if symbol in LINKS and part == "n"
        ]
        words = [word.replace("_", " ") for word in rest[: 2 * num_words : 2]]
        synsets[offset] = Synset(words, definition.split(";")[0].strip(), links)
    return synsets


def make_tables(synsets: dict[str, Synset]) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the name and the rows of each table."""
    kinds: dict[str, list[Synset]] = {}
    for synset in synsets.values():
        for link, target in synset.links:
            if link == "kinds":
                kinds.setdefault(target, []).append(synset)
    for offset, members in sorted(kinds.items()):
        if len(members) >= LEAST_KINDS:
            general = synsets[offset].words[0]
            yield f"wordnet_{offset}", [describe(synset, general, synsets) for synset in members[:MOST_KINDS]]


def describe(synset: Synset, general: str, synsets: dict[str, Synset]) -> dict[str, str]:
    """Return the row of a kind."""
    row = {general: synset.words[0]}
    if len(synset.words) > 1:
        row["synonyms"] = ", ".join(synset.words[1:])
    row["definition"] = synset.definition
    for link, target in synset.links:
        if link != "kinds":
            row.setdefault(link, synsets[target].words[0])
    return row


def main(options: argparse.Namespace) -> None:
    """Write the tables."""
    folder = Path(options.out)
    folder.mkdir(parents=True)
    for name, rows in make_tables(read_nouns(Path(options.folder) / "data.noun")):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where WordNet's data.noun lies")
    parser.add_argument("-o", "--out", required=True)
    main(parser.parse_args())
