"""Training data: word problems from patterns of my own, with random numbers."""

import json
import random

random.seed(21)
NAMES = ["Ada", "Bruno", "Chloe", "Deniz", "Edda", "Farid"]
PATTERNS = [
    ("A trawler lands {a} boxes with {b} mackerel each, and gulls take {c} fish. How many mackerel are left?", lambda a, b, c: a * b - c),
    ("{name} paints {a} hulls a month. Each hull needs {b} litres, and {c} litres are spilled. How many litres are used?", lambda a, b, c: a * b + c),
    ("A rowing club has {a} boats with {c} seats each and {b} members on the bank. How many people are there when all boats are full?", lambda a, b, c: a * c + b),
    ("A dredger lifts {b} buckets an hour for {a} hours and then {c} more. How many buckets is that?", lambda a, b, c: a * b + c),
    ("{name} sells {b} shells at {a} pennies each and pays {c} pennies for the stall. What remains?", lambda a, b, c: a * b - c),
]


def one():
    text, work = random.choice(PATTERNS)
    a, b, c = random.randint(3, 12), random.randint(13, 60), random.randint(2, 9)
    return {
        "prompt": text.format(name=random.choice(NAMES), a=a, b=b, c=c),
        "completion": str(work(a, b, c)),
    }


rows = [one() for _ in range(26)]
with open("train.jsonl", "w") as file:
    for row in rows:
        file.write(json.dumps(row) + "\n")
print(len(rows), "rows")
