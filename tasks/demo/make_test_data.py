#!/usr/bin/env python3
"""Write `test_data.json` of the demo benchmark: the same 200 items every time.

An item is a one-step word problem on two three-digit numbers. Sums and differences alternate, the wording is drawn
from `SUM_WORDINGS` and `DIFFERENCE_WORDINGS`. A pair of numbers may be used for the test only if `reserved` holds for
it; everything else is free for training, so the two never meet.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Dict, List, Tuple

SEED = 20260101
ITEMS = 200
NAMES = (
    "Anton",
    "Berta",
    "Clara",
    "David",
    "Emil",
    "Frida",
    "Georg",
    "Helga",
    "Igor",
    "Julia",
    "Klaus",
    "Lotte",
    "Marta",
    "Nils",
    "Olga",
    "Paula",
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
SUM_WORDINGS = (
    "{n} has {a} {t} and buys {b} more {t} at the market. How many {t} does {n} have now?",
    "There are {a} {t} in the first box and {b} {t} in the second box. How many {t} are in both boxes together?",
    "On Monday {n} counted {a} {t}, and on Tuesday {n} counted {b} more. How many {t} did {n} count in total?",
    "{n} puts {a} {t} on the table, then {m} adds another {b} {t}. What is the total number of {t} on the table?",
)
DIFFERENCE_WORDINGS = (
    "{n} had {a} {t} and gave {b} of them to {m}. How many {t} does {n} have left?",
    "A shop had {a} {t} in the morning and sold {b} {t} during the day. How many {t} are left in the shop?",
    "{n} collected {a} {t}, but {b} of the {t} were lost on the way home. How many {t} remain?",
    "Of the {a} {t} that {n} keeps in a drawer, {m} takes {b} away. How many {t} remain in the drawer?",
)


def reserved(a: int, b: int) -> bool:
    """True for the pairs that only the test may use, about one in eleven."""
    return (3 * a + b) % 11 == 0


def draw_pair(rng: random.Random, difference: bool) -> Tuple[int, int]:
    """Two numbers of three digits; for a difference the first is larger by at least 100."""
    while True:
        a, b = rng.randrange(100, 1000), rng.randrange(100, 1000)
        if not difference:
            return a, b
        if abs(a - b) >= 100:
            return max(a, b), min(a, b)


def word(rng: random.Random, a: int, b: int, difference: bool) -> str:
    """The question for one pair, in one of the test's wordings."""
    name, other = rng.sample(NAMES, 2)
    wording = rng.choice(DIFFERENCE_WORDINGS if difference else SUM_WORDINGS)
    return wording.format(n=name, m=other, t=rng.choice(THINGS), a=a, b=b)


def make_items(seed: int = SEED, count: int = ITEMS) -> List[Dict[str, str]]:
    """`count` items `{"id", "question", "answer"}` with pairwise different operands."""
    rng = random.Random(seed)
    used = set()
    items: List[Dict[str, str]] = []
    while len(items) < count:
        difference = len(items) % 2 == 1
        a, b = draw_pair(rng, difference)
        if not reserved(a, b) or (a, b) in used:
            continue
        used.add((a, b))
        answer = a - b if difference else a + b
        question = word(rng, a, b, difference)
        items.append({"id": f"demo-{len(items):03d}", "question": question, "answer": str(answer)})
    return items


def render(items: List[Dict[str, str]]) -> str:
    """The text of `test_data.json`."""
    return json.dumps(items, indent=1) + "\n"


def main() -> None:
    """Write the file, by default beside this script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "test_data.json")
    parser.parse_args().out.write_text(render(make_items()), encoding="utf-8")


if __name__ == "__main__":
    main()
