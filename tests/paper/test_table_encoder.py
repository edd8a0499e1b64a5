"""Tests of NAVI behind the interface of every evaluated encoder: its answers are those of rows encoded one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from navi.batches import BatchBuilder
from navi_paper.table_encoder import PARTS, Hidden
from navi_paper.tasks.prediction import draw_cells

ROWS = np.array([40, 3, 150, 3, 77, 200, 12])


def draw_hidden(corpus, part="header", blind=False, share=0.4):
    cells = draw_cells(corpus.arrays.take_rows(ROWS), share, 0)
    return Hidden(part=part, cells=cells, blind=blind)


def read_one_by_one(navi_tables, arrays, rows, hidden):
    """Return the logits at hidden tokens, row after row, each encoded alone and masked here."""
    special, model = navi_tables.runner.special, navi_tables.runner.model
    builder = BatchBuilder(arrays, special, align=False)
    start, found = 0, []
    for row in rows:
        layout = builder.lay_out(np.array([row]))
        own = hidden.cells[start : start + len(layout.segment_id)]
        start += len(own)
        spans = 2 * np.flatnonzero(own) + (hidden.part == "value")
        masked = torch.isin(layout.token_span, torch.from_numpy(spans))
        layout = replace(
            layout,
            token_ids=torch.where(masked, special.mask, layout.token_ids),
            segment_unknown=torch.from_numpy(own & hidden.blind),
        )
        with torch.inference_mode():
            output = model(builder.pack_layout(layout))
            found.append(model.predict_tokens(output, masked.nonzero().squeeze(1)))
    return torch.cat(found)


@pytest.mark.parametrize(("part", "blind"), [("header", False), ("header", True), ("value", False)])
def test_guesses_are_those_of_rows_encoded_one_by_one(navi_tables, corpus, part, blind):
    hidden = draw_hidden(corpus, part, blind)
    logits = read_one_by_one(navi_tables, corpus.arrays, ROWS, hidden)
    assert np.array_equal(navi_tables.predict(corpus.arrays, ROWS, hidden), logits.argmax(dim=1).numpy())


def test_embeddings_come_in_the_order_asked_for(navi_tables, corpus):
    whole = navi_tables.embed(corpus.arrays, ROWS, parts=PARTS)
    alone = [navi_tables.embed(corpus.arrays, np.array([row]), parts=PARTS) for row in ROWS]
    for part in PARTS:
        np.testing.assert_allclose(whole[part], np.concatenate([each[part] for each in alone]), atol=1e-4)
