#!/bin/bash
# Gemini CLI with an API key (H §2.2). It adds its stdin to the prompt, so there must be nothing on it. From the run,
# PTB_ENDPOINT: where the service is, when it is not the CLI's own.
set -eu
. "$HOME/agent/cli.sh"
settings=$HOME/.gemini/settings.json
if [ ! -e "$settings" ]; then # without a word on how to sign in, it asks a person
    mkdir -p "${settings%/*}"
    echo '{"security": {"auth": {"selectedType": "gemini-api-key"}}}' >"$settings"
fi
[ -z "${PTB_ENDPOINT-}" ] || export GOOGLE_GEMINI_BASE_URL=$PTB_ENDPOINT
unset PTB_ENDPOINT
need gemini @google/gemini-cli
exec gemini --yolo --model "$AGENT_CONFIG" --output-format stream-json -p "$PROMPT" </dev/null
