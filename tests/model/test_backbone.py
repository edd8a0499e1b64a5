"""Tests of loading a backbone: what is taken from it, what is made anew, and what is refused."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM

from navi.errors import ModelError
from navi.model import NaviConfig, NaviModel, is_new, load_backbone


@pytest.fixture
def backbone(tiny_backbone, tmp_path):
    """A copy of the tiny backbone that a test may change."""
    return shutil.copytree(tiny_backbone, tmp_path / "backbone")


def change_config(folder, **entries):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def change_weights(folder, change):
    file = folder / "model.safetensors"
    save_file({name: tensor.clone() for name, tensor in change(load_file(file)).items()}, file)


def test_the_encoder_has_the_weights_of_the_backbone(tiny_backbone):
    weights, model = load_file(tiny_backbone / "model.safetensors"), load_backbone(tiny_backbone)
    found = model.state_dict()
    taken = 0
    for name, tensor in weights.items():
        assert found[name.replace("encoder.layer.", "layers.")].equal(tensor), name
        taken += 1
    assert taken == 5 + 3 * 16


def test_the_attribute_encoder_starts_as_a_copy_of_two_layers_of_its_own(tiny_backbone):
    model = load_backbone(tiny_backbone, attribute_layers=[2, 0])
    for place, layer in enumerate((2, 0)):
        copy = model.attribute_encoder.layers[place].state_dict()
        for name, tensor in model.layers[layer].state_dict().items():
            assert copy[name].equal(tensor)
            assert copy[name].data_ptr() != tensor.data_ptr()
    own, words = model.attribute_encoder.embeddings.word_embeddings.weight, model.embeddings.word_embeddings.weight
    assert own.equal(words)
    assert own is not words


def test_a_backbone_of_one_layer_gives_the_attribute_encoder_that_layer_twice(tiny_backbone, tmp_path):
    torch.manual_seed(0)
    shape = json.loads((tiny_backbone / "config.json").read_text()) | {"num_hidden_layers": 1}
    shape.pop("model_type")
    BertForMaskedLM(BertConfig(**shape)).save_pretrained(tmp_path)
    model = load_backbone(tmp_path)
    for layer in model.attribute_encoder.layers:
        assert layer.output.dense.weight.equal(model.layers[0].output.dense.weight)


def test_the_gate_opens_to_the_mean_length_of_a_word_embedding(tiny_backbone):
    words = load_file(tiny_backbone / "model.safetensors")["embeddings.word_embeddings.weight"]
    expected = sum(float(word.norm()) for word in words) / len(words)
    assert float(load_backbone(tiny_backbone).attribute_scale.detach()) == pytest.approx(expected, rel=1e-5)


def test_a_backbone_without_a_head_gets_one_tied_to_its_word_embeddings(tiny_backbone):
    model = load_backbone(tiny_backbone)
    assert model.head.decoder.weight is model.embeddings.word_embeddings.weight
    assert not model.head.bias.any()


def test_a_backbone_with_a_head_brings_it(tiny_backbone, tmp_path):
    torch.manual_seed(0)
    shape = json.loads((tiny_backbone / "config.json").read_text())
    shape.pop("model_type")
    bert = BertForMaskedLM(BertConfig(**shape)).eval()
    torch.nn.init.normal_(bert.cls.predictions.bias)
    bert.save_pretrained(tmp_path)
    model = load_backbone(tmp_path).eval()
    hidden = torch.randn(4, 32)
    torch.testing.assert_close(model.head(hidden), bert.cls(hidden))
    assert model.head.bias.equal(bert.cls.predictions.bias)
    assert not is_new("head.transform.dense.weight", model.config)
    assert model.embeddings.word_embeddings.weight.equal(bert.bert.embeddings.word_embeddings.weight)


def test_an_untied_output_layer_does_not_replace_the_word_embeddings(backbone):
    words = load_file(backbone / "model.safetensors")["embeddings.word_embeddings.weight"]
    change_weights(backbone, lambda weights: weights | {"cls.predictions.decoder.weight": torch.zeros_like(words)})
    assert load_backbone(backbone).embeddings.word_embeddings.weight.equal(words)


def test_old_names_and_prefixes_of_weights_are_understood(backbone):
    def rename(name):
        return "bert." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    expected = load_backbone(backbone).state_dict()
    change_weights(backbone, lambda weights: {rename(name): tensor + 0 for name, tensor in weights.items()})
    found = load_backbone(backbone).state_dict()
    for name in expected:
        if not is_new(name, NaviConfig()):
            assert found[name].equal(expected[name]), name


def test_weights_in_half_precision_are_loaded_as_float32(backbone):
    change_weights(backbone, lambda weights: {name: tensor.half() for name, tensor in weights.items()})
    change_config(backbone, dtype="float16")
    assert {parameter.dtype for parameter in load_backbone(backbone).parameters()} == {torch.float32}


def test_settings_reach_the_configuration(tiny_backbone):
    config = load_backbone(tiny_backbone, local_head_share=0.25, attribute_gate=False).config
    assert (config.local_head_share, config.attribute_gate, config.hidden_size) == (0.25, False, 32)


def test_new_parameters_are_those_that_the_backbone_does_not_have(tiny_backbone):
    brought = {name.replace("encoder.layer.", "layers.") for name in load_file(tiny_backbone / "model.safetensors")}
    model = load_backbone(tiny_backbone)
    for name, _ in model.named_parameters():
        copied = name.startswith("attribute_encoder.")
        assert is_new(name, model.config) == (name not in brought and not copied), name


def test_loading_twice_gives_the_same_backbone_but_its_own_tensors(tiny_backbone):
    one, other = load_backbone(tiny_backbone), load_backbone(tiny_backbone)
    with torch.no_grad():
        one.embeddings.word_embeddings.weight.zero_()
    assert other.embeddings.word_embeddings.weight.any()


def test_a_backbone_of_another_architecture_is_refused(backbone):
    change_config(backbone, model_type="roberta")
    with pytest.raises(ModelError, match=r"is of type 'roberta'. Expected a BERT-architecture checkpoint"):
        load_backbone(backbone)


def test_a_folder_without_configuration_is_refused(backbone):
    (backbone / "config.json").unlink()
    with pytest.raises(ModelError, match=r"Cannot read .*config.json"):
        load_backbone(backbone)


def test_a_configuration_that_is_no_json_is_refused(backbone):
    (backbone / "config.json").write_text("{not json")
    with pytest.raises(ModelError, match=r"Cannot read .*config.json: Expecting property name"):
        load_backbone(backbone)


def test_a_folder_without_weights_is_refused(backbone):
    (backbone / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"No model.safetensors in .*Pickled weights are never loaded; convert them"):
        load_backbone(backbone)


class Trap:
    """Unpickling this raises, so a test sees whether a loader unpickled it."""

    def __reduce__(self):
        return (pytest.fail, ("the weights were unpickled",))


def test_pickled_weights_are_refused_and_never_unpickled(backbone):
    (backbone / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": Trap()}, backbone / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"No model.safetensors in .*Pickled weights are never loaded"):
        load_backbone(backbone)


def test_code_that_a_backbone_brings_is_not_run(backbone):
    change_config(backbone, auto_map={"AutoModel": "modeling_trap.Trap", "AutoConfig": "modeling_trap.Trap"})
    (backbone / "modeling_trap.py").write_text("raise SystemExit('code of the backbone was run')")
    assert isinstance(load_backbone(backbone), NaviModel)


def test_weights_cut_short_are_refused(backbone):
    file = backbone / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"Cannot read .*model.safetensors"):
        load_backbone(backbone)


def test_a_checkpoint_that_lacks_weights_is_refused(backbone):
    change_weights(
        backbone, lambda weights: {name: tensor for name, tensor in weights.items() if "layer.1.output" not in name}
    )
    with pytest.raises(ModelError, match=r"lacks 8 weights, layers.1.output.dense.weight among them"):
        load_backbone(backbone)


def test_weights_that_do_not_fit_the_configuration_are_refused(backbone):
    change_config(backbone, vocab_size=99)
    with pytest.raises(ModelError, match=r"word_embeddings.weight of shape \(200, 32\), but .* asks for \(99, 32\)"):
        load_backbone(backbone)
