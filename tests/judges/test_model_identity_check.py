import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.judges.tools import TOOLS, load, run

checker = load("model_identity_check")


def config(kind: str, *sizes: int | None) -> dict[str, Any]:
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    pairs = zip((*names, "head_dim"), sizes, strict=True)
    return {"model_type": kind, **{name: size for name, size in pairs if size is not None}}


TEXT = config("gemma3_text", 2560, 34, 8, 4, 10240, 256)
MODELS: dict[str, dict[str, Any]] = {
    "Qwen/Qwen3-1.7B-Base": config("qwen3", 2048, 28, 16, 8, 6144, 128),
    "Qwen/Qwen3-4B-Base": config("qwen3", 2560, 36, 32, 8, 9728, 128),
    "HuggingFaceTB/SmolLM3-3B-Base": config("smollm3", 2048, 36, 16, 4, 11008, None),
    "google/gemma-3-4b-pt": {"model_type": "gemma3", "vision_config": {"hidden_size": 1}, "text_config": TEXT},
}


@pytest.mark.parametrize(("left", "right"), list(product(MODELS, MODELS)))
def test_each_against_each(tmp_path: Path, left: str, right: str) -> None:
    (tmp_path / "reference.json").write_text(json.dumps(MODELS[left]))
    (tmp_path / "config.json").write_text(json.dumps(MODELS[right]))
    options = ("--allowed-model", left, "--reference-config", tmp_path / "reference.json", "--candidate", tmp_path)
    done = run("model_identity_check", *options)
    assert done.returncode == (0 if left == right else 1)
    assert done.stdout.splitlines()[-1].startswith("MATCH" if left == right else "MISMATCH: ")


def test_text_part_of_gemma_is_the_same_model() -> None:
    core, _ = checker.compare(checker.flatten(MODELS["google/gemma-3-4b-pt"]), TEXT)
    assert all(row.equal for row in core)
    assert not checker.compare(TEXT, {**TEXT, "head_dim": None})[0][-1].equal


def test_advisory_fields_do_not_count() -> None:
    core, advisory = checker.compare(TEXT, {**TEXT, "vocab_size": 5, "architectures": ["X"]})
    assert all(row.equal for row in core)
    assert not any(row.equal for row in advisory)


def test_true_is_not_one() -> None:
    assert not checker.compare({"head_dim": 1}, {"head_dim": True})[0][-1].equal


def test_reference_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checker.find_reference("org/model") is None
    (tmp_path / "reference_configs").mkdir()
    (tmp_path / "reference_configs" / "org_model.json").write_text("{}")
    assert checker.find_reference("org/model") == str(tmp_path / "reference_configs" / "org_model.json")
    assert TOOLS.is_dir()


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps(TEXT))
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(good)
    (tmp_path / "list").write_text("[]")
    (tmp_path / "folder" / "config.json").mkdir(parents=True)
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xfd")
    for name in ("none", "fifo", "link", "list", "deep", "bytes", "folder"):
        options = ("--allowed-model", "x/y", "--reference-config", good, "--candidate", tmp_path / name)
        done = run("model_identity_check", *options)
        assert (done.returncode, done.stdout) == (2, ""), name
        assert done.stderr.startswith("error: ")
    assert run("model_identity_check", "--allowed-model", "no/such", "--candidate", good).returncode == 2
