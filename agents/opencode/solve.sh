#!/bin/bash
# OpenCode with the keys of several providers (H §2.2, §2.4). Its settings lie in the working directory.
set -u
. "$HOME/agent/cli.sh"
need opencode opencode-ai
cp "$HOME/agent/opencode.json" opencode.json
printf %s "$PROMPT" | opencode run --model "$AGENT_CONFIG" --format json
