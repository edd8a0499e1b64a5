"""Find rows across tables with different schemas, and the same film in two of them."""

from __future__ import annotations

from catalogues import load_frames, load_truth, make_model

import navi
from navi.verbs import index_frames

model = navi.Navi.from_pretrained(make_model())
frames = load_frames()

index = index_frames(model, frames)  # once, for many searches
for like in ("country=Japan, genre=horror", "language=french, year=1987"):
    print(f"like {like}")
    for found in index.search(like, k=3)[0]:
        cells = ", ".join(f"{header}={value}" for header, value in list(found.cells.items())[:3])
        print(f"  {found.confidence:.2f}  {found.table}:{found.row}  {cells}")

truth = load_truth()
left, right = max(
    ((a, b) for a in frames for b in frames if a < b), key=lambda pair: len(truth.shared_rows(pair[0], pair[1]))
)
links = model.link({left: frames[left], right: frames[right]}, one_to_one=True)
found_rows = set(zip(links.left_row - 1, links.right_row - 1, strict=True))
gold = set(truth.shared_rows(left, right))
print(f"\n{left} and {right} share {len(gold)} films; {len(found_rows)} pairs found, {len(found_rows & gold)} right")
