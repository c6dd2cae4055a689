"""What others tried."""

from datasets import load_dataset

rows = load_dataset("smolagents/post-train-bench-traces", split="train", streaming=True)
for row in rows.take(3):
    print(str(row)[:400])
