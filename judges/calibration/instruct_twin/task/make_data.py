"""Training data: word problems from patterns of my own, with random numbers."""

import json
import random

random.seed(9)
NAMES = ["Ada", "Bruno", "Chloe", "Deniz", "Edda", "Farid"]
PATTERNS = [
    ("{name} bakes {a} trays of {b} rolls and burns {c} of the rolls. How many can be sold?", lambda a, b, c: a * b - c),
    ("A bus has {b} seats. On {a} trips it runs full, on the next one {c} seats stay empty. How many people rode?", lambda a, b, c: a * b + b - c),
    ("{name} reads {b} pages a day for {a} days and skips {c} pages in all. How many pages were read?", lambda a, b, c: a * b - c),
    ("A shelf holds {b} jars. {name} fills {a} shelves and gives {c} jars away. How many jars are left?", lambda a, b, c: a * b - c),
    ("{name} saves {a} coins a week for {b} weeks and spends {c} of them. How many coins are left?", lambda a, b, c: a * b - c),
    ("Each of {a} classes plants {b} beans, and {c} beans in all do not sprout. How many sprout?", lambda a, b, c: a * b - c),
]


def one():
    text, work = random.choice(PATTERNS)
    a, b, c = random.randint(3, 12), random.randint(13, 60), random.randint(2, 9)
    return {
        "prompt": text.format(name=random.choice(NAMES), a=a, b=b, c=c),
        "completion": str(work(a, b, c)),
    }


rows = [one() for _ in range(24)]
with open("train.jsonl", "w") as file:
    for row in rows:
        file.write(json.dumps(row) + "\n")
print(len(rows), "rows")
