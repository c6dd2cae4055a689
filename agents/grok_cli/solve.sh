#!/bin/bash
# xAI's CLI with the login of a subscription (H §2.2). It takes its prompt as an argument only.
set -eu
. "$HOME/agent/cli.sh"
PATH=$PATH:$HOME/.grok/bin
need_login "$HOME/.grok/auth.json" 'grok login'
need grok grok
exec grok --oauth --always-approve --output-format streaming-json --cwd "$PWD" -m "$AGENT_CONFIG" -p "$PROMPT" </dev/null
