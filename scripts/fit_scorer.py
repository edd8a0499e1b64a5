"""Fit the pair scorer that comes with the package, on pairs of columns fabricated from tables nobody matched.

    python scripts/fit_scorer.py FOLDER -o src/navi/columns/data [--schemas scripts/schemas] [--model MODEL]

Each table is cut in two: rows shuffled or sorted by a column, then halved; each half keeps most of the columns; headers
and values of the second half are rewritten as another source would have them, some headers by words that have little in
common with the first; some halves list the different values of each column, as a schema does. Columns left without a
partner, and pairs of different tables, are negatives. Halves of one table are more alike than tables of two sources, in
spelling, variety and length. `--schemas` adds pairs of sources of hand-written schemas (schema_tables.py), of the
domains that the model was not trained on. A fifth of the tables, and of these domains, is kept out to see how well the
scorer does and whether its probabilities are honest.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import torch
from schema_tables import Rows, list_domains, make_rows
from torch import nn

from navi.columns import FEATURES, Background, ColumnProfiles, PairScorer, measure_competition, measure_features
from navi.columns.perturb import perturb_header, perturb_values
from navi.columns.scorer import WITHOUT_HEADERS, WITHOUT_VALUES, leave_out
from navi.columns.texts import profile_columns
from navi.corpus.tokens import TextTokenizer
from navi.tables import read_tables
from navi.verbs import Navi

KEPT_COLUMNS, MAX_COLUMNS, MAX_ROWS = 0.8, 30, 200
CUTS = 3
GROUP = 8
"""Tables that are compared before one background, as a user's folder would be."""
SORTED_SHARE, LISTED_SHARE, UNNAMED_SHARE, EMPTY_SHARE = 0.4, 0.25, 0.15, 0.05
HIDDEN, EPOCHS, DECAY = 32, 60, 1e-4
READING = 5.0
"""Weight of the model's own reading beside the network: of 0, 5 and 10 the best on kept-out schemas and on training and
validation tables of films and products."""
SCHEMA_SHARE = 0.05
"""Share of the pairs of columns of schemas that are fitted to, of 0, 0.02, 0.05, 0.15, 0.5 and 1: there are many, all
alike in having few values. The one with the best F1 and probabilities on these tables."""


@dataclass
class Pair:
    """Features of all pairs of columns of two tables, and which mean the same."""

    features: np.ndarray  # (E, K, L)
    same: np.ndarray  # (K, L)
    kept_out: bool
    share: float = 1.0
    """Share of the pairs of columns that is fitted to."""


def cut(rows: Rows, random: Random) -> tuple[Rows, Rows, dict[str, str]]:
    """Return two halves of a table, and what the second calls the columns of the first that it has."""
    rows = random.sample(rows, min(len(rows), MAX_ROWS))
    headers = list(dict.fromkeys(header for row in rows for header in row))
    headers = random.sample(headers, min(len(headers), MAX_COLUMNS))
    if random.random() < SORTED_SHARE:
        by = random.choice(headers)
        rows.sort(key=lambda row: row.get(by, ""))
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    kept = [[header for header in headers if random.random() < KEPT_COLUMNS] or headers[:1] for _ in halves]
    called: dict[str, str] = {}
    written: list[dict[str, str]] = [{} for _ in halves[1]]
    for header in kept[1]:
        name = rename(header, random)
        called[header] = name if name not in called.values() else f"{name} {len(called)}"
        held = [place for place, row in enumerate(halves[1]) if header in row]
        values = perturb_values([halves[1][place][header] for place in held], random)
        for place, value in zip(held, values, strict=True):
            written[place][called[header]] = value
    first = [{header: row[header] for header in kept[0] if header in row} for row in halves[0]]
    return first, list_values(written, random) if random.random() < LISTED_SHARE else written, called


def rename(header: str, random: Random) -> str:
    """Return what another source calls a column: the same, another spelling, or words that have little in common."""
    draw = random.random()
    names = [perturb_header(header, random) for _ in range(1 if draw < 0.5 else 6)]
    if draw < 0.2:
        return header
    return min(names, key=lambda name: SequenceMatcher(None, header.lower(), name.lower()).ratio())


def list_values(rows: Rows, random: Random) -> Rows:
    """Return the different values of each column, one below the other, as a schema lists what a column may hold."""
    values: dict[str, dict[str, None]] = {}
    for row in rows:
        for header, value in row.items():
            values.setdefault(header, {})[value] = None
    listed: Rows = [{} for _ in rows]
    for header, held in values.items():
        for place, value in enumerate(random.sample(list(held), len(held))):
            listed[place][header] = value
    return [row for row in listed if row]


def fabricate(navi: Navi, tables: dict[str, Rows], seed: int) -> list[Pair]:
    """Return the pairs of all cuts of some tables."""
    called, profiles = profile_cuts(navi, tables, seed)
    return pair_up(called, profiles, seed)


def profile_cuts(navi: Navi, tables: dict[str, Rows], seed: int) -> tuple[dict[str, dict[str, str]], ColumnProfiles]:
    """Return what the second half of each cut calls the columns of the first, and the profiles of all halves."""
    random = Random(seed)
    halves: dict[str, Rows] = {}
    called: dict[str, dict[str, str]] = {}
    for name, rows in tables.items():
        for number in range(CUTS):
            first, second, called[f"{name}#{number}"] = cut(rows, random)
            halves |= {f"{name}#{number}/a": first, f"{name}#{number}/b": second}
    halves = {name: rows for name, rows in halves.items() if any(rows)}
    return called, profile_columns(navi.runner, TextTokenizer(navi.tokenizer), navi.encode(halves))


def pair_up(called: dict[str, dict[str, str]], profiles: ColumnProfiles, seed: int) -> list[Pair]:
    """Return the pairs of both halves of each cut, and of halves of different tables."""
    owner = np.array(profiles.tables)
    names = list(called)
    Random(seed).shuffle(names)
    kept_out = set(list(dict.fromkeys(name.rsplit("#", 1)[0] for name in called))[::5])
    pairs = []
    for start in range(0, len(names), GROUP):
        group = names[start : start + GROUP]
        lots = {name: {side: take(profiles, owner, f"{name}/{side}") for side in "ab"} for name in group}
        background = Background([lot for sides in lots.values() for lot in sides.values()])
        for place, name in enumerate(group):
            table = name.rsplit("#", 1)[0]
            for other in (name, group[(place + 1) % len(group)]):
                stranger = other.rsplit("#", 1)[0]
                if other != name and (stranger == table or (table in kept_out) != (stranger in kept_out)):
                    continue
                first, second = lots[name]["a"], lots[other]["b"]
                if not len(first) or not len(second):
                    continue
                right = called[name] if other == name else {}
                same = np.array([[right.get(a) == b for b in second.headers] for a in first.headers])
                pairs.append(Pair(measure_features(first, second, background), same, table in kept_out))
    return pairs


def pair_schemas(navi: Navi, folder: Path) -> list[Pair]:
    """Return the pairs of all sources of each domain that the model has not seen."""
    domains = list_domains(folder, "kept-out")
    tables, concepts = {}, {}
    for domain, sources in domains.items():
        for source, columns in sources.items():
            rows = make_rows(columns) or [{}]
            rows[0] = {column.header: "" for column in columns} | rows[0]  # a column without a value is a column
            tables[f"{domain}/{source}"] = rows
            concepts[f"{domain}/{source}"] = {column.header: column.concept for column in columns}
    profiles = profile_columns(navi.runner, TextTokenizer(navi.tokenizer), navi.encode(tables))
    owner = np.array(profiles.tables)
    pairs, names = [], list(domains)
    for start in range(0, len(names), GROUP):
        group = names[start : start + GROUP]
        lots = {table: take(profiles, owner, table) for table in tables if table.rsplit("/", 1)[0] in group}
        background = Background(list(lots.values()))
        for name in group:
            kept_out = names.index(name) % 5 == 0
            for first, second in combinations([table for table in lots if table.startswith(f"{name}/")], 2):
                left, right = ([concepts[table][header] for header in lots[table].headers] for table in (first, second))
                features = measure_features(lots[first], lots[second], background)
                pairs.append(Pair(features, np.equal.outer(left, right), kept_out, SCHEMA_SHARE))
    return pairs


def take(profiles: ColumnProfiles, owner: np.ndarray, table: str) -> ColumnProfiles:
    """Return the columns of one table."""
    return profiles.take(np.flatnonzero(owner == table))


def degrade(pair: Pair, generator: np.random.Generator) -> np.ndarray:
    """Return the features with some headers, or all, and some values taken away."""
    features = pair.features
    shape = features.shape[1:]
    unnamed = 0.5 if generator.random() < UNNAMED_SHARE else 0.05
    for names, share in ((WITHOUT_HEADERS, unnamed), (WITHOUT_VALUES, EMPTY_SHARE)):
        lost = (generator.random(shape[0]) < share)[:, None] | (generator.random(shape[1]) < share)[None, :]
        features = np.where(lost, leave_out(features, names), features)
    return features


def fit_network(pairs: list[Pair], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of the hidden units and of the score."""
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    lots = [(degrade(pair, generator), pair.same, generator.random(pair.same.shape) < pair.share) for pair in pairs * 2]
    features = torch.tensor(np.concatenate([found[:, drawn] for found, _, drawn in lots], axis=1).T)
    same = torch.tensor(np.concatenate([right[drawn] for _, right, drawn in lots])).float()
    network = nn.Sequential(nn.Linear(len(FEATURES), HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=DECAY)
    size = 4096
    steps = EPOCHS * -(-len(same) // size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(same)).split(size):
            loss = nn.functional.binary_cross_entropy_with_logits(network(features[batch])[:, 0], same[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    first, last = network[0], network[2]
    hidden = torch.cat([first.weight.T, first.bias[None]]).detach().numpy()
    output = torch.cat([last.weight[0], last.bias]).detach().numpy()
    return hidden, output


def fit_competition(scorer: PairScorer, pairs: list[Pair], seed: int) -> np.ndarray:
    """Return the weights of what competition makes of a score."""
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(seed)
    found = [compete(scorer, degrade(pair, generator)) for pair in pairs]
    design = np.concatenate([each.reshape(len(each), -1) for each in found], axis=1).T
    same = np.concatenate([pair.same.ravel() for pair in pairs])
    weight = np.concatenate([np.full(pair.same.size, pair.share) for pair in pairs])
    fitted = LogisticRegression(C=10.0, max_iter=2000).fit(design, same, weight)
    return np.append(fitted.coef_[0], fitted.intercept_)


def compete(scorer: PairScorer, features: np.ndarray) -> np.ndarray:
    """Return what competition weighs of all pairs of two tables."""
    score = scorer.weigh(features)
    return measure_competition(score, np.zeros(score.shape[0], np.int64), np.zeros(score.shape[1], np.int64))


def judge(scorer: PairScorer, pairs: list[Pair]) -> str:
    """Return F1 at probability 0.5, MRR, and the calibration error of pairs."""
    probability, same, ranks = [], [], []
    for pair in pairs:
        found = compete(scorer, pair.features)
        logit = np.tensordot(scorer.competition[:-1], found, 1) + scorer.competition[-1]
        probability.append(1 / (1 + np.exp(-logit.ravel())))
        same.append(pair.same.ravel())
        for row, right in zip(logit, pair.same, strict=True):
            if right.any():
                ranks.append(1 / (1 + (row[~right] >= row[right].max()).sum()))
    p, y = np.concatenate(probability), np.concatenate(same)
    hit = (p >= 0.5) & y
    f1 = 2 * hit.sum() / ((p >= 0.5).sum() + y.sum())
    shown = p >= 0.1
    bins = np.minimum((p * 10).astype(int), 9)
    error = sum(abs(p[b].mean() - y[b].mean()) * b.sum() for b in (shown & (bins == n) for n in range(10)) if b.any())
    sure = p >= 0.95
    return (
        f"F1={f1:.3f} MRR={np.mean(ranks):.3f} calibration_error={error / shown.sum():.3f} "
        f"right_at_0.95={y[sure].mean():.3f} pairs={len(y)} same={y.sum()}"
    )


def main(options: argparse.Namespace) -> None:
    """Fabricate, fit, judge, save."""
    navi = Navi.from_pretrained(options.model) if options.model else Navi.from_pretrained()
    tables = {}
    for name, table in read_tables(options.folder).items():
        rows = [{k: str(v) for k, v in row.items() if v is not None} for row in table.to_arrow().to_pylist()]
        if len(rows) >= 8 and any(rows):
            tables[name] = rows
    pairs = fabricate(navi, tables, options.seed)
    pairs += pair_schemas(navi, options.schemas) if options.schemas else []
    train, kept = [pair for pair in pairs if not pair.kept_out], [pair for pair in pairs if pair.kept_out]
    print(f"{len(tables)} tables, {len(pairs)} pairs of tables")
    for ablated in ([], *([name] for name in FEATURES)) if options.ablate else (options.without,):
        zeroed = [FEATURES.index(name) for name in ablated]
        lots = [[replace(pair, features=without(pair.features, zeroed)) for pair in part] for part in (train, kept)]
        hidden, output = fit_network(lots[0], options.seed)
        reading = 0.0 if "column_vector" in ablated else READING
        scorer = PairScorer(hidden=hidden, output=output, reading=reading, competition=np.zeros(5, np.float32))
        scorer = replace(scorer, competition=fit_competition(scorer, lots[0], options.seed))
        print(f"without {' '.join(ablated) or 'nothing'}: {judge(scorer, lots[1])}", flush=True)
        if ablated == options.without and options.out:
            Path(options.out).mkdir(parents=True, exist_ok=True)
            scorer.save(options.out)


def without(features: np.ndarray, zeroed: list[int]) -> np.ndarray:
    """Return features of which some are 0."""
    left = features.copy()
    left[zeroed] = 0.0
    return left


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("-o", "--out")
    parser.add_argument("--model", help="a model directory; the base model if none is given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--schemas", type=Path, help="folder of hand-written schemas")
    parser.add_argument("--without", nargs="+", choices=FEATURES, default=[], help="features that are not there")
    parser.add_argument("--ablate", action="store_true", help="fit again without each feature")
    main(parser.parse_args())
