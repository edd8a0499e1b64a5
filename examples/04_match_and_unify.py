"""Match the columns of several tables, and stack the tables under one schema."""

from __future__ import annotations

from catalogues import load_frames, load_truth, make_model

import navi

model = navi.Navi.from_pretrained(make_model())
frames = dict(list(load_frames().items())[:3])

found = model.match(frames, one_to_one=True)
for group in found.clusters[:8]:
    columns = ", ".join(f"{column.table}.{column.header}" for column in group.columns)
    print(f"{group.name:20} {group.score:.2f}  {columns}")

truth = load_truth()
right = [
    truth.concept_of(pair.first.table, pair.first.header) == truth.concept_of(pair.second.table, pair.second.header)
    for pair in found.pairs
]
print(f"\n{sum(right)} of {len(right)} pairs mean the same in truth")

unified = model.unify(frames, originals=True)
before = sum(len(frame.columns) for frame in frames.values())
print(f"one table: {unified.table.num_rows} rows, {len(unified.spec.columns)} columns instead of {before}")
for column in unified.spec.columns[:5]:
    print(f"{column.name:20} {column.type:8} {', '.join(f'{each.table}.{each.header}' for each in column.sources)}")
