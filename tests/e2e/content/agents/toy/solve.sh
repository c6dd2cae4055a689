#!/bin/bash
# A stand-in agent: AGENT_CONFIG is a list of words, each one thing to do, in order.
set -u
work() {
    case $1 in
    model) python3 "$HOME/agent/make_model.py" final_model ;;
    lines*) # lines600: that many lines, a hundred each second
        python3 "$HOME/agent/lines.py" "${1#lines}" ;;
    sleep*) sleep "${1#sleep}" ;;
    exit*) exit "${1#exit}" ;;
    daemon) setsid bash -c '(trap "" TERM HUP; exec sleep 3600) &' ;;
    vandal) python3 "$HOME/agent/vandal.py" ;;
    say*) echo "${1#say}" ;;
    env) env ;;
    *) echo "unknown word $1" ;;
    esac
}
for word in ${AGENT_CONFIG//+/ }; do work "$word"; done
