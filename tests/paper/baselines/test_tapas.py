"""TAPAS over tables of one row."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from navi_paper.baselines.tapas import make_positions, make_types, shelve


def pad(batch, name):
    rows = torch.tensor_split(batch[name], batch["row_starts"][1:-1])
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


def test_headers_come_first_then_values(make_baseline, corpus, read_words):
    text = make_baseline("tapas").write(corpus.arrays, np.array([0]))
    words = read_words(text.token_ids).split()
    assert words[:6] == ["[CLS]", "[SEP]", "title", "year", "genre", "language"]
    assert len(words) == 2 + 4 + 5
    assert (text.token_span[2:6] % 2 == 0).all()
    assert (text.token_span[6:] % 2 == 1).all()


def test_type_ids_say_segment_column_and_row(make_baseline, corpus):
    types = make_types(make_baseline("tapas").write(corpus.arrays, np.array([0])))
    # [CLS], [SEP], four headers, then values of which the first, a title, has two words.
    assert types[:, 0].tolist() == [0, 0] + [1] * 9
    assert types[:, 1].tolist() == [0, 0, 1, 2, 3, 4, 1, 1, 2, 3, 4]
    assert types[:, 2].tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    assert (types[:, 3:] == 0).all()
    assert types.shape[1] == 7


def test_positions_restart_in_each_cell(make_baseline, corpus):
    positions = make_positions(make_baseline("tapas").write(corpus.arrays, np.array([0, 0])))
    assert positions.tolist() == [0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0] * 2


def test_positions_restart_in_each_row_even_without_cells(make_baseline, make_arrays):
    text = make_baseline("tapas").write(make_arrays(cells=(0, 0)), np.arange(3))
    assert make_positions(text).tolist() == [0, 1] * 3


def test_rows_are_encoded_as_transformers_encodes_them_padded(make_baseline, make_arrays):
    baseline = make_baseline("tapas")
    batch = baseline.make_input(make_arrays(), np.arange(9), None)
    real = pad(batch | {"ones": torch.ones_like(batch["token_ids"])}, "ones").bool()
    with torch.no_grad():
        # Transformers is not told the positions: it finds them from the type ids.
        own = baseline.model(
            input_ids=pad(batch, "token_ids"), attention_mask=real.long(), token_type_ids=pad(batch, "token_types")
        )
        found = baseline.score_tokens(baseline.encode(batch))
    torch.testing.assert_close(found, own.logits[real], rtol=1e-4, atol=1e-4)


def test_it_starts_with_the_weights_of_its_backbone_where_they_fit(make_baseline):
    tapas, bert = make_baseline("tapas").model.tapas.state_dict(), make_baseline("bert").model.bert.state_dict()
    shared = set(tapas) & set(bert)
    assert all(torch.equal(tapas[name], bert[name]) for name in shared)
    assert {name for name in tapas if name not in shared} == {
        f"embeddings.token_type_embeddings_{number}.weight" for number in range(7)
    }
    segment = tapas["embeddings.token_type_embeddings_0.weight"]
    assert torch.equal(segment, bert["embeddings.token_type_embeddings.weight"][:1].expand(3, -1))


def test_its_head_starts_as_that_of_bert(make_baseline):
    tapas, bert = (make_baseline(name).model.cls.state_dict() for name in ("tapas", "bert"))
    assert set(tapas) == set(bert)
    assert all(torch.equal(tapas[name], bert[name]) for name in bert)


def test_a_row_has_no_more_columns_than_there_are_embeddings_of_them(make_baseline, make_arrays, monkeypatch):
    baseline, arrays = make_baseline("tapas"), make_arrays(cells=(6, 6))
    monkeypatch.setattr(baseline.model.config, "type_vocab_sizes", [3, 4, 256, 2, 256, 256, 10])
    types = make_types(baseline.write(arrays, np.arange(5)))
    assert types[:, 1].max() == 3


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(1, 70), min_size=1, max_size=12))
def test_shelves_hold_every_token_once_and_are_at_most_half_empty(lengths):
    starts = np.concatenate([[0], np.cumsum(lengths)])
    shelves, order = shelve(starts)
    laid = np.concatenate([shelf.ravel() for shelf in shelves])
    assert np.array_equal(laid[order], np.arange(starts[-1]))
    assert (laid >= 0).sum() == starts[-1]
    for shelf in shelves:
        assert (shelf >= 0).sum(axis=1).min() > shelf.shape[1] / 2
