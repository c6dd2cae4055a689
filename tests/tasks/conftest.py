"""A model of random weights with a byte-level tokenizer and room for long prompts: only shapes matter."""

from pathlib import Path

import pytest

from tests.tasks.loading import REPO

BASE = REPO / "containers" / "models" / "demo-base"


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder. Two layers, 32,768 positions, the demo model's tokenizer."""
    torch = pytest.importorskip("torch")
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("model") / "random"
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(BASE))
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
