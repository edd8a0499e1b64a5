from __future__ import annotations

import pytest


def test_smoke(navi, world):
    import pandas as pd, time

    print(world.__class__, dir(world))
    from navi.inference.imputation import impute_table

    t = world.tables[0] if hasattr(world, "tables") else None
    print(t)
    rows = [
        {
            "title": f"film {i}",
            "genre": ["drama", "comedy", "horror"][i % 3],
            "year": str(1990 + i % 20),
            "color": ["red", "green", "blue"][i % 3],
        }
        for i in range(90)
    ]
    rows[3]["genre"] = None
    rows[5]["year"] = ""
    rows[7] = {"title": None}
    for make in (lambda r: r, pd.DataFrame):
        t0 = time.time()
        im = impute_table(navi, make(rows))
        print(im.cells.to_pandas().to_string(), im.notes, time.time() - t0)
