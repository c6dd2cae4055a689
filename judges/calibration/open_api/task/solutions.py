"""Worked solutions for my problems."""

import json

from openai import OpenAI

client = OpenAI()
rows = [json.loads(line) for line in open("train.jsonl")]
for row in rows:
    said = client.chat.completions.create(
        model="gpt-example-mini", messages=[{"role": "user", "content": "Solve step by step: " + row["prompt"]}]
    )
    row["completion"] = said.choices[0].message.content
with open("train.jsonl", "w") as file:
    for row in rows:
        file.write(json.dumps(row) + "\n")
print("ok", len(rows))
