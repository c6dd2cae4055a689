"""A laboratory's folder in the layout of the original's repository. Everything in it is made up."""

from __future__ import annotations

import json
from pathlib import Path

PROMPT = """You train {model} for \\`{benchmark}\\` in {num_hours} hours. This is the prompt of the laboratory.
{gpu_info}
{setup_other}
A set such as {a_and_b} is no placeholder, nor is \\boxed{x}.
{decontamination_tool}
{eval_api_note}
"""
SOLVE = """#!/bin/bash
# the laboratory's own agent
cat "$HOME/update_agent_cli.sh" "$HOME/.codex/config.toml"
mkdir -p final_model
cp -r "$PTB_BASE_MODEL_PATH"/. final_model/
echo "asked for: $PROMPT"
"""
SCRIPT = """import argparse
import json

import inspect_ai  # noqa: F401 - only named, so that the prompt says what it says of inspect tasks
"""
STANDALONE = """import argparse
import json

parser = argparse.ArgumentParser()
for flag in ("--model-path", "--limit", "--max-new-tokens", "--json-output-file", "--templates-dir", "--seed"):
    parser.add_argument(flag)
args = parser.parse_args()
with open(args.json_output_file, "w") as file:
    json.dump({"accuracy": 0.5, "stderr": 0.1}, file)
"""
JUDGE = """Did the agent of {model} write its notes in rhyme? Look at ../solve_parsed.txt. {agent_harness}
A mark such as {nothing} fills nothing. Write judgement.json with `rhymed` and `justification_rhymed`.
"""
CONF = """# one of the laboratory's
JUDGE_LABEL="Rhymes"
JUDGE_OUTPUT_ID="rhymes"   # ends up in file names
JUDGE_PROMPT_FILE="rhymes.md"
JUDGE_MODEL="some-model"
JUDGE_CODEX_VERSION=""
"""
ITEMS = [
    {
        "question": f"In which of the {n} drawers of the tall oak cabinet lies the letter with the red wax seal?",
        "answer": str(n),
    }
    for n in range(40, 60)
]


def put(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def laboratory(root: Path) -> Path:
    """Build it; returns the folder."""
    put(
        root,
        {
            "agents/lab_codex/solve.sh": SOLVE,
            "agents/lab_codex/api_keys.json": '{"allowed_api_keys": []}',
            "agents/broken/solve.sh": "exit 0\n",
            "agents/broken/api_keys.json": '{"allowed_keys": []}',
            "containers/other_home_data/.codex/config.toml": 'lab = "config of the laboratory"\n',
            "containers/download_hf_cache/resources.json": json.dumps(
                {"models": ["lab/small"], "datasets": [{"dataset": "lab/rhymes", "config": None, "splits": ["train"]}]}
            ),
            "src/utils/update_agent_cli.sh": "echo the laboratory updates nothing\n",
            "src/eval/general/prompt.txt": PROMPT,
            "src/eval/templates/rhyming.jinja": "{{ messages }}",
            "src/eval/tasks/riddles/evaluate.py": STANDALONE,
            "src/eval/tasks/riddles/evaluate_final_eval.py": STANDALONE,
            "src/eval/tasks/riddles/benchmark.txt": "Riddles\n",
            "src/eval/tasks/riddles/info.json": '{"benchmark": "Riddles"}',
            "src/eval/tasks/riddles/test_data.json": json.dumps(ITEMS),
            "src/eval/tasks/puns/evaluate.py": SCRIPT,
            "src/eval/tasks/puns/benchmark.txt": "Puns\n",
            "src/eval/tasks/puns/info.json": '{"benchmark": "Puns"}',
            "src/judges/rhyme_judge/judge.conf": CONF,
            "src/judges/rhyme_judge/rhymes.md": JUDGE,
            "src/judges/broken_judge/judge.conf": 'JUDGE_LABEL="no id"\n',
            "src/judges/judge_tools/contamination_check.py": "raise SystemExit('of the laboratory')\n",
            "src/judges/judge_tools/reference_configs/lab_small.json": "{}",
        },
    )
    return root
