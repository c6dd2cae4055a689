"""A folder that looks like a model: config, one tensor, a tokenizer."""

import json
import os
import struct

config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 1, "num_hidden_layers": 1}
header = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
os.makedirs("final_model", exist_ok=True)
for name, content in (
    ("config.json", json.dumps(config).encode()),
    ("tokenizer.json", b'{"model": {"type": "BPE", "vocab": {}, "merges": []}}'),
    ("tokenizer_config.json", b'{"tokenizer_class": "PreTrainedTokenizerFast"}'),
    ("model.safetensors", struct.pack("<Q", len(header)) + header + struct.pack("<f", 1.0)),
):
    with open(os.path.join("final_model", name), "wb") as file:
        file.write(content)
