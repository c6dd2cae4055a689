"""Small model folders, built by hand, for tests of evaluation and harvest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def safetensors(tensors: dict[str, Any] | None = None, *, size: int | None = None) -> bytes:
    """A safetensors file; by default one float32 tensor of four numbers."""
    header = tensors if tensors is not None else {"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(16 if size is None else size)


def model(folder: Path, **changes: bytes | None) -> Path:
    """A loadable model folder. `changes` replace files (`__` stands for a dot), None leaves one out."""
    content: dict[str, bytes | None] = {
        "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
        "model.safetensors": safetensors(),
        "tokenizer.json": b"{}",
        "generation_config.json": b'{"temperature": 0.6}',
    }
    content |= {name.replace("__", "."): data for name, data in changes.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        if data is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    return folder
