#!/bin/bash
# Claude Code, at its own service or at one that speaks its protocol (H §2.2, §2.5). Read from [env] of agent.toml:
#   PTB_CLAUDE_FLAGS       further flags
#   PTB_CLAUDE_TOKEN_FILE  file in $HOME with a subscription's token
#   PTB_CLAUDE_KEY_FROM    the variable with the service's key; PTB_CLAUDE_KEY_AS: where the CLI looks for it
#   PTB_CLAUDE_MODEL_AS    further variables in which the CLI looks for the model
#   PTB_REPROMPT           not empty: ask again until the time is up
# and, from the run, PTB_ENDPOINT: where the service is, when it is not the CLI's own.
set -u
. "$HOME/agent/cli.sh"
. "$HOME/agent/reprompt.sh"

read -ra further <<<"${PTB_CLAUDE_FLAGS-}"
if [ -n "${PTB_CLAUDE_TOKEN_FILE-}" ]; then
    need_login "$HOME/$PTB_CLAUDE_TOKEN_FILE" 'claude setup-token'
    CLAUDE_CODE_OAUTH_TOKEN=$(tr -d '[:space:]' <"$HOME/$PTB_CLAUDE_TOKEN_FILE")
    export CLAUDE_CODE_OAUTH_TOKEN
fi
if [ -n "${PTB_CLAUDE_KEY_FROM-}" ]; then
    [ -n "${!PTB_CLAUDE_KEY_FROM-}" ] || die 1 "$PTB_CLAUDE_KEY_FROM has no value"
    for name in ${PTB_CLAUDE_KEY_AS-}; do export "$name=${!PTB_CLAUDE_KEY_FROM}"; done
fi
for name in ${PTB_CLAUDE_MODEL_AS-}; do export "$name=$AGENT_CONFIG"; done
# Without it Claude Code refuses to run without permissions as root, which is what one is in some images.
[ "$(id -u)" -ne 0 ] || export IS_SANDBOX=1
[ -z "${PTB_ENDPOINT-}" ] || export ANTHROPIC_BASE_URL=$PTB_ENDPOINT
unset PTB_ENDPOINT "${!PTB_CLAUDE_@}"
need claude @anthropic-ai/claude-code

ask() {
    claude --print --verbose --model "$AGENT_CONFIG" --output-format stream-json "${further[@]}" \
        --dangerously-skip-permissions "$@"
}
again() { ask --continue; }
converse ask again
