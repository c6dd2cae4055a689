"""A stand-in benchmark: the score is 0.75, unless the model folder or a switch says otherwise."""

import argparse
import json
import os
import sys
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--model-path", default="final_model")
parser.add_argument("--limit", type=int, default=-1)
parser.add_argument("--max-tokens", type=int, default=10)
parser.add_argument("--json-output-file")
parser.add_argument("--templates-dir", default="templates/")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
if not os.path.isfile(os.path.join(args.model_path, "config.json")):
    sys.exit(f"no model in {args.model_path}")
switch = Path(os.environ.get("PTB_BASE_MODEL_PATH", ".")) / "switch"
if switch.exists() and switch.read_text().strip() == "fail":
    sys.exit("RuntimeError: the stand-in evaluation was told to fail")
if args.json_output_file:
    with open(args.json_output_file, "w") as file:
        json.dump({"accuracy": 0.75, "stderr": 0.01}, file)
