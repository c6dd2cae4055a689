"""The manifest, and what of it is here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ptb_tui.content.lookup import shipped
from ptb_tui.core.errors import ContentError, NotFound
from ptb_tui.supplies.hub import Manifest, Repo, home, record_file, state

MANIFEST = shipped() / "containers" / "hub_manifest.json"
MODEL = Repo("model", "org/tiny")


def test_the_manifest_is_that_of_the_original() -> None:
    manifest = Manifest.read(MANIFEST)
    assert (len(manifest.models), len(manifest.datasets)) == (14, 382)
    raw = json.loads(MANIFEST.read_text())["datasets"]
    assert sum("config" in entry for entry in raw) == 4
    assert sum("configs" in entry for entry in raw) == 16
    assert sum("splits" not in entry for entry in raw) == 193
    assert len(manifest.repos()) == 395, "one data set is named twice"
    assert manifest.repos()[0].kind == "model" and manifest.repos()[-1].kind == "dataset"
    mmlu = next(entry for entry in manifest.datasets if entry.dataset == "cais/mmlu")
    assert "validation" in mmlu.splits and "virology" in mmlu.configs and len(mmlu.configs) == 28


def test_one_or_a_pattern_is_chosen() -> None:
    manifest = Manifest.read(MANIFEST)
    assert manifest.repos("Qwen/Qwen3-4B") == (Repo("model", "Qwen/Qwen3-4B"),)
    assert len(manifest.repos("qwen/*")) == 7
    assert len(manifest.repos("deepseek-ai/deepseek-math-7b-instruct")) == 1, "an exact name beats its twin"
    assert manifest.repos("head_qa") == (Repo("dataset", "head_qa"),)
    with pytest.raises(NotFound) as caught:
        manifest.repos("Qwen/Qwen3-4b-bas")
    assert "Qwen/Qwen3-4B-Base" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [b"{", b'{"models": [{"model": "../x"}], "datasets": []}', b'{"models": [], "datasets": [{"name": "x"}]}'],
)
def test_a_broken_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(ContentError, match=r"m\.json"):
        Manifest.read(tmp_path / "m.json")


def test_the_cache_is_where_the_settings_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert home({}) == tmp_path / ".cache" / "huggingface"
    assert home({"HF_HOME": "~/hf"}) == tmp_path / "hf"
    assert Repo("dataset", "a/b").folder == "datasets--a--b" and Repo("dataset", "b").folder == "datasets--b"


def of_others(cache: Path, files: dict[str, Any]) -> Path:
    """A repository as the hub's own library leaves it; None is a file whose content never came."""
    top = cache / "hub" / MODEL.folder
    snapshot = top / "snapshots" / ("c" * 40)
    (top / "blobs").mkdir(parents=True)
    (top / "refs").mkdir()
    (top / "refs" / "main").write_text("c" * 40)
    for number, (name, content) in enumerate(files.items()):
        path = snapshot / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(f"{'../' * (2 + name.count('/'))}blobs/{number}")
        if content is not None:
            (top / "blobs" / str(number)).write_text(content if isinstance(content, str) else json.dumps(content))
    return snapshot


INDEX = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"config.json": "{}", "model.safetensors": "w"}, ""),
        ({"config.json": "{}", "pytorch_model.bin": "w"}, ""),
        ({"config.json": "{}"}, "no weights are there"),
        ({"model.safetensors": "w"}, "config.json is not there"),
        ({"config.json": "{}", "model.safetensors": None}, "model.safetensors is not there"),
        ({"config.json": "{}", "model.safetensors.index.json": INDEX}, "model-1.safetensors is not there"),
        (
            {"config.json": "{}", "model.safetensors.index.json": INDEX}
            | {"model-1.safetensors": "w", "model-2.safetensors": "w"},
            "",
        ),
        ({"config.json": "{}", "model.safetensors.index.json": "[" * 100_000, "model.safetensors": "w"}, ""),
    ],
)
def test_a_model_that_others_cached_counts_when_it_is_whole(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    of_others(tmp_path, files)
    found = state(tmp_path, MODEL)
    assert found.state == ("partial" if words else "cached") and not found.ours
    assert words in found.words and (found.commit == "c" * 40)


def test_odd_caches_are_no_error(tmp_path: Path) -> None:
    assert state(tmp_path, MODEL).state == "absent"
    top = tmp_path / "hub" / MODEL.folder
    (top / "refs").mkdir(parents=True)
    assert state(tmp_path, MODEL).state == "partial"
    for odd in (b"../../..", b"\xff\xfe", b"", b"nothing"):
        (top / "refs" / "main").write_bytes(odd)
        assert state(tmp_path, MODEL).state == "partial"
    record = record_file(tmp_path, MODEL)
    record.parent.mkdir()
    for text in ('{"files": [[1], null, ["a\\u0000", 3], ["x", "y"]], "commit": "z"}', '{"files": 3}', "[]", "{"):
        record.write_text(text)
        assert state(tmp_path, MODEL).state == "partial"
