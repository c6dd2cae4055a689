#!/bin/bash
# Gemini CLI with an API key (H §2.2). It adds its stdin to the prompt, so there must be nothing on it.
set -eu
. "$HOME/agent/cli.sh"
need gemini @google/gemini-cli
exec gemini --yolo --model "$AGENT_CONFIG" --output-format stream-json -p "$PROMPT" </dev/null
