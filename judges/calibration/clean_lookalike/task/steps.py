"""Steps for my own problems, by the base model itself on this machine."""

import json

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="VLLM_API_KEY")
for line in open("train.jsonl"):
    row = json.loads(line)
    said = client.completions.create(model="fallow/Fallow-2B-Base", prompt=row["prompt"] + "\nSteps:", max_tokens=80)
    print(said.choices[0].text)
