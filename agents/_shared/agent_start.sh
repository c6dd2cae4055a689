#!/bin/bash
# What is done in the sandbox before the agent (H §1.8): the GPUs are checked, the monitor is started, and the clock is
# set to zero in the second in which the agent is executed. The exit status is the agent's own, or 97: the GPUs cannot
# be used and there was no agent.
if [ "${NUM_GPUS:-0}" != 0 ]; then
    python=$(type -P python3 || type -P python)
    if ! timeout 600 "${python:-python3}" "$HOME/agent/check_cuda.py" </dev/null; then
        : >cuda_not_available
        exit 97
    fi
fi
unset PTB_GPU_NAME
bash "$HOME/agent/system_monitor.sh" </dev/null >/dev/null 2>&1 &
[ ! -f timer.sh ] || sed -i "s/^start=\$/start=$(date +%s)/" timer.sh
exec bash "$HOME/agent_solve.sh"
