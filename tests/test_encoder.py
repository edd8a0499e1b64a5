"""Tests of the encoder's laws: packed equals padded equals one by one, column order leaves no trace."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModel, BertModel

from navi.batches import BatchBuilder, MaskingConfig
from navi.errors import ConfigError
from navi.model import NaviConfig, NaviModel, load_backbone
from navi.model.encoder import Dropout

TOLERANCE = {"atol": 1e-5, "rtol": 0.0}
VARIANTS = [(0.0, False), (0.0, True), (0.5, False), (0.5, True)]
MASKING = MaskingConfig(header_share=0.4, value_share=0.4, unknown_attribute_rate=0.6)
GATES = pytest.mark.parametrize(("share", "gate"), VARIANTS)


@pytest.fixture(scope="module")
def models(tiny_backbone):
    """One model for each (share of local heads, gate), without dropout, its unknown attribute away from zero."""
    made = {}
    for share, gate in VARIANTS:
        model = load_backbone(tiny_backbone, local_head_share=share, attribute_gate=gate).eval()
        with torch.no_grad():
            generator = torch.Generator().manual_seed(1)
            model.unknown_attribute.copy_(torch.randn(32, generator=generator))
        made[share, gate] = model.requires_grad_(False)
    return made


def run_layer(layer, hidden_NPD, see_NHPP):
    """Return one BERT layer's output, attention written out with an explicit mask."""
    attention = layer.attention
    num_sequences, length, width = hidden_NPD.shape
    num_heads = see_NHPP.shape[1]

    def split(linear):
        return linear(hidden_NPD).view(num_sequences, length, num_heads, -1).transpose(1, 2)

    query, key, value = (split(getattr(attention.self, name)) for name in ("query", "key", "value"))
    scores = query @ key.transpose(2, 3) / math.sqrt(width / num_heads)
    weights = scores.masked_fill(~see_NHPP, -torch.inf).softmax(dim=3)
    mixed = (weights @ value).transpose(1, 2).reshape(num_sequences, length, width)
    attended = attention.output.LayerNorm(attention.output.dense(mixed) + hidden_NPD)
    inner = F.gelu(layer.intermediate.dense(attended))
    return layer.output.LayerNorm(layer.output.dense(inner) + attended)


def run_embeddings(embeddings, tokens, positions, added):
    word, place = embeddings.word_embeddings.weight[tokens], embeddings.position_embeddings.weight[positions]
    return embeddings.LayerNorm(word + place + embeddings.token_type_embeddings.weight[0] + added)


def encode_attribute(model, arrays, attribute):
    """Return the context-free embedding e_a of one attribute."""
    span = slice(arrays.attribute_offsets[attribute], arrays.attribute_offsets[attribute + 1])
    tokens = torch.from_numpy(arrays.attribute_tokens[span].astype(np.int64))
    encoder = model.attribute_encoder
    hidden = run_embeddings(encoder.embeddings, tokens, torch.arange(len(tokens)), torch.zeros(32)).unsqueeze(0)
    see = torch.ones(1, 4, len(tokens), len(tokens), dtype=torch.bool)
    for layer in encoder.layers:
        hidden = run_layer(layer, hidden, see)
    return hidden[0].mean(dim=0)


def project(model, attribute, header, value):
    """Return σ = g(e_a ‖ e_h ‖ e_v) as the appendix writes it."""
    g = model.projection
    inner = F.layer_norm(F.gelu(F.linear(torch.cat([attribute, header, value]), g.expand.weight, g.expand.bias)), [64])
    return F.layer_norm(F.linear(inner, g.compress.weight, g.compress.bias), [32])


def encode_padded(model, arrays, layout, tokens, unknown):
    """Encode rows padded to the longest, with an explicit (H, P, P) mask each; return what `flatten` of a row holds."""
    config = model.config
    lengths = layout.starts.diff().tolist()
    padded = max(lengths)
    hidden = torch.zeros(len(lengths), padded, 32)
    see = torch.zeros(len(lengths), 4, padded, padded, dtype=torch.bool)
    see[:] = torch.eye(padded, dtype=torch.bool)  # padding sees itself, so that its softmax is defined
    attributes = [encode_attribute(model, arrays, arrays.segment_attribute[i]) for i in layout.segment_id.tolist()]
    for row, length in enumerate(lengths):
        span = slice(layout.starts[row], layout.starts[row] + length)
        segment = layout.spread(torch.arange(len(layout.segment_id)), -1)[span]
        added = torch.zeros(length, 32)
        for place, number in enumerate(segment.tolist()):
            if number >= 0:
                added[place] = gate(model, attributes[number]) if not unknown[number] else model.unknown_attribute
        positions = layout.token_position[span]
        hidden[row, :length] = run_embeddings(model.embeddings, tokens[span], positions, added)
        see[row, :, :length, :length] = True
        local = 4 - int(4 * config.local_head_share)
        see[row, local:, 1:length, :length] = segment[1:, None] == segment[None, :]
    for layer in model.layers:
        hidden = run_layer(layer, hidden, see)
    states = [hidden[row, :length] for row, length in enumerate(lengths)]
    return gather(model, layout, attributes, unknown, torch.cat(states))


def gate(model, attribute):
    if not model.config.attribute_gate:
        return attribute
    return attribute / attribute.norm() * model.attribute_scale


def gather(model, layout, attributes, unknown, states_TD):
    """Return every embedding that the model should give, from the states of the tokens."""
    found = {"tokens": states_TD, "cls": states_TD[layout.starts[:-1]]}
    headers, values, segments = [], [], []
    for number, attribute in enumerate(attributes):
        headers.append(states_TD[layout.token_span == 2 * number].mean(dim=0))
        values.append(states_TD[layout.token_span == 2 * number + 1].mean(dim=0))
        used = model.unknown_attribute if unknown[number] else attribute
        segments.append(project(model, used, headers[-1], values[-1]))
    return found | {"headers": torch.stack(headers), "values": torch.stack(values), "segments": torch.stack(segments)}


def encode(model, rows):
    """Return the model's own embeddings, by name."""
    output = model(rows)
    found = {name: getattr(output, name) for name in ("tokens", "cls", "headers", "values")}
    return found | {"segments": model.embed_segments(output)}


def embed(model, rows):
    """Return every embedding that is handed out, of rows first."""
    output = model(rows)
    found = {"cls": output.cls, "rows": model.pool_rows(output), "headers": model.pool_headers(output)}
    return found | {"values": output.values, "segments": model.embed_segments(output)}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], **TOLERANCE, msg=lambda text, name=name: name + text)


@GATES
def test_masked_and_plain_copies_packed_together_encode_as_rows_padded(models, make_arrays, special, share, gate):
    arrays, rows, model = make_arrays(seed=13), np.arange(7), models[share, gate]
    builder = BatchBuilder(arrays, special, masking=MASKING)
    layout = builder.lay_out(rows)
    masks, _ = builder.mask_layout(layout, epoch=0)
    assert masks.segment_unknown.any()
    known = torch.zeros_like(masks.segment_unknown)
    expected = [encode_padded(model, arrays, layout, masks.token_ids, masks.segment_unknown)]
    expected.append(encode_padded(model, arrays, layout, layout.token_ids, known))
    found = encode(model, builder.build(rows, epoch=0).rows)
    assert_same(found, {name: torch.cat([half[name] for half in expected]) for name in found})
    assert_same(encode(model, builder.pack_rows(rows)), expected[1])


def test_the_paper_encoder_without_attributes_is_the_librarys_bert(tiny_backbone, make_arrays, special):
    arrays, rows = make_arrays(seed=14), np.arange(8)
    model = load_backbone(tiny_backbone, local_head_share=0.0, attribute_embedding=False).eval()
    bert = BertModel.from_pretrained(tiny_backbone, add_pooling_layer=False).eval()
    packed = BatchBuilder(arrays, special).pack_rows(rows)
    tokens, lengths = model(packed).tokens, packed.starts.diff().tolist()
    for row, (ids, positions) in enumerate(
        zip(packed.token_ids.split(lengths), packed.token_position.split(lengths), strict=True)
    ):
        expected = bert(input_ids=ids[None], position_ids=positions[None]).last_hidden_state[0]
        torch.testing.assert_close(tokens.split(lengths)[row], expected, **TOLERANCE)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**16), variant=st.sampled_from(VARIANTS))
def test_permuting_the_columns_of_a_row_changes_no_embedding(models, make_arrays, special, seed, variant):
    arrays, model = make_arrays(seed=seed, num_rows=6, cells=(2, 6)), models[variant]
    rng = np.random.default_rng(seed)
    order = np.concatenate([first + rng.permutation(last - first) for first, last in pairwise(arrays.row_offsets)])
    permuted = replace(arrays, row_segments=arrays.row_segments[order])
    rows = np.arange(6)
    plain = embed(model, BatchBuilder(arrays, special).pack_rows(rows))
    moved = embed(model, BatchBuilder(permuted, special).pack_rows(rows))
    for name in ("cls", "rows"):
        torch.testing.assert_close(moved[name], plain[name], **TOLERANCE)
    for name in ("headers", "values", "segments"):
        torch.testing.assert_close(moved[name], plain[name][torch.from_numpy(order)], **TOLERANCE)


def test_moving_a_value_to_another_column_does_change_the_row(models, make_arrays, special):
    """The invariance is to the order of columns, not to which value stands under which header."""
    arrays = make_arrays(num_rows=1, num_tables=1, cells=(2, 2), num_values=40, seed=5)
    swapped = replace(arrays, segment_value=arrays.segment_value[::-1].copy())
    rows = np.array([0])
    for model in models.values():
        one, other = (embed(model, BatchBuilder(a, special).pack_rows(rows))["rows"] for a in (arrays, swapped))
        assert (one - other).abs().max() > 1e-2


@settings(max_examples=10)
@given(others=st.lists(st.integers(0, 23), max_size=8), place=st.integers(0, 8), variant=st.sampled_from(VARIANTS))
def test_the_rows_beside_a_row_do_not_matter(models, make_arrays, special, others, place, variant):
    builder, model = BatchBuilder(make_arrays(seed=3), special), models[variant]
    place = min(place, len(others))
    rows = np.array([*others[:place], 7, *others[place:]])
    alone, together = embed(model, builder.pack_rows(np.array([7]))), builder.pack_rows(rows)
    found = embed(model, together)
    within = together.segment_row == place
    for name in ("cls", "rows"):
        torch.testing.assert_close(found[name][place], alone[name][0], **TOLERANCE)
    for name in ("headers", "values", "segments"):
        torch.testing.assert_close(found[name][within], alone[name], **TOLERANCE)


def test_two_blind_headers_of_a_row_are_told_apart_by_local_heads_alone(models, make_arrays, special):
    """Without the attribute, what binds a masked header to its value is the heads that see their segment."""
    arrays = make_arrays(num_rows=1, num_tables=1, cells=(2, 2), num_values=40, seed=8)
    one_token = np.arange(len(arrays.header_offsets), dtype=np.int64)
    arrays = replace(arrays, header_offsets=one_token, header_tokens=arrays.header_tokens[: len(one_token) - 1])
    blind = MaskingConfig(header_share=1.0, value_share=0.0, unknown_attribute_rate=1.0, mask_rate=1.0, random_rate=0.0)
    rows = BatchBuilder(arrays, special, masking=blind, align=False).build(np.array([0]), epoch=0).rows
    wide, local = (models[share, True](rows).headers for share in (0.0, 0.5))
    torch.testing.assert_close(wide[0], wide[1], **TOLERANCE)
    assert (local[0] - local[1]).abs().max() > 1e-2


def test_the_gate_scales_the_attribute_but_not_the_anchor(models, make_arrays, special):
    rows = BatchBuilder(make_arrays(), special).pack_rows(np.arange(4))
    table = models[0.5, True].embed_attributes(rows.attributes)
    assert models[0.5, True](rows, table).tokens.equal(models[0.5, True](rows).tokens)  # one encoded earlier serves
    assert not table[0].any()
    assert table[1].equal(models[0.5, True].unknown_attribute)
    stretched = torch.cat([table[:2], 3 * table[2:]])
    for share in (0.0, 0.5):
        gated, plain = models[share, True], models[share, False]
        torch.testing.assert_close(gated(rows, stretched).cls, gated(rows, table).cls, **TOLERANCE)
        assert (plain(rows, stretched).cls - plain(rows, table).cls).abs().max() > 1e-3
    assert table[2:].norm(dim=1).std() > 1e-4


def test_a_segment_is_g_of_its_attribute_header_and_value(tiny_backbone, make_arrays, special):
    """g: Linear 3D to 2D, GELU, LayerNorm, Linear 2D to D, LayerNorm; with norms that are not those of a new model."""
    model = load_backbone(tiny_backbone).eval().requires_grad_(False)
    for norm in (model.projection.inner_norm, model.projection.norm):
        torch.nn.init.uniform_(norm.weight, 0.5, 1.5, generator=torch.Generator().manual_seed(0))
        torch.nn.init.normal_(norm.bias, generator=torch.Generator().manual_seed(1))
    rows = BatchBuilder(make_arrays(), special).pack_rows(np.arange(5))
    output, state = model(rows), model.projection.state_dict()
    for number, found in enumerate(model.embed_segments(output)):
        attribute = output.attribute_table[rows.segment_slot[number]]
        joined = torch.cat([attribute, output.headers[number], output.values[number]])
        inner = F.gelu(state["expand.weight"] @ joined + state["expand.bias"])
        inner = (inner - inner.mean()) / (inner.var(unbiased=False) + 1e-5).sqrt()
        inner = inner * state["inner_norm.weight"] + state["inner_norm.bias"]
        outer = state["compress.weight"] @ inner + state["compress.bias"]
        outer = (outer - outer.mean()) / (outer.var(unbiased=False) + 1e-5).sqrt()
        torch.testing.assert_close(found, outer * state["norm.weight"] + state["norm.bias"], **TOLERANCE)


def test_without_attributes_neither_tokens_nor_segments_know_them(tiny_backbone, make_arrays, special):
    model = load_backbone(tiny_backbone, attribute_embedding=False, header_attribute=False).eval().requires_grad_(False)
    rows = BatchBuilder(make_arrays(), special).pack_rows(np.arange(5))
    other = model.embed_attributes(rows.attributes) + 1.0
    first, second = model(rows), model(rows, other)
    torch.testing.assert_close(second.tokens, first.tokens)
    torch.testing.assert_close(model.embed_segments(second), model.embed_segments(first))


def test_a_row_is_its_cls_and_the_words_of_its_values_before_their_context(models, make_arrays, special):
    model, rows = models[0.5, True], BatchBuilder(make_arrays(), special).pack_rows(np.arange(4))
    embedded = []
    hook = model.embeddings.dropout.register_forward_hook(lambda *given: embedded.append(given[2]))
    output = model(rows)
    hook.remove()
    found = model.pool_rows(output)
    for row in range(4):
        spans = rows.token_span.tolist()
        own = [
            place
            for place in range(rows.starts[row], rows.starts[row + 1])
            if spans[place] % 2 == 1 and spans[place] < 2 * rows.num_segments
        ]
        words = embedded[0][own].mean(dim=0)
        expected = F.normalize(output.cls[row], dim=0) + F.normalize(words, dim=0)
        torch.testing.assert_close(found[row], expected * math.sqrt(32 / 2), **TOLERANCE)
    # And a header is its states and its attribute.
    attributes = output.attribute_table[rows.segment_slot]
    expected = (F.normalize(output.headers, dim=1) + F.normalize(attributes, dim=1)) * math.sqrt(32 / 2)
    torch.testing.assert_close(model.pool_headers(output), expected, **TOLERANCE)


def test_logits_come_for_the_asked_positions_alone(models, make_arrays, special):
    rows, model = BatchBuilder(make_arrays(), special).pack_rows(np.arange(5)), models[0.5, True]
    output, positions = model(rows), torch.tensor([5, 1])
    logits = model.predict_tokens(output, positions)
    assert logits.shape == (2, 200)
    transform = model.head.transform
    hidden = transform.LayerNorm(F.gelu(transform.dense(output.tokens[positions])))
    expected = hidden @ model.embeddings.word_embeddings.weight.T + model.head.bias
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-5)


@GATES
def test_rows_embedded_alone_are_those_of_the_whole_pass(models, make_arrays, special, share, gate):
    model = models[share, gate]
    rows = BatchBuilder(make_arrays(seed=14, cells=(0, 6)), special).pack_rows(np.arange(8))
    torch.testing.assert_close(
        model.pool_rows(model(rows, read_tokens=rows.starts[:-1])), model.pool_rows(model(rows)), **TOLERANCE
    )


@pytest.mark.parametrize("setting", ["row_words", "header_attribute"])
def test_as_the_paper_has_it_rows_are_cls_and_headers_their_states(tiny_backbone, make_arrays, special, setting):
    model = load_backbone(tiny_backbone, **{setting: False}).eval()
    rows = BatchBuilder(make_arrays(seed=14), special).pack_rows(np.arange(4))
    output = model(rows)
    found = {"row_words": model.pool_rows(output), "header_attribute": model.pool_headers(output)}
    states = {"row_words": output.cls, "header_attribute": output.headers}
    for name, embedded in found.items():
        assert torch.equal(embedded, states[name]) == (name == setting)


def test_rows_without_cells_have_an_embedding_too(models, make_arrays, special):
    arrays = replace(
        make_arrays(num_rows=2), row_offsets=np.zeros(3, dtype=np.int64), row_segments=np.zeros(0, dtype=np.int32)
    )
    model, rows = models[0.5, True], BatchBuilder(arrays, special).pack_rows(np.arange(2))
    found = embed(model, rows)
    for name in ("cls", "rows"):
        assert found[name][0].equal(found[name][1])
        assert found[name].isfinite().all()
    torch.testing.assert_close(model.pool_rows(model(rows, read_tokens=rows.starts[:-1])), found["rows"], **TOLERANCE)
    assert found["headers"].shape == (0, 32)


def test_a_model_in_half_precision_gives_nearly_the_same_in_float32(tiny_backbone, make_arrays, special):
    rows = BatchBuilder(make_arrays(), special).pack_rows(np.arange(5))
    model = load_backbone(tiny_backbone).eval()
    exact = embed(model, rows)
    rounded = embed(model.to(torch.bfloat16), rows)
    assert model.predict_tokens(model(rows), torch.tensor([1])).dtype == torch.bfloat16
    for name in exact:
        assert rounded[name].dtype == torch.float32
        assert F.cosine_similarity(rounded[name], exact[name]).min() > 0.99


@pytest.mark.parametrize("load", [NaviModel.from_pretrained, AutoModel.from_pretrained], ids=["navi", "auto"])
def test_a_saved_model_is_safetensors_and_configuration_and_comes_back_bit_for_bit(models, tmp_path, load):
    for place, model in enumerate(models.values()):
        model.save_pretrained(tmp_path / str(place))
        assert {file.name for file in (tmp_path / str(place)).iterdir()} == {"config.json", "model.safetensors"}
        loaded = load(tmp_path / str(place))
        assert isinstance(loaded, NaviModel)
        assert loaded.state_dict().keys() == model.state_dict().keys()
        for name, tensor in model.state_dict().items():
            assert loaded.state_dict()[name].equal(tensor), name
        assert loaded.head.decoder.weight is loaded.embeddings.word_embeddings.weight
        assert loaded.head.decoder.bias is loaded.head.bias
        assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    (tmp_path / "0" / "model.safetensors").unlink()  # pickled weights alone are refused
    torch.save(model.state_dict(), tmp_path / "0" / "pytorch_model.bin")
    with pytest.raises(OSError, match=r"no file named model.safetensors"):
        load(tmp_path / "0")


@pytest.mark.parametrize(
    ("num_layers", "from_one"), [(12, [8, 9]), (24, [16, 17]), (6, [4, 5]), (3, [2, 3]), (2, [1, 2]), (1, [1, 1])]
)
def test_the_attribute_encoder_starts_from_the_like_of_layers_eight_and_nine_of_twelve(num_layers, from_one):
    assert [layer + 1 for layer in NaviConfig(num_hidden_layers=num_layers).attribute_layers] == from_one


def test_a_configuration_survives_its_file_and_has_no_attention_dropout(tmp_path):
    switches = {"attribute_gate": False, "attribute_embedding": False, "header_attribute": False, "row_words": False}
    others = {"attribute_layers": [0, 4], "local_head_share": 0.25, "projection_dropout": 0.3, "num_hidden_layers": 5}
    NaviConfig(**switches, **others, attention_probs_dropout_prob=0.3).save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(loaded, NaviConfig)
    for name, value in (switches | others | {"attention_probs_dropout_prob": 0.0}).items():
        assert getattr(loaded, name) == value, name
    assert loaded.num_local_heads == 3
    with pytest.raises(ConfigError, match="The model has format version 1, this version reads 2"):
        NaviConfig(format_version=1)
    for share in (-0.1, 1.0):
        with pytest.raises(ConfigError, match=f"local_head_share must be at least 0 and less than 1, got {share}"):
            NaviConfig(local_head_share=share)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(401, 503), (1, 3, 67_001)])
def test_a_seeded_share_is_dropped_and_the_others_are_scaled_so_that_the_mean_stays(share, shape):
    torch.manual_seed(0)
    again = Dropout(share)(torch.ones(shape))
    torch.manual_seed(0)
    states = torch.ones(shape, requires_grad=True)
    found = Dropout(share)(states)
    assert torch.equal(found, again)
    assert torch.equal(Dropout(share).eval()(states), states)
    dropped = (found == 0).double().mean().item()
    assert dropped == pytest.approx(share, abs=0.005)
    torch.testing.assert_close(
        found[found != 0], torch.full_like(found[found != 0], 1 / (1 - share)), rtol=1e-4, atol=0
    )
    found.sum().backward()
    assert torch.equal(states.grad, found.detach())
    neighbours = (found.detach().flatten()[: found.numel() // 4 * 4] == 0).double().view(-1, 4)
    assert (torch.corrcoef(neighbours.T) - torch.eye(4)).abs().max() < 0.02
