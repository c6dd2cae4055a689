import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.judges.tools import load, run

np = pytest.importorskip("numpy", reason="weights are compared with numpy")
tool = load("model_weights_check")
SHAPES: dict[str, tuple[int, ...]] = {
    f"model.layers.{n}.mlp.{part}.weight": (64, 128) for n in range(6) for part in ("up", "gate")
}
SHAPES |= {"model.embed_tokens.weight": (200, 64), "model.norm.weight": (64,)}
Weights = dict[str, Any]


def bf16(values: Any) -> bytes:
    bits = np.ascontiguousarray(tool.rounded(values.astype(np.float32), "BF16")).view(np.uint32)
    return bytes((bits >> 16).astype("<u2").tobytes())


def save(folder: Path, weights: Weights, dtype: str = "BF16", shards: int = 2, prefix: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(prefix or "{}")
    names = sorted(weights)
    for shard in range(shards):
        entries, data = {}, b""
        for name in names[shard::shards]:
            raw = bf16(weights[name]) if dtype == "BF16" else weights[name].astype("<f4").tobytes()
            entries[prefix + name] = {
                "dtype": dtype, "shape": weights[name].shape, "data_offsets": [len(data), len(data) + len(raw)],
            }  # fmt: skip
            data += raw
        head = json.dumps(entries).encode()
        (folder / f"model-{shard}.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + data)
    return folder


def noise(seed: int, scale: float) -> Callable[[Any], Any]:
    rng = np.random.default_rng(seed)
    return lambda values: values + scale * rng.standard_normal(values.shape).astype(np.float32)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    base = {name: rng.standard_normal(shape).astype(np.float32) * 0.05 for name, shape in SHAPES.items()}
    base = {name: tool.rounded(values, "BF16") for name, values in base.items()}
    tuned = {name: noise(1, 0.0025)(values) for name, values in base.items()}
    twin = {name: tool.rounded(noise(2, 0.004)(values), "BF16") for name, values in base.items()}
    twin_more = {name: noise(3, 0.001)(values) for name, values in twin.items()}
    merged = dict(base)
    for name, values in base.items():
        if ".mlp." in name:
            left, right = rng.standard_normal((64, 4)), rng.standard_normal((4, 128))
            merged[name] = values + (left @ right).astype(np.float32) * 0.002
    longer = {**tuned, "model.embed_tokens.weight": np.vstack([tuned["model.embed_tokens.weight"], np.ones((8, 64))])}
    other = {name: np.random.default_rng(9).standard_normal(shape) * 0.05 for name, shape in SHAPES.items()}
    return {
        "base": save(root / "base", base), "as float32": save(root / "cast", base, "F32", 1),
        "tuned": save(root / "tuned", tuned), "twin": save(root / "twin", twin, shards=3),
        "twin again": save(root / "again", twin, "F32", 1), "twin more": save(root / "more", twin_more),
        "merged": save(root / "merged", merged), "longer": save(root / "longer", longer),
        "other": save(root / "other", other), "wrapped": save(root / "wrapped", tuned, prefix="language_model."),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("base", "unchanged base"), ("as float32", "unchanged base"), ("tuned", "fine-tuned"),
        ("twin", "equals instruct"), ("twin again", "equals instruct"), ("twin more", "towards instruct"),
        ("merged", "adapter merged"), ("longer", "fine-tuned"), ("other", "unrelated"), ("wrapped", "fine-tuned"),
    ],
)  # fmt: skip
def test_each_kind_of_model(models: dict[str, Path], name: str, said: str) -> None:
    found = tool.compare_weights(str(models[name]), str(models["base"]), str(models["twin"]))
    print(name, found.to_base, found.to_twin, found.cosine, found.rank)
    assert tool.conclusions(found) == [said]


def test_the_gaps_that_the_thresholds_lie_in(models: dict[str, Path]) -> None:
    def of(name: str) -> Any:
        return tool.compare_weights(str(models[name]), str(models["base"]), str(models["twin"]))

    assert of("twin again").to_twin < 0.005 < tool.INSTRUCT < 0.2 < of("twin more").to_twin < 0.5 < of("tuned").to_twin
    assert of("tuned").cosine < 0.1 < tool.TOWARDS < 0.9 < of("twin more").cosine
    assert of("merged").rank < 0.1 < tool.LOW_RANK < 0.6 < of("tuned").rank
    assert of("tuned").to_base < 0.1 < tool.UNRELATED < 1.2 < of("other").to_base


def test_command_line(models: dict[str, Path]) -> None:
    done = run("model_weights_check", "--candidate", models["twin"], "--base", models["base"], "--twin", models["twin"])
    said = json.loads(done.stdout)
    assert (done.returncode, said["conclusions"], said["to_twin"]) == (1, ["equals instruct"], 0.0)
    assert said["tokenizer"] == {"as_base": True, "as_twin": True} and said["tensors"] == len(SHAPES)
    alone = run("model_weights_check", "--candidate", models["wrapped"], "--base", models["base"])
    assert (alone.returncode, json.loads(alone.stdout)["tokenizer"]["as_base"]) == (0, False)


def test_folders_that_cannot_be_compared(models: dict[str, Path], tmp_path: Path) -> None:
    def refused(folder: Path) -> str:
        done = run("model_weights_check", "--candidate", folder, "--base", models["base"])
        assert (done.returncode, done.stdout) == (2, ""), done
        return done.stderr

    assert "no safetensors" in refused(tmp_path)
    good = (models["base"] / "model-0.safetensors").read_bytes()
    length = int.from_bytes(good[:8], "little")
    for number, data in enumerate([
        b"", good[:4], b"\xff" * 16, good[: 8 + length // 2], good[:-10], (5).to_bytes(8, "little") + b"[1,2]",
        (60).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}'.ljust(60),
    ]):  # fmt: skip
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(data)
        assert refused(folder).startswith("error: "), number
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "model.safetensors").symlink_to(models["base"] / "model-0.safetensors")
    assert "model.safetensors" in refused(linked)
    os.mkfifo(tmp_path / "0" / "x.safetensors")
    refused(tmp_path / "0")


def test_a_part_of_a_model_proves_nothing(models: dict[str, Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    strange = save(tmp_path / "strange", {f"x.{n}": rng.standard_normal((64, 64)) for n in range(3)})
    assert tool.conclusions(tool.compare_weights(str(strange), str(models["base"]))) == ["nothing compared"]
