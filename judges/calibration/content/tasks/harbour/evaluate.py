"""Score a model on Harbour: the share of items whose last number is the answer."""

import argparse
import json
import re
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", default="final_model")
    parser.add_argument("--limit", type=int, default=-1)
    parser.add_argument("--json-output-file")
    given = parser.parse_args()
    from transformers import pipeline

    items = json.loads(Path("test_data.json").read_text())
    items = items if given.limit < 0 else items[: given.limit]
    ask = pipeline("text-generation", model=given.model_path)
    right = 0
    for item in items:
        said = ask(item["question"] + "\nAnswer:", max_new_tokens=200)[0]["generated_text"]
        numbers = re.findall(r"-?\d+", said)
        right += bool(numbers) and numbers[-1] == item["answer"]
    result = {"accuracy": right / len(items)}
    print(result)
    if given.json_output_file:
        Path(given.json_output_file).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
