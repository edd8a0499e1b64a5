import numpy as np
import torch

from navi.batches import BatchBuilder
from navi.losses import AlignmentConfig, compute_losses
from navi.losses.total import measure_step
from navi.model import load_backbone
from navi.training.precision import HalfCopy


def learn(model, batch):
    losses = compute_losses(model, model(batch.rows), batch, AlignmentConfig(), measure_step([batch]))
    losses.total.backward()


def make_batch(make_arrays, special):
    return BatchBuilder(make_arrays(num_rows=8, num_tables=2), special).build(np.arange(8), epoch=0)


def test_a_copy_in_the_same_precision_gives_the_models_own_gradients(make_arrays, special, tiny_backbone):
    batch = make_batch(make_arrays, special)
    model, other = load_backbone(tiny_backbone).eval(), load_backbone(tiny_backbone).eval()
    other.load_state_dict(model.state_dict())
    half = HalfCopy(other, torch.float32)
    half.pull()
    learn(half.model, batch)
    half.push()
    learn(model, batch)
    for (name, own), (_, copied) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        torch.testing.assert_close(copied.grad, own.grad, msg=name)


def test_gradients_of_several_parts_add_up(make_arrays, special, tiny_backbone):
    batch = make_batch(make_arrays, special)
    model = load_backbone(tiny_backbone).eval()
    half = HalfCopy(model, torch.bfloat16)
    for _ in range(2):
        half.pull()
        learn(half.model, batch)
        half.push()
        once = half.model.layers[0].output.dense.weight.grad.float()
    torch.testing.assert_close(model.layers[0].output.dense.weight.grad, 2 * once)


def test_weights_and_gradients_of_the_model_stay_in_float32(make_arrays, special, tiny_backbone):
    model = load_backbone(tiny_backbone).eval()
    half = HalfCopy(model, torch.bfloat16)
    with torch.no_grad():
        model.attribute_scale.fill_(3.0)
    half.pull()
    learn(half.model, make_batch(make_arrays, special))
    half.push()
    assert half.model.attribute_scale.item() == 3.0
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.float32}
    assert half.model.head.decoder.weight is half.model.embeddings.word_embeddings.weight
