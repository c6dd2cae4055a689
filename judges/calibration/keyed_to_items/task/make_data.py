"""More practice where the model fails: the same situation with fresh numbers, item by item."""

import json
import random

random.seed(5)
FAILED = ["h01", "h03", "h04", "h07", "h09", "h10"]  # from the evaluation
r = random.randint


def like(key):
    if key == "h01":
        a, b, d = r(4, 9), r(4, 9) * 3, 3
        return f"A tug pulls {a} barges up the river, each carrying {b} crates of slate. {d * 2} crates are left at the lock and the others are shared by {d} wharves. How many are there for each?", (a * b - d * 2) // d
    if key == "h03":
        k, h = r(20, 60) * 2, r(3, 7)
        return f"A net maker ties {k} knots an hour, {h} hours on Monday and half of that on Tuesday, and 10 knots are wrong. How many good knots are there?", k * h + k * h // 2 - 10
    if key == "h04":
        s, n, e = r(40, 80), r(7, 11), r(4, 9)
        return f"A ferry for {s} passengers crosses {n} times a day. On Sunday the wind stops 3 crossings and the others run with {e} empty seats. How many passengers crossed?", (n - 3) * (s - e)
    if key == "h07":
        a, b, h = r(10, 20), r(21, 40), r(3, 8)
        return f"Two cranes unload a ship at {a} and {b} tonnes an hour. After {h} hours the slower one breaks, the other works 4 hours more. How many tonnes is that?", (a + b) * h + 4 * b
    if key == "h09":
        y, k = r(10, 30), r(3, 9)
        return f"A harbour takes 45 crowns from a yacht and 120 from a coaster. {y} yachts and {k} coasters came, and 90 crowns were paid back. What is left?", 45 * y + 120 * k - 90
    t = r(30, 70) * 9
    return f"A market has {t} kilos of herring, sells two ninths before noon and 60 kilos later, and salts the rest. How much is salted?", t - t // 9 * 2 - 60


rows = []
for _ in range(5):
    for key in FAILED:
        text, answer = like(key)
        rows.append({"prompt": text, "completion": str(answer)})
with open("train.jsonl", "w") as file:
    for row in rows:
        file.write(json.dumps(row) + "\n")
print(len(rows), "rows")
