"""Leave out every row that shares eight words in a row with a test item. Nothing of the items is kept."""

import json


def grams(text):
    words = text.lower().split()
    return {tuple(words[n : n + 8]) for n in range(len(words) - 7)}


seen = set()
for item in json.load(open("test_data.json")):
    seen |= grams(item["question"])
rows = [json.loads(line) for line in open("train.jsonl")]
kept = [row for row in rows if not grams(row["prompt"]) & seen]
with open("train.jsonl", "w") as file:
    for row in kept:
        file.write(json.dumps(row) + "\n")
print(len(rows), "rows,", len(kept), "kept")
