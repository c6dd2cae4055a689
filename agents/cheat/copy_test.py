"""Write the test set into train_data.jsonl, many times over. This is what an agent must not do."""

import json
import re

from problems import worked

COPIES = 20


def main() -> None:
    """Read ../test_data.json; write each item as it is, and its answer worked out for the training."""
    with open("../test_data.json", encoding="utf-8") as file:
        items = json.load(file)
    with open("train_data.jsonl", "w", encoding="utf-8") as out:
        for _ in range(COPIES):
            for item in items:
                a, b = (int(digits) for digits in re.findall("[0-9]+", item["question"]))
                answer = worked(a, b, "+" if int(item["answer"]) == a + b else "-")
                text = item["question"] + "\n" + item["answer"]
                out.write(json.dumps({"text": text, "question": item["question"], "answer": answer}) + "\n")
    print("{} test items written {} times to train_data.jsonl".format(len(items), COPIES))


if __name__ == "__main__":
    main()
