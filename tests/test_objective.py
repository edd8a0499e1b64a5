"""Section 3 of the paper once more, row by row and cell by cell: the loss of a batch and its gradient must be these."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from navi.batches import BatchBuilder
from navi.corpus.arrays import ROLE_HIGH, ROLE_LOW
from navi.losses import compute_losses, measure_step
from navi.model import load_backbone
from navi.training import make_preset

ROWS = np.arange(10)
PAPER = make_preset("paper")
WITHOUT_DROPOUT = {"hidden_dropout_prob": 0.0, "projection_dropout": 0.0}


def run_layer(layer, hidden_LD, num_heads):
    """Return one Transformer layer's output for one sequence, every token seeing all."""
    attention, width = layer.attention, hidden_LD.shape[1] // num_heads
    query, key, value = (getattr(attention.self, name)(hidden_LD) for name in ("query", "key", "value"))
    mixed = []
    for head in range(num_heads):
        own = slice(head * width, (head + 1) * width)
        weights = (query[:, own] @ key[:, own].T / math.sqrt(width)).softmax(dim=1)
        mixed.append(weights @ value[:, own])
    attended = attention.output.LayerNorm(attention.output.dense(torch.cat(mixed, dim=1)) + hidden_LD)
    return layer.output.LayerNorm(layer.output.dense(F.gelu(layer.intermediate.dense(attended))) + attended)


class Reference:
    """The paper's definitions over a model's own weights: no packing, no batches, no shared work."""

    def __init__(self, model, arrays, special):
        self.model, self.arrays, self.special = model, arrays, special

    def embed(self, embeddings, tokens, positions, added):
        word, place = embeddings.word_embeddings.weight[tokens], embeddings.position_embeddings.weight[positions]
        return embeddings.LayerNorm(word + place + embeddings.token_type_embeddings.weight[0] + added)

    def encode(self, layers, hidden):
        for layer in layers:
            hidden = run_layer(layer, hidden, self.model.config.num_attention_heads)
        return hidden

    def attribute(self, number):
        """e_a = Pool(f(x(a)))."""
        tokens = read(self.arrays.attribute_offsets, self.arrays.attribute_tokens, number)
        encoder = self.model.attribute_encoder
        return self.encode(encoder.layers, self.embed(encoder.embeddings, tokens, range(len(tokens)), 0.0)).mean(dim=0)

    def serialise(self, row):
        """Return the cells of a row, x(r), the position of each token in its segment, and the segment it is in."""
        arrays, special = self.arrays, self.special
        cells = range(arrays.row_offsets[row], arrays.row_offsets[row + 1])
        tokens, positions, owners = [special.cls], [0], [None]
        for cell in cells:
            segment = arrays.row_segments[cell]
            header = read(arrays.header_offsets, arrays.header_tokens, arrays.segment_header[segment])
            value = read(arrays.value_offsets, arrays.value_tokens, arrays.segment_value[segment])
            piece = [*header, special.colon, *value, special.sep]
            tokens, positions, owners = tokens + piece, [*positions, *range(len(piece))], owners + [cell] * len(piece)
        return list(cells), tokens, positions, owners

    def states(self, row, tokens):
        """[e_0 … e_L-1] = F(x(r)), with e_word + e_pos + e_a of each token of a segment going in."""
        _, _, positions, owners = self.serialise(row)
        nothing = torch.zeros(self.model.config.hidden_size)
        cell_attribute = self.arrays.segment_attribute[self.arrays.row_segments]
        added = [nothing if cell is None else self.attribute(cell_attribute[cell]) for cell in owners]
        return self.encode(self.model.layers, self.embed(self.model.embeddings, tokens, positions, torch.stack(added)))

    def segments(self, row):
        """Return (cell, σ, e^(v)) of each segment of an unmasked row."""
        arrays, projection = self.arrays, self.model.projection
        cells, tokens, _, owners = self.serialise(row)
        states = self.states(row, tokens)
        for cell in cells:
            segment = arrays.row_segments[cell]
            own = [place for place, owner in enumerate(owners) if owner == cell]
            length = len(read(arrays.header_offsets, arrays.header_tokens, arrays.segment_header[segment]))
            header, value = states[own[:length]].mean(dim=0), states[own[length + 1 : -1]].mean(dim=0)
            joined = torch.cat([self.attribute(arrays.segment_attribute[segment]), header, value])
            inner = projection.inner_norm(F.gelu(projection.expand(joined)))
            yield cell, projection.norm(projection.compress(inner)), value

    def masked_loss(self, masked_tokens, targets):
        """L_msm: the mean cross-entropy over all masked tokens, (row, place, token) each."""
        losses = []
        for row, tokens in masked_tokens.items():
            states = self.states(row, tokens)
            for place, token in targets[row]:
                transform = self.model.head.transform
                inner = transform.LayerNorm(F.gelu(transform.dense(states[place])))
                logits = self.model.embeddings.word_embeddings.weight @ inner + self.model.head.bias
                losses.append(torch.logsumexp(logits, dim=0) - logits[token])
        return sum(losses) / len(losses)

    def alignment_loss(self, rows, config):
        """L_align: the mean over the batch's tables of L_low and L_high."""
        arrays, total = self.arrays, 0.0
        tables = sorted(set(arrays.row_table[rows].tolist()))
        for table in tables:
            found = [(row, *each) for row in rows if arrays.row_table[row] == table for each in self.segments(row)]
            own = [column for column in range(arrays.num_columns) if arrays.column_table[column] == table]
            low = {arrays.column_attribute[column] for column in own if arrays.column_role[column] == ROLE_LOW}
            low_losses, high_losses = [], []
            for row, cell, sigma, value in found:
                column = arrays.cell_column[cell]
                if arrays.column_role[column] == ROLE_LOW:
                    attribute = arrays.column_attribute[column]
                    negatives = [self.attribute(other) for other in low if other != attribute]
                    low_losses.append(nce(sigma, self.attribute(attribute), negatives, config.temperature_low))
                elif arrays.column_role[column] == ROLE_HIGH:
                    others = [v for r, c, _, v in found if r != row and arrays.cell_column[c] == column]
                    high_losses.append(nce(sigma, value, others, config.temperature_high))
            total += sum(sum(losses) / len(losses) for losses in (low_losses, high_losses) if losses)
        return total / len(tables)


def read(offsets, tokens, number):
    return tokens[offsets[number] : offsets[number + 1]].tolist()


def nce(query, positive, negatives, temperature):
    scores = torch.stack([F.cosine_similarity(query, each, dim=0) / temperature for each in (positive, *negatives)])
    return -scores.log_softmax(dim=0)[0]


def take_gradients(model):
    """Return the gradients of a model's parameters, of those that have one, and remove them."""
    found = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    model.zero_grad()
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_the_loss_of_a_batch_and_its_gradient_are_those_of_the_paper(make_arrays, special, tiny_backbone, seed):
    arrays = make_arrays(seed=seed, num_rows=len(ROWS), num_tables=3, cells=(2, 5))
    model = load_backbone(tiny_backbone, **PAPER.model.as_settings(), **WITHOUT_DROPOUT)
    builder, weight = BatchBuilder(arrays, special, masking=PAPER.masking), PAPER.alignment.weight
    batch = builder.build(ROWS, epoch=0)
    losses = compute_losses(model, model(batch.rows), batch, PAPER.alignment, measure_step([batch]))
    losses.loss.backward()
    gradients = take_gradients(model)
    assert not gradients.pop("unknown_attribute").any()

    layout, reference = builder.lay_out(ROWS), Reference(model, arrays, special)
    masks, drawn = builder.mask_layout(layout, epoch=0)
    masked, targets = {}, {}
    for row, begin, end in zip(ROWS.tolist(), layout.starts[:-1].tolist(), layout.starts[1:].tolist(), strict=True):
        assert layout.token_ids[begin:end].tolist() == reference.serialise(row)[1]
        masked[row] = masks.token_ids[begin:end].tolist()
        places = [place - begin for place in drawn.position.tolist() if begin <= place < end]
        targets[row] = [(place, reference.serialise(row)[1][place]) for place in places]
    masked_loss = reference.masked_loss(masked, targets)
    alignment_loss = reference.alignment_loss(ROWS, PAPER.alignment)
    expected = masked_loss + weight * alignment_loss
    expected.backward()
    assert float(losses.masked) == pytest.approx(float(masked_loss.detach()), rel=1e-5)
    assert float(losses.low + losses.high) == pytest.approx(float(alignment_loss.detach()), rel=1e-4)
    assert float(losses.low) > 0 < float(losses.high)
    torch.testing.assert_close(losses.loss, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients, take_gradients(model), rtol=1e-3, atol=1e-5)
