"""Models that cannot be loaded are told apart from those that may be tried, without loading any."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptb_tui.evaluation import validity
from tests.evaluation.models import model, safetensors


def test_a_good_model(tmp_path: Path) -> None:
    found = validity.check(model(tmp_path / "m"))
    assert found.ok and found.facts["architecture"] == "Qwen3ForCausalLM" and found.facts["weight_files"] == 1


def test_what_is_no_fault(tmp_path: Path) -> None:
    config = b'{"architectures": ["Qwen3ForCausalLM"], "torch_dtype": "bfloat16", "auto_map": {"AutoModel": "a--b.C"}}'
    assert validity.check(model(tmp_path / "a", config__json=config)).ok
    without = json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}).encode()  # no chat template: ours is used
    assert validity.check(model(tmp_path / "b", tokenizer_config__json=without)).ok
    shards = {f"model-0000{n}-of-00002__safetensors": safetensors() for n in (1, 2)}
    assert validity.check(model(tmp_path / "c", model__safetensors=None, **shards)).ok
    index = json.dumps({"weight_map": {"w": "model-00001-of-00002.safetensors"}}).encode()
    stale = {"model-00001-of-00003__safetensors": b"torn", "model__safetensors__index__json": index}
    assert validity.check(model(tmp_path / "d", model__safetensors=None, **shards, **stale)).facts["weight_files"] == 1
    of_parts = b'{"architectures": ["Gemma3"], "dtype": {"text_config": "bfloat16", "vision_config": null}}'
    assert validity.check(model(tmp_path / "e", config__json=of_parts)).ok


def test_extra_files_do_no_harm(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", training_args__bin=b"x", README__md=b"hi")
    (folder / "checkpoint-5").mkdir()
    (folder / "checkpoint-5" / "model.safetensors").write_bytes(b"torn")
    assert validity.check(folder).ok


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config__json": None}, "config.json"),
        ({"config__json": b"[]"}, "config.json"),
        ({"config__json": b"[" * 100_000}, "config.json"),
        ({"model__safetensors": None}, "safetensors"),
        ({"model__safetensors": None, "pytorch_model__bin": b"x"}, "pickled"),
        ({"model__safetensors": None, "adapter_config__json": b"{}", "adapter_model__safetensors": b""}, "adapter"),
        ({"config__json": None, "model__safetensors": None, "adapter_config__json": b"{}"}, "adapter"),
        ({"model__safetensors": safetensors()[:-1]}, "cut off"),
        ({"model__safetensors": b""}, "is empty"),
        ({"model__safetensors": None, "model__gguf": b"GGUF"}, "GGUF"),
        ({"model__safetensors": None, "model-00001-of-00002__safetensors": safetensors()}, "model-00002-of-00002"),
        ({"config__json": b'{"dtype": "float99"}'}, "float99"),
        ({"config__json": b'{"architectures": 3}'}, "architectures"),
        ({"config__json": b'{"model_type": "mine", "auto_map": {"AutoModel": "x--y.Z"}}'}, "auto_map"),
        ({"tokenizer_config__json": b"{"}, "tokenizer_config"),
        ({"model__safetensors": b"\xff" * 100}, "cut off"),
        ({"model__safetensors": (4).to_bytes(8, "little") + b"nope"}, "not JSON"),
        ({"model__safetensors": (2).to_bytes(8, "little") + b"{}"}, "no tensor"),
        ({"tokenizer__json": None}, "tokenizer"),
        ({"tokenizer__json": b""}, "tokenizer"),
        ({"tokenizer__json": b"nope"}, "tokenizer"),
        ({"model__safetensors__index__json": b'{"weight_map": {"w": "model-2.safetensors"}}'}, "missing"),
        ({"model__safetensors__index__json": b'{"weight_map": 3}'}, "weight map"),
        ({"model__safetensors__index__json": b'{"weight_map": {}}'}, "weight map"),
    ],
)
def test_what_cannot_be_loaded_has_words(tmp_path: Path, changes: dict[str, bytes | None], words: str) -> None:
    found = validity.check(model(tmp_path / "m", **changes))
    assert not found.ok and words in found.problem and "\n" not in found.problem


def test_python_beside_a_good_model_is_noted_and_changes_nothing(tmp_path: Path) -> None:
    found = validity.check(model(tmp_path / "m", train__py=b"import os"))
    assert found.ok and found.facts["python_files"] == ["train.py"]


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 15]},
        {"dtype": "F32", "shape": [2, -2], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": 4, "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0, 16, 3]},
        {"dtype": "F32", "shape": [1] * 1000 + [4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [10**9] * 10, "data_offsets": [0, 10**90]},
        {"dtype": 3, "shape": [4], "data_offsets": [0, 16]},
        {"shape": [4]},
        None,
        "text",
    ],
)
def test_headers_that_lie(tmp_path: Path, entry: Any) -> None:
    file = tmp_path / "x.safetensors"
    file.write_bytes(safetensors({"w": entry}))
    assert validity.safetensors_problem(file)


def test_overlap_and_gap(tmp_path: Path) -> None:
    half = {"dtype": "U8", "shape": [8]}
    for first, second in (([0, 8], [4, 12]), ([0, 8], [8 + 4, 16 + 4])):
        file = tmp_path / "x.safetensors"
        file.write_bytes(safetensors({"a": half | {"data_offsets": first}, "b": half | {"data_offsets": second}}))
        assert "overlap" in validity.safetensors_problem(file)


def test_links_and_special_files_are_not_read(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", model__safetensors=None)
    (tmp_path / "outside.safetensors").write_bytes(safetensors())
    (folder / "model.safetensors").symlink_to(tmp_path / "outside.safetensors")
    assert not validity.check(folder).ok
    os.mkfifo(folder / "b.safetensors")
    assert not validity.check(folder).ok
    assert not validity.check(tmp_path / "absent").ok
    assert validity.safetensors_problem(folder / "b.safetensors")


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    file.write_bytes(data)
    assert isinstance(validity.safetensors_problem(file), str)


_VALUES = st.none() | st.integers() | st.sampled_from(["F32", "U8", ""]) | st.lists(st.integers(-2, 20), max_size=3)
_ENTRY = st.fixed_dictionaries({}, optional={"dtype": _VALUES, "shape": _VALUES, "data_offsets": _VALUES}) | _VALUES


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(["a", "b", "__metadata__"]), _ENTRY))
def test_any_header_gets_an_answer(tmp_path_factory: pytest.TempPathFactory, header: dict[str, Any]) -> None:
    file = tmp_path_factory.getbasetemp() / "header.safetensors"
    file.write_bytes(safetensors(json.loads(json.dumps(header))))
    assert isinstance(validity.safetensors_problem(file), str)
