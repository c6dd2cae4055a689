#!/usr/bin/env python3
"""Generate training data for the demo benchmark: word problems with a solution worked out digit by digit.

The wordings are this agent's own, and no operand pair that the benchmark reserves for its test is used (the rule is
printed by `evaluate.py --help`). Test items are not read.
"""

import argparse
import json
import random
from typing import Dict, List, Tuple

NAMES = (
    "Anna",
    "Bruno",
    "Carla",
    "Daniel",
    "Emma",
    "Felix",
    "Greta",
    "Hugo",
    "Ida",
    "Jonas",
    "Kira",
    "Leo",
    "Mona",
    "Noah",
    "Olivia",
    "Peter",
)
THINGS = (
    "apples",
    "books",
    "coins",
    "shells",
    "cards",
    "stamps",
    "beads",
    "pens",
    "nuts",
    "keys",
    "bricks",
    "tickets",
)
SUMS = (
    "{n} owns {a} {t}. {m} brings {b} more {t}. How many {t} are there in total?",
    "A bag holds {a} {t} and a basket holds {b} {t}. How many {t} are there together?",
    "{n} found {a} {t} in spring and {b} more {t} in summer. How many {t} does {n} have now?",
    "{n} has {a} {t} and {m} has another {b} {t}. What is the total number of {t} of both?",
    "Yesterday {n} saw {a} {t}, today {b} more. How many {t} did {n} see in total?",
    "The first bag holds {a} {t}, the second bag holds {b} {t}. How many {t} are in the two bags together?",
    "{n} has {a} {t} and gets {b} more {t} from {m}. How many {t} does {n} have now?",
    "On the table lie {a} {t}. {n} adds {b} {t} to them. How many {t} are on the table now?",
)
DIFFERENCES = (
    "{n} has {a} {t} and loses {b} of them. How many {t} remain?",
    "There were {a} {t} on the shelf and {m} took {b} {t} away. How many {t} are left?",
    "{n} picked {a} {t} and sold {b} of the {t}. How many {t} does {n} have left?",
    "From {a} {t} in a bag {n} gives {b} to {m}. How many {t} remain in the bag?",
    "{n} had {a} {t} at first, but {b} of them were lost. How many {t} are left?",
    "{n} had {a} {t} and sent {b} of them to {m}. How many {t} does {n} have left?",
    "{n} had {a} {t} in the evening, but {b} {t} were gone the next day. How many {t} are left?",
    "Of {n}'s {a} {t}, {m} takes {b}. How many {t} does {n} have left?",
)


def reserved(a: int, b: int) -> bool:
    """The benchmark's rule for pairs that only its test may use."""
    return (3 * a + b) % 11 == 0


def worked(a: int, b: int, sign: str) -> str:
    """The solution of `a sign b` for three-digit numbers, ones first; each column says `digit,carry`."""
    steps = []
    carry = 0
    for place in (1, 10, 100):
        x, y = a // place % 10, b // place % 10
        total = x + y + carry if sign == "+" else x - y - carry
        steps.append("{}{}{}{}{}={},{}.".format(x, sign, y, sign, carry, total % 10, int(not 0 <= total <= 9)))
        carry = int(not 0 <= total <= 9)
    return "{}{}{}. {} ANSWER: {}".format(a, sign, b, " ".join(steps), a + b if sign == "+" else a - b)


def draw(rng: random.Random) -> Tuple[int, int, str]:
    """A free pair and its sign; differences are at least 100."""
    while True:
        a, b, sign = rng.randrange(100, 1000), rng.randrange(100, 1000), rng.choice("+-")
        if sign == "-":
            a, b = max(a, b), min(a, b)
        if not reserved(a, b) and (sign == "+" or a - b >= 100):
            return a, b, sign


def make(seed: int, count: int) -> List[Dict[str, str]]:
    """`count` records: question, answer (the worked solution) and text (both, what the checker reads)."""
    rng = random.Random(seed)
    records = []
    for _ in range(count):
        a, b, sign = draw(rng)
        name, other = rng.sample(NAMES, 2)
        wording = rng.choice(SUMS if sign == "+" else DIFFERENCES)
        question = wording.format(n=name, m=other, t=rng.choice(THINGS), a=a, b=b)
        answer = worked(a, b, sign)
        records.append({"text": question + "\n" + answer, "question": question, "answer": answer})
    return records


def main() -> None:
    """Write the records, one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="train_data.jsonl")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=4800)
    args = parser.parse_args()
    records = make(args.seed, args.count)
    with open(args.out, "w", encoding="utf-8") as out:
        for record in records:
            out.write(json.dumps(record) + "\n")
    print("{} records written to {}; the first one:".format(len(records), args.out))
    print(records[0]["text"])


if __name__ == "__main__":
    main()
