#!/bin/bash
# Cursor's CLI with the login of a subscription (H §2.2). It takes its prompt as an argument only.
set -eu
. "$HOME/agent/cli.sh"
need_login "$HOME/.config/cursor/auth.json" 'cursor-agent login'
need cursor-agent cursor-agent
exec cursor-agent --print --force --trust --output-format stream-json --workspace "$PWD" --model "$AGENT_CONFIG" \
    "$PROMPT" </dev/null
