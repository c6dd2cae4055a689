#!/usr/bin/env python3
"""Fine-tune the base model on question/answer records and save `final_model`.

The number of optimizer steps is fixed by the caller and all randomness by the seed: on one machine the result is the
same whatever else that machine does.
"""

import argparse
import json
import math
import os
import random
from pathlib import Path
from typing import Iterator, List, Tuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # after the environment is set
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

BATCH = 16
WARM_UP = 20
Example = Tuple[List[int], List[int]]


def read_examples(path: str, tokenizer) -> List[Example]:
    """Token ids and labels; the question is masked out of the loss."""
    examples = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            prompt = "<|im_start|>user\n" + record["question"] + "<|im_end|>\n<|im_start|>assistant\n"
            asked = tokenizer.encode(prompt, add_special_tokens=False)
            said = tokenizer.encode(record["answer"] + "<|im_end|>", add_special_tokens=False)
            examples.append((asked + said, [-100] * len(asked) + said))
    return examples


def batches(examples: List[Example], pad: int, seed: int) -> Iterator[Tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Endless shuffled passes over the examples, padded on the right."""
    rng = random.Random(seed)
    order: List[int] = []
    while True:
        while len(order) < BATCH:
            order += rng.sample(range(len(examples)), len(examples))
        rows = [examples[i] for i in order[:BATCH]]
        del order[:BATCH]
        width = max(len(ids) for ids, _ in rows)
        yield (
            torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows]),
            torch.tensor([labels + [-100] * (width - len(labels)) for _, labels in rows]),
            torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]),
        )


def rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up, then a cosine down to a twentieth of the peak."""
    return peak * min(1.0, (step + 1) / WARM_UP) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))


def save(model, tokenizer, out: Path) -> None:
    """Save so that transformers 4 and 5 can both read it: version 5 writes tokenizer settings that 4 refuses."""
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    path = out / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    for key in ("backend", "is_local", "local_files_only"):
        settings.pop(key, None)
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(settings.get("extra_special_tokens"), list):
        settings["additional_special_tokens"] = settings.pop("extra_special_tokens")
    path.write_text(json.dumps(settings, indent=1, sort_keys=True), encoding="utf-8")


def main() -> None:
    """Train for exactly `--steps` optimizer steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="train_data.jsonl")
    parser.add_argument("--base", default=os.environ.get("PTB_BASE_MODEL_PATH"))
    parser.add_argument("--out", type=Path, default=Path("final_model"))
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    if not args.base:
        parser.error("--base or PTB_BASE_MODEL_PATH must name the base model's directory")

    logging.disable_progress_bar()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(args.base)
    model = AutoModelForCausalLM.from_pretrained(args.base, dtype=torch.float32)
    model.train()
    source = batches(read_examples(args.data, tokenizer), tokenizer.pad_token_id, args.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.01)
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, args.steps, args.lr)
        ids, labels, mask = next(source)
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 20 == 0 or step + 1 == args.steps:
            print("step {}/{} loss {:.4f}".format(step + 1, args.steps, loss.item()), flush=True)
    save(model, tokenizer, args.out)
    print("saved {}".format(args.out), flush=True)


if __name__ == "__main__":
    main()
