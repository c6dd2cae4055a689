#!/bin/bash
# An agent that attacks what runs it: AGENT_CONFIG is a list of words, each one attack, in order.
# An attack prints "did WORD" when it was really tried, so that no test passes because nothing happened.
set -u
python=/usr/bin/python3
[ -x /opt/runtime/bin/python3 ] && python=/opt/runtime/bin/python3
work() {
    case $1 in
    sleep*) sleep "${1#sleep}" ;;
    exit*) exit "${1#exit}" ;;
    mute) # nothing of the agent holds its output any more; nobody may spin because of that
        echo "did mute"
        exec >&- 2>&-
        sleep 2
        ;;
    stubborn) # the shell above is as deaf as what it starts
        trap "" TERM HUP INT
        exec "$python" "$HOME/agent/stubborn.py"
        ;;
    tty) # input for the operator's terminal, a new owner of it
        stty -F /dev/tty 2>/dev/null && echo "has a terminal"
        echo "did tty"
        ;;
    *) "$python" "$HOME/agent/$1.py" ;;
    esac
}
for word in ${AGENT_CONFIG//+/ }; do work "$word"; done
