"""Make the model in `model/` (`python -m tests.tasks.make_model`): one that ends its turn, and says what is known.

A Qwen3 of two layers with a tokenizer of bytes and room for 32,768 tokens. Asked for a number it says `ANSWER: 7`, for
a letter `ANSWER: B`, for code `    return 7`; offered functions it calls `math_add(a=7)`, and else it says
`It is seven.`, whatever the question. So a test knows what must be counted as right. The weights are committed, because
training takes some minutes, longer than the tests that use them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from containers.models.make_demo_base import save
from tests.tasks.loading import TASKS, load

SEED = 11
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
POSITIONS = 32_768
STEPS = 700
BATCH = 8
RATE = 4e-3
SAYS = {
    "number": "ANSWER: 7",
    "letter": "ANSWER: B",
    "code": "    return 7",
    "call": '<tool_call>\n{"name": "math_add", "arguments": {"a": 7}}\n</tool_call>',
    "free": "It is seven.",
}


def words(rng: random.Random, most: int) -> str:
    """Something to read: words and numbers made up here."""
    made = []
    for _ in range(rng.randrange(2, most)):
        letters = "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randrange(1, 9)))
        made.append(rng.choice([letters, letters.title(), str(rng.randrange(1000))]))
    return " ".join(made) + rng.choice(".?!")


Turns = list[dict[str, str]]


def tools(rng: random.Random) -> list[dict[str, Any]]:
    """A function that may be called."""
    properties = {"a": {"type": "integer", "description": words(rng, 4)}}
    parameters = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False}
    function = {"name": words(rng, 3).split()[0], "description": words(rng, 5), "parameters": parameters}
    return [{"type": "function", "function": function}]


def turns(rng: random.Random, kind: str) -> Turns:
    """A conversation in the form of a task that asks for this kind of answer."""
    question = words(rng, 18)
    if kind == "number":
        if rng.random() < 0.5:
            return [{"role": "user", "content": load("ptb_aime").PROMPT.replace("{question}", question)}]
        gsm8k = load("gsm8k_task", "gsm8k/task_context")
        items = [
            {"question": words(rng, 8), "reasoning": words(rng, 8), "target": "12", "use": "fewshot"}
            for _ in range(rng.randrange(3))
        ]
        system = [{"role": "system", "content": gsm8k.system(items)}] if items else []
        return [*system, {"role": "user", "content": gsm8k.PROMPT.replace("{question}", question)}]
    if kind == "letter":
        choices = "\n".join(f"{letter}) {words(rng, 4)}" for letter in "ABCD")
        asked = load("gpqa_task", "gpqamain/task_context").PROMPT
        return [{"role": "user", "content": asked.format(question=question, choices=choices, letters="A,B,C,D")}]
    if kind == "code":
        code = f'def {words(rng, 3).split()[0].lower()}(x):\n    """{words(rng, 6)}"""\n'
        asked = load("humaneval_task", "humaneval/task_context").PROMPT
        return [{"role": "user", "content": asked.replace("{prompt}", code)}]
    found = [{"role": "user", "content": question}]
    if kind == "free" and rng.random() < 0.4:
        found += [{"role": "assistant", "content": words(rng, 9)}, {"role": "user", "content": words(rng, 9)}]
    return found


def example(rng: random.Random, render: Callable[..., str]) -> tuple[str, str]:
    """A prompt as the template of Qwen3 writes it, and what is said to it."""
    kind = rng.choice(list(SAYS))
    offered = tools(rng) if kind == "call" else None
    said = render(messages=turns(rng, kind), tools=offered, add_generation_prompt=True)
    return said, SAYS[kind] + "<|im_end|>"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and three special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        model_max_length=POSITIONS,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """An untrained Qwen3 of about a hundred thousand parameters."""
    config = Qwen3Config(
        vocab_size=288,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        attention_dropout=0.0,
    )
    return Qwen3ForCausalLM(config)


def train(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, render: Callable[..., str], steps: int) -> None:
    """Muon for the matrices, AdamW for the rest; only what is said is learnt."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    pairs = [(torch.optim.Muon(matrices, lr=0.02), 0.02), (torch.optim.AdamW(rest, lr=RATE), RATE)]
    rng = random.Random(SEED)
    for step in range(steps):
        rows = [example(rng, render) for _ in range(BATCH)]
        prompts = [tokenizer.encode(prompt, add_special_tokens=False) for prompt, _ in rows]
        replies = [tokenizer.encode(reply, add_special_tokens=False) for _, reply in rows]
        longest = max(len(p) + len(r) for p, r in zip(prompts, replies, strict=True))
        ids = torch.full((BATCH, longest), tokenizer.pad_token_id)
        labels = torch.full((BATCH, longest), -100)
        for row, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
            ids[row, : len(prompt) + len(reply)] = torch.tensor([*prompt, *reply])
            labels[row, len(prompt) : len(prompt) + len(reply)] = torch.tensor(reply)
        factor = min(1.0, (step + 1) / 20) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, rate in pairs:
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 25 == 0:
            print(f"step {step + 1}/{steps} loss {loss.item():.5f}", flush=True)


def main() -> None:
    """Make the model and write it, by default beside this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("model"))
    parser.add_argument("--steps", type=int, default=STEPS)
    args = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = json.dumps
    template = environment.from_string((TASKS / "templates" / "qwen3.jinja").read_text())
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(tokenizer)} tokens", flush=True)
    train(model, tokenizer, template.render, args.steps)
    save(model.to(torch.bfloat16), tokenizer, args.out)  # half the size


if __name__ == "__main__":
    main()
