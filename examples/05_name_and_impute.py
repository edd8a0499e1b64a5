"""Name columns that have lost their headers, and fill empty cells, each beside the truth."""

from __future__ import annotations

from catalogues import load_frames, load_truth, make_model

import navi

model = navi.Navi.from_pretrained(make_model())
frames, truth = load_frames(), load_truth()
table = max(frames, key=lambda name: sum(gap[0] == name for gap in truth.gaps))
frame = frames[table]

# Three columns lose their headers; the model sees their values and the rest of the row.
hidden = dict(zip(frame.columns[1:4], ("col_2", "col_3", "col_4"), strict=True))
for header, names in zip(hidden, model.name_columns(frame.rename(columns=hidden), top=2), strict=True):
    proposed = ", ".join(f"{candidate.header} {candidate.probability:.2f}" for candidate in names.candidates)
    print(f"{table}.{header} without its header: {proposed}")

result = model.impute(frame, confidence=0.6)
fills = [cell for cell in result.cells.to_pylist() if cell["reason"] == "filled"]
known = [(cell, truth.gaps.get((table, cell["row"] - 1, cell["column"]))) for cell in fills]
right = [cell["value"].casefold() == held.casefold() for cell, held in known if held is not None]
print(f"\n{result.num_filled} of {result.cells.num_rows} empty cells filled; {sum(right)} of {len(right)} are right")
for cell, held in sorted(known, key=lambda pair: -pair[0]["probability"])[:5]:
    print(f"  row {cell['row']}, {cell['column']}: {cell['value']} ({cell['probability']:.2f}), was {held}")
