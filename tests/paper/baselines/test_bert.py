"""BERT over rows as plain text."""

from __future__ import annotations

import numpy as np
import torch
from transformers import BertForMaskedLM, BertModel

from navi.corpus.arrays import SegmentArrays
from navi_paper.baselines.baseline import Baseline


def permute_columns(arrays: SegmentArrays) -> SegmentArrays:
    """Reverse the cells of each row."""
    from dataclasses import replace

    pieces = np.split(arrays.row_segments, arrays.row_offsets[1:-1])
    return replace(arrays, row_segments=np.concatenate([piece[::-1] for piece in pieces]))


def pad(batch, name="token_ids"):
    """Return a packed batch as padded token ids, and which of them are real."""
    rows = torch.tensor_split(batch[name], batch["row_starts"][1:-1])
    ids = torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    real = torch.nn.utils.rnn.pad_sequence([torch.ones(len(row), dtype=torch.int64) for row in rows], batch_first=True)
    return ids, real


def copy_to_own(baseline: Baseline) -> BertForMaskedLM:
    """Return the same model with the attention that transformers itself would take."""
    config = type(baseline.config)(**baseline.config.to_dict())
    config._attn_implementation = "eager"
    own = BertForMaskedLM(config)
    own.load_state_dict(baseline.model.state_dict())
    return own.eval()


def test_a_row_is_written_as_plain_text(make_baseline, corpus, read_words):
    text = make_baseline("bert").write(corpus.arrays, np.array([0]))
    words = read_words(text.token_ids)
    assert words.startswith("[CLS] title : ")
    assert words.endswith(" [SEP]")
    assert words.count(" : ") == 4
    assert words.count(" , ") == 3


def test_packed_rows_are_encoded_as_transformers_encodes_padded_ones(make_baseline, make_arrays):
    baseline = make_baseline("bert")
    batch = baseline.make_input(make_arrays(), np.arange(9), None)
    ids, real = pad(batch)
    with torch.no_grad():
        logits = copy_to_own(baseline)(input_ids=ids, attention_mask=real).logits[real.bool()]
        found = baseline.score_tokens(baseline.encode(batch))
    torch.testing.assert_close(found, logits, rtol=1e-4, atol=1e-4)


def test_the_loss_is_that_of_transformers(make_baseline, make_arrays):
    baseline = make_baseline("bert")
    batch = baseline.make_batch(make_arrays(), np.arange(9), seed=0, epoch=0)
    ids, real = pad(batch)
    labels = torch.full_like(batch["token_ids"], -100)
    labels[batch["target_position"]] = batch["target_token"]
    padded = torch.full_like(ids, -100)
    padded[real.bool()] = labels
    with torch.no_grad():
        expected = copy_to_own(baseline)(input_ids=ids, attention_mask=real, labels=padded).loss
        torch.testing.assert_close(baseline.compute_loss(batch), expected, rtol=1e-4, atol=1e-4)


def test_it_starts_with_the_weights_of_its_backbone(make_baseline, backbone):
    own = BertModel.from_pretrained(backbone, add_pooling_layer=False)
    found = make_baseline("bert").model.bert.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in own.state_dict().items())


def test_the_head_is_tied_to_the_words(make_baseline):
    model = make_baseline("bert").model
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight


def test_the_head_starts_as_that_of_navi(make_baseline, backbone):
    from navi.model import load_backbone

    with torch.random.fork_rng():
        torch.manual_seed(1)
        head = load_backbone(backbone).head
    found = make_baseline("bert").model.cls.predictions
    assert torch.equal(found.transform.dense.weight, head.transform.dense.weight)


def test_the_order_of_columns_matters_to_it(make_baseline, make_arrays):
    baseline, arrays = make_baseline("bert"), make_arrays(cells=(3, 6))
    before, after = (baseline.embed(each, np.arange(8))["rows"] for each in (arrays, permute_columns(arrays)))
    assert np.abs(before - after).max() > 0.05
