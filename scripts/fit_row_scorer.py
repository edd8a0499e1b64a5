"""Fit the row scorer that comes with the package, on copies of rows fabricated from tables nobody linked.

    python scripts/fit_row_scorer.py FOLDER -o src/navi/verbs/data/row_scorer.json

Some rows of a table go to two sources, others to one of them alone, and each source has its own columns, formats and
mistakes: words dropped, added, moved, shortened and misspelled, codes written with and without hyphens, numbers rounded
or a little off, cells empty, whole columns coded otherwise or about something else. Siblings (a row with another number
or word in its name) are about another thing. How well the scorer does is measured on real tables:
benchmarks/linking.py --validate.
"""

from __future__ import annotations

import argparse
import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from navi.columns.perturb import perturb_values
from navi.files import write_json
from navi.simulator.schema import misspell
from navi.tables import read_tables
from navi.verbs.row_comparison import ColumnAlignment, ComparedRows, PairComparison
from navi.verbs.row_scorer import FEATURES, ColumnWorth, RowScorer, adapt, describe_pairs, measure_rivals

STACKED, STACKED_ROWS = 24, 2400
"""Tables that are stacked to a large one, and its rows at most."""
MAX_ROWS, MAX_COLUMNS, LEAST_ROWS, K = 300, 12, 24, 10
OTHERS_SHARE, RIDGE = 0.15, 1e-3
"""Share of the pairs about different things that are fitted to, each for several; how much weights are drawn to 0."""

Row = dict[str, str]


@dataclass
class Lot:
    """The candidate pairs of two fabricated sources, and which are about the same thing."""

    rows: ComparedRows
    pairs: np.ndarray  # (P, 2)
    compared: PairComparison
    worth: ColumnWorth
    same: np.ndarray  # (P,)
    total: int
    """Pairs about the same thing, candidates or not."""


def shorten(word: str, random: Random) -> str:
    """Return an initial, the beginning of a word, or the word without vowels."""
    if len(word) < 4 or not word.isalpha():
        return word
    return random.choice((f"{word[0]}.", word[: random.randrange(3, len(word))], re.sub(r"(?<=.)[aeiou]", "", word)))


def respell_code(word: str, random: Random) -> str:
    """Return a code with a hyphen more, without hyphens, or with another ending."""
    if not any(letter.isdigit() for letter in word):
        return word
    plain = re.sub(r"[-/._]", "", word)
    if len(plain) < 4:
        return word
    place = random.randrange(1, len(plain))
    return random.choice(
        (
            plain,
            plain,
            plain[:place] + "-" + plain[place:],
            plain.upper(),
            plain + random.choice(("B", "S", "/A", "-R")),
        )
    )


def change_words(text: str, noise: float, others: Sequence[str], random: Random) -> str:
    """Return a text as another source would have it."""
    words = text.split()
    # A name of a few words that loses one of them names another thing.
    lossy = 0.35 if len(words) > 4 else 0.06
    if len(words) > 1 and random.random() < noise / 2:
        if "," in text and random.random() < 0.5:
            parts = [part.strip() for part in text.split(",") if part.strip()]
            random.shuffle(parts)
            words = ", ".join(parts[: max(1, round(len(parts) * random.uniform(0.4, 1)))] or parts).split()
        elif random.random() < 0.5:
            place = random.randrange(1, len(words))
            words = words[place:] + words[:place]
        else:
            random.shuffle(words)
    changed = []
    for word in words:
        draw = random.random()
        if draw < lossy * noise and len(words) > 1:
            continue
        if draw < (lossy + 0.15) * noise:
            kind = random.choice((misspell, shorten, respell_code, respell_code))
            word = misspell(word, random.randrange(1000)) if kind is misspell else kind(word, random)
        elif any(letter.isdigit() for letter in word) and random.random() < noise:
            word = respell_code(word, random)
        changed.append(word)
    while others and random.random() < 2.2 * lossy * noise:
        foreign = random.choice(others).split()
        if foreign:
            changed.insert(random.randrange(len(changed) + 1), random.choice(foreign))
    if len(changed) > 6 and random.random() < noise / 2:
        changed = changed[: random.randrange(3, len(changed))]
    return " ".join(changed) or text


NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def change_number(text: str, noise: float, random: Random) -> str:
    """Return a number rounded, one off, or some percent off."""
    value = float(text)
    draw = random.random()
    if draw < 0.3:
        return str(int(value) + random.choice((-1, 1)))
    if draw < 0.6:
        return f"{value:.{random.randrange(3)}f}"
    return f"{value * random.uniform(1 - 0.3 * noise, 1 + 0.3 * noise):.{len(text.partition('.')[2])}f}"


def rewrite_column(values: list[str | None], random: Random, noise: float, *, is_name: bool) -> list[str | None]:
    """Return a column as another source would have it; what names a row is always about it, and mostly there."""
    held = [place for place, value in enumerate(values) if value]
    texts = [values[place] or "" for place in held]
    draw = 1.0 if is_name else random.random()
    if draw < 0.06 * (1 + noise):  # about something else
        changed = random.sample(texts, len(texts))
    elif draw < 0.12:  # a code for each value
        codes = {text: random.choice(texts) for text in dict.fromkeys(texts)}
        changed = [codes[text] for text in texts]
    else:
        rate = noise * random.choice((0.0, 0.3, 1.0, 1.0, 1.0, 1.5))
        changed = perturb_values(texts, random)
        if random.random() < 0.1:  # another encoding, or none
            lost = random.choice(("?", "", " "))
            changed = [re.sub(r"[^\x00-\x7f]", lost, text) for text in changed]
        for number, text in enumerate(changed):
            if random.random() > 1.5 * rate:
                continue
            if NUMBER.fullmatch(text):
                if random.random() < 0.5:
                    changed[number] = change_number(text, noise, random)
            else:
                changed[number] = change_words(text, rate, texts, random)
    wrong, empty = random.choice((0, 0, 0.02, 0.1)) * noise, random.choice((0.0, 0.0, 0.1, 0.3, 0.6))
    if is_name:
        wrong, empty = wrong / 5, empty * random.choice((0.0, 0.0, 0.1, 0.3))
    found: list[str | None] = [None] * len(values)
    for place, text in zip(held, changed, strict=True):
        if random.random() >= empty:
            found[place] = random.choice(texts) if random.random() < wrong else text
    return found


def has_words(text: str) -> bool:
    """Return whether a text has letters."""
    return any(letter.isalpha() for letter in text)


def find_name(rows: Sequence[Row]) -> str:
    """Return the header of what names a row: the column of most distinct texts."""
    headers = dict.fromkeys(header for row in rows for header in row)
    return max(headers, key=lambda header: len({row[header] for row in rows if has_words(row.get(header, ""))}))


def make_sibling(row: Row, rows: Sequence[Row], random: Random) -> Row:
    """Return a row about another thing that is much like this one: a few cells, words or codes are another's."""
    sibling, other = dict(row), random.choice(rows)
    long = [header for header, value in row.items() if has_words(value)]
    for header in random.sample(list(row), min(len(row), random.choice((1, 1, 2, 3)))) + long[:1]:
        value = row[header]
        digits = [place for place, letter in enumerate(value) if letter.isdigit()]
        if digits and random.random() < 0.7:
            place = random.choice(digits)
            sibling[header] = value[:place] + random.choice(string.digits) + value[place + 1 :]
        elif header in other and random.random() < 0.6:
            sibling[header] = other[header]
        elif len(value.split()) > 1 and header in other and other[header].split():
            words = value.split()
            words[random.randrange(len(words))] = random.choice(other[header].split())
            sibling[header] = " ".join(words)
    return sibling


def fabricate(
    rows: list[Row], random: Random, limit: int = MAX_ROWS
) -> tuple[list[Row], list[Row], list[int], list[ColumnAlignment]]:
    """Return two sources, what the rows of both are about, and how their columns are aligned."""
    headers = list(dict.fromkeys(header for row in rows for header in row))
    name = find_name(rows)
    headers = random.sample(headers, min(len(headers), random.randrange(2, MAX_COLUMNS + 1)))
    headers = list(dict.fromkeys([*headers[: MAX_COLUMNS - 1], name]))
    random.shuffle(headers)
    rows = [{header: row[header] for header in headers if row.get(header)} for row in rows]
    rows = [dict(items) for items in dict.fromkeys(tuple(row.items()) for row in rows if row)]
    siblings = [
        make_sibling(random.choice(rows), rows, random) for _ in range(int(len(rows) * random.choice((0, 0, 0.1, 0.4))))
    ]
    rows = [dict(items) for items in dict.fromkeys(tuple(row.items()) for row in [*rows, *siblings])]
    random.shuffle(rows)
    rows = rows[: random.randrange(LEAST_ROWS, limit)]
    shared = random.choice((0.15, 0.3, 0.5, 0.7, 0.9, 1.0))
    homes = [random.random() < shared for _ in rows]
    alone = random.random()
    sides: tuple[list[int], list[int]] = ([], [])
    for place, both in enumerate(homes):
        if both or random.random() < alone:
            sides[0].append(place)
        if both or place not in sides[0][-1:]:
            sides[1].append(place)
    if random.random() < 0.2:  # a source may repeat itself
        sides[1].extend(random.choices(sides[1] or [0], k=len(rows) // random.choice((4, 8))))
    noise = random.choice((0.02, 0.08, 0.15, 0.25, 0.35, 0.5))
    own_share = random.choice((0.0, 0.1, 0.3, 0.5, 0.7))  # of the columns that a source does not have
    sources: list[list[Row]] = []
    for side, chosen in enumerate(sides):
        random.shuffle(chosen)
        written: list[Row] = [{} for _ in chosen]
        for header in headers:
            if random.random() < (0.01 if header == name else own_share):
                continue
            values: list[str | None] = [rows[place].get(header) for place in chosen]
            changed = (
                values
                if side == 0 and random.random() < 0.5
                else rewrite_column(values, random, noise, is_name=header == name)
            )
            for row, value in zip(written, changed, strict=True):
                if value:
                    row[header] = value
        sources.append(written)
    held = [{header for row in source for header in row} for source in sources]
    common = [header for header in headers if header in held[0] and header in held[1] and random.random() < 0.9]
    alignments = [ColumnAlignment(name=h, headers={"a": (h,), "b": (h,)}) for h in common]
    lonely = [[h for h in headers if h in held[side] and h not in common] for side in (0, 1)]
    if lonely[0] and lonely[1] and random.random() < 0.2:
        first, second = random.choice(lonely[0]), random.choice(lonely[1])
        alignments.append(ColumnAlignment(name=first, headers={"a": (first,), "b": (second,)}))
    return sources[0], sources[1], [*sides[0], *sides[1]], alignments


def stack(tables: Sequence[list[Row]], random: Random) -> list[Row]:
    """Return the rows of many tables as one; what names a row is one column in most of them."""
    stacked: list[Row] = []
    for rows in tables:
        name = find_name(rows)
        called = {name: random.choice(("name", "name", "title", name))}
        stacked += [{called.get(header, header): value for header, value in row.items()} for row in rows]
    counts = Counter(header for row in stacked for header in row)
    kept = [header for header, _ in counts.most_common(MAX_COLUMNS - 1)]
    return [row for each in stacked if (row := {header: each[header] for header in kept if header in each})]


def make_lot(rows: list[Row], random: Random, limit: int = MAX_ROWS) -> Lot | None:
    """Return the features of the candidates of two fabricated sources."""
    first, second, thing, alignments = fabricate(rows, random, limit)
    if len(first) < 5 or len(second) < 5 or not any(first) or not any(second):
        return None
    compared = ComparedRows(read_tables({"a": first, "b": second}), alignments, within=False)
    pairs = compared.find_candidates(K)
    if not len(pairs):
        return None
    about = np.array(thing)
    counts = [Counter(thing[: len(first)]), Counter(thing[len(first) :])]
    found = compared.compare(pairs)
    return Lot(
        rows=compared,
        pairs=pairs,
        compared=found,
        worth=ColumnWorth(compared, pairs, found),
        same=about[pairs[:, 0]] == about[pairs[:, 1]],
        total=sum(counts[0][each] * counts[1][each] for each in counts[0]),
    )


def fit_weights(designs: Sequence[np.ndarray], lots: Sequence[Lot]) -> np.ndarray:
    """Return the weights of features, the bias last; large lots count for more, but not in proportion."""
    random, features, same, counts = np.random.default_rng(0), [], [], []
    for design, lot in zip(designs, lots, strict=True):
        kept = lot.same | (random.random(len(lot.same)) < OTHERS_SHARE)
        features.append(design[kept])
        same.append(lot.same[kept])
        counts.append(np.where(lot.same[kept], 1, 1 / OTHERS_SHARE) / np.sqrt(lot.total + 20))
    scaler, weight = StandardScaler(), np.concatenate(counts)
    scaled = scaler.fit_transform(np.concatenate(features).astype(np.float64), sample_weight=weight)
    fitted = LogisticRegression(C=1 / (RIDGE * weight.sum()), max_iter=1000).fit(scaled, np.concatenate(same), weight)
    slopes = fitted.coef_[0] / scaler.scale_
    return np.append(slopes, fitted.intercept_[0] - slopes @ scaler.mean_).astype(np.float32)


def fit(lots: list[Lot]) -> RowScorer:
    """Return the scorer of some lots; what rivals make of a score is fitted to scores by weights of other lots."""
    designs = [describe_pairs(lot.compared, lot.worth).sum(axis=1) for lot in lots]
    halves = [fit_weights(designs[start::2], lots[start::2]) for start in (0, 1)]
    rivals = []
    for number, lot in enumerate(lots):
        parts, clear = adapt(lot.compared, lot.worth, halves[1 - number % 2])
        rivals.append(measure_rivals(lot.compared.groups, parts.sum(axis=1), clear))
    return RowScorer(pair_weights=fit_weights(designs, lots), rival_weights=fit_weights(rivals, lots))


def load_rows(folder: str, limit: int, random: Random) -> dict[str, list[Row]]:
    """Return some tables of a folder, those that have enough rows with words in them."""
    tables: dict[str, list[Row]] = {}
    files = sorted(file for file in Path(folder).iterdir() if file.is_file())
    random.shuffle(files)
    for file in files:
        if len(tables) == limit:
            break
        ((name, table),) = read_tables(file).items()
        if table.num_rows < LEAST_ROWS:
            continue
        rows = [{k: str(v) for k, v in row.items() if v is not None} for row in table.text.to_pylist()]
        sample = rows[:60]
        distinct = [len({row[h] for row in sample if has_words(row.get(h, ""))}) for h in table.headers]
        if max(distinct) >= 0.6 * len(sample):
            tables[name] = rows
    return tables


def main(options: argparse.Namespace) -> None:
    """Fabricate, fit, save."""
    random = Random(options.seed)
    tables = list(load_rows(options.folder, options.tables, random).values())
    stacks = [stack(random.sample(tables, STACKED), random) for _ in range(options.stacks)]
    lots = [make_lot(rows, random) for rows in tables] + [make_lot(rows, random, STACKED_ROWS) for rows in stacks]
    held = [lot for lot in lots if lot]
    scorer = fit(held)
    print(f"{len(held)} pairs of sources:", scorer.pair_weights.tolist(), scorer.rival_weights.tolist())
    weights = {name: weight.astype(np.float64).round(4).tolist() for name, weight in vars(scorer).items()}
    write_json(options.out, {name: list(features) for name, features in FEATURES.items()} | weights)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--stacks", type=int, default=8, help="large tables, each of many small ones")
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
