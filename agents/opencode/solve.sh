#!/bin/bash
# OpenCode with the keys of several providers (H §2.2, §2.4). Its settings lie in the working directory. From the run,
# PTB_ENDPOINT: where the provider named in the config is; one that opencode.json does not know is then taken to be a
# server that speaks OpenAI's chat completions, with the key MODEL_API_KEY.
set -u
. "$HOME/agent/cli.sh"
need opencode opencode-ai
cp "$HOME/agent/opencode.json" opencode.json
if [ -n "${PTB_ENDPOINT-}" ]; then
    provider=${AGENT_CONFIG%%/*} model=${AGENT_CONFIG#*/} more=''
    plain='^[A-Za-z0-9_.:/@-]+$'
    [[ $AGENT_CONFIG == */* && $AGENT_CONFIG =~ $plain ]] || die 1 "the config $AGENT_CONFIG is no PROVIDER/MODEL"
    options="\"baseURL\": \"$PTB_ENDPOINT\""
    if ! grep -q "^    \"$provider\": " opencode.json; then
        options+=', "apiKey": "{env:MODEL_API_KEY}"'
        more="\"npm\": \"@ai-sdk/openai-compatible\", \"models\": {\"$model\": {}}, "
    fi
    export OPENCODE_CONFIG_CONTENT="{\"provider\": {\"$provider\": {$more\"options\": {$options}}}}"
fi
unset PTB_ENDPOINT
printf %s "$PROMPT" | opencode run --model "$AGENT_CONFIG" --format json
