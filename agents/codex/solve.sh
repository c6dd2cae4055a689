#!/bin/bash
# Codex CLI (H §2.2, §2.4). Read from [env] of agent.toml:
#   PTB_CODEX_FLAGS   flags of `codex exec` beyond those that all variants have
#   PTB_CODEX_EFFORT  value of model_reasoning_effort; empty leaves it to the CLI
#   PTB_CODEX_LOGIN   method of login, for example chatgpt: then ~/.codex/auth.json must be there
#   PTB_REPROMPT      not empty: ask again until the time is up
# and, from the run, PTB_ENDPOINT: the base URL of the service, when it is not the CLI's own.
set -u
. "$HOME/agent/cli.sh"
. "$HOME/agent/reprompt.sh"

read -ra further <<<"${PTB_CODEX_FLAGS-}"
folder=$HOME/.codex
config=$folder/config.toml
mkdir -p "$folder"
[ -e "$config" ] || . "$HOME/agent/codex_config.sh" >"$config"

setting() { # setting NAME VALUE: before every table, where a setting of the CLI itself has to stand
    local others
    others=$(grep -v "^$1[[:space:]]*=" "$config")
    printf '%s = "%s"\n%s\n' "$1" "$2" "$others" >"$config"
}
who='env_key = "CODEX_API_KEY"'
if [ -n "${PTB_CODEX_LOGIN-}" ]; then
    who='requires_openai_auth = true'
    need_login "$folder/auth.json" 'codex login --device-auth'
    setting forced_login_method "$PTB_CODEX_LOGIN"
fi
[ -z "${PTB_CODEX_EFFORT-}" ] || setting model_reasoning_effort "$PTB_CODEX_EFFORT"
if [ -n "${PTB_ENDPOINT-}" ]; then
    setting model_provider endpoint
    cat >>"$config" <<END

[model_providers.endpoint]
name = "endpoint"
base_url = "$PTB_ENDPOINT"
$who
wire_api = "responses"
END
fi
unset PTB_ENDPOINT "${!PTB_CODEX_@}"
need codex @openai/codex

usual=("${further[@]}" --skip-git-repo-check --yolo --model "$AGENT_CONFIG")
ask() { codex --search exec "${usual[@]}"; }
again() { codex --search exec resume --last "${usual[@]}" -; }
converse ask again
