#!/usr/bin/env python3
"""Make `demo-base/`, the base model `local/demo-base`: a Qwen3 small enough to live in the repository.

It is "pretrained" on text made up here: columns of digit arithmetic, unanswered word problems, little stories and a
few chats with bare numbers. So it knows digits, the wording of the demo benchmark and the shape of a chat, but was
never shown a word problem together with a way to solve it. No operand pair reserved for the test occurs.

It takes about four minutes on one idle core. The same seed gives the same bytes on the same kind of machine; on another
kind, measure the baseline in `tasks/protocols/demo.toml` again.
"""

import argparse
import importlib.util
import json
import math
import os
import random
import time
from pathlib import Path
from types import ModuleType

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

HERE = Path(__file__).resolve().parent
SEED = 7
VOCABULARY = 512
STEPS = 2000
BATCH = 16
LENGTH = 96
RATE = 3e-3
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT = (
    "{%- for turn in messages %}{{ '<|im_start|>' + turn['role'] + '\\n' + turn['content'] + '<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)
EXTRA_WORDINGS = (
    "{n} saw {a} {t} yesterday and {b} today.",
    "{m} brings {a} {t} and takes {b} {t} with a bag and a basket.",
    "In spring {n} found {a} {t}, in summer {m} found {b} {t}.",
    "{n} lost {a} {t} and {m} picked {b} {t} from the shelf at first.",
)


def load_benchmark() -> ModuleType:
    """The demo benchmark's generator: its wordings and its rule for reserved pairs."""
    path = HERE.parents[1] / "tasks" / "demo" / "make_test_data.py"
    spec = importlib.util.spec_from_file_location("demo_benchmark", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DEMO = load_benchmark()


def free_pair(rng: random.Random, difference: bool) -> tuple[int, int]:
    """A pair that is not reserved for the test."""
    while True:
        a, b = DEMO.draw_pair(rng, difference)
        if not DEMO.reserved(a, b):
            return a, b


def column(x: int, y: int, carry: int, sign: str) -> str:
    """One column of a sum or difference: `digit,carry`."""
    total = x + y + carry if sign == "+" else x - y - carry
    return f"{x}{sign}{y}{sign}{carry}={total % 10},{int(not 0 <= total <= 9)}."


def calculation(rng: random.Random) -> str:
    """A whole calculation, ones first."""
    sign = rng.choice("+-")
    a, b = free_pair(rng, sign == "-")
    carry, parts = 0, []
    for place in (1, 10, 100):
        parts.append(column(a // place % 10, b // place % 10, carry, sign))
        carry = int(parts[-1][-2])
    return f"{a}{sign}{b}. {' '.join(parts)} {a + b if sign == '+' else a - b}."


def story(rng: random.Random) -> tuple[str, int, int]:
    """A question in the benchmark's wording, and its two numbers."""
    difference = rng.random() < 0.5
    a, b = free_pair(rng, difference)
    return DEMO.word(rng, a, b, difference), a, b


def document(rng: random.Random) -> str:
    """One document of the pretraining corpus."""
    kind = rng.random()
    if kind < 0.08:
        return " ".join(
            column(rng.randrange(10), rng.randrange(10), rng.randrange(2), rng.choice("+-")) for _ in range(6)
        )
    if kind < 0.38:
        return calculation(rng)
    if kind < 0.50:
        numbers = " ".join(str(rng.randrange(100, 1000)) for _ in range(4))
        return f"{numbers}. {numbers}. {numbers}."
    question, a, b = story(rng)
    if kind < 0.62:
        name, other = rng.sample(DEMO.NAMES, 2)
        said = rng.choice(EXTRA_WORDINGS).format(n=name, m=other, t=rng.choice(DEMO.THINGS), a=a, b=b)
        return f"{said} {a} {b}. {said}"
    if kind < 0.92:
        return f"{question} {a} {b}."
    # The number is wrong: the shape of an answer, not the way to it.
    said = f"ANSWER: {rng.randrange(100, 1999)}"
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{said}<|im_end|>"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on the corpus; every digit is a token of its own."""
    rng = random.Random(SEED)
    corpus = [document(rng) for _ in range(4000)] + ["ANSWER: user assistant system"] * 50
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d| ?[A-Za-z]+|[^A-Za-z0-9]"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False, initial_alphabet=sorted(alphabet)
    )
    tokenizer.train_from_iterator(corpus, trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        model_max_length=512,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT
    return wrapped


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """An untrained Qwen3 of about 250 thousand parameters."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        attention_dropout=0.0,
    )
    return Qwen3ForCausalLM(config)


def pretrain(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, steps: int) -> None:
    """Muon for the matrices, AdamW for the rest, on packed documents; cosine over `steps`."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    chosen = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    pairs = [
        (torch.optim.Muon(matrices, lr=6 * RATE, momentum=0.95, weight_decay=0.01), 6 * RATE),
        (torch.optim.AdamW(rest, lr=RATE, betas=(0.9, 0.95), weight_decay=0.01), RATE),
    ]
    rng, stream = random.Random(SEED + 4), []
    end, start = tokenizer.convert_tokens_to_ids("<|endoftext|>"), time.monotonic()
    for step in range(steps):
        while len(stream) < BATCH * LENGTH:
            stream += [*tokenizer.encode(document(rng), add_special_tokens=False), end]
        ids = torch.tensor(stream[: BATCH * LENGTH]).view(BATCH, LENGTH)
        del stream[: BATCH * LENGTH]
        factor = min(1.0, (step + 1) / 20) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, rate in pairs:
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{steps} loss {loss.item():.4f} {time.monotonic() - start:.0f} s", flush=True)


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write the files so that transformers 4 and 5 can both read them."""
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    path = out / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    for key in ("backend", "is_local", "local_files_only"):
        settings.pop(key, None)
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    settings["additional_special_tokens"] = settings.pop("extra_special_tokens", ["<|im_start|>"])
    if tokenizer.chat_template:
        settings["chat_template"] = tokenizer.chat_template
    path.write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
    (out / "chat_template.jinja").unlink(missing_ok=True)


def main() -> None:
    """Make the model and write it, by default to `demo-base/` beside this script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE / "demo-base")
    parser.add_argument("--steps", type=int, default=STEPS)
    args = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(tokenizer)} tokens", flush=True)
    pretrain(model, tokenizer, args.steps)
    save(model, tokenizer, args.out)


if __name__ == "__main__":
    main()
