# Ask the CLI again until the time is up (H §2.6). Read by solve.sh; the working directory holds timer.sh.

REPROMPT_STOP_MIN=30     # with less than this left nothing new is begun
REPROMPT_QUICK_S=60      # a call that ended earlier did no work
REPROMPT_FAILURES=10     # so many quick failures in a row are no accident
REPROMPT_CALLS=200       # and so many calls are no work
REPROMPT_PAUSE_S=10      # before the next call; doubled after each quick one
REPROMPT_PAUSE_MAX_S=600 # and never longer than this

minutes_left() { # from timer.sh; 0 when it has expired, status 1 when it says nothing of use
    local said line
    said=$(timeout 20 bash timer.sh </dev/null 2>&1 | head -c 4096 | tr -d '\0')
    if [[ $said == *expired* ]]; then
        echo 0
        return
    fi
    while IFS= read -r line; do
        if [[ $line =~ ^([0-9]{1,4}):([0-9]{2})$ ]]; then
            echo $((10#${BASH_REMATCH[1]} * 60 + 10#${BASH_REMATCH[2]})) # 08 and 09 are not octal
            return
        fi
    done <<<"$said"
    return 1
}

time_for_more() { # sets `left`; fails when there is too little. `end` is when the time is up by our own clock
    local own=$(((end - SECONDS) / 60))
    left=$(minutes_left) || left=$own
    [ "$left" -le "$own" ] || left=$own
    [ "$left" -ge "$REPROMPT_STOP_MIN" ]
}

reprompt() { # reprompt FIRST AGAIN: call FIRST with $PROMPT on its stdin, then AGAIN with a reminder, to the end
    local call=$1 text=$PROMPT end='' left status began failures=0 pause=$REPROMPT_PAUSE_S calls=0
    # The agent can write timer.sh, so what it says later never adds time to what it said before the first call.
    left=$(minutes_left) && end=$((SECONDS + left * 60 + 59))
    while :; do
        began=$SECONDS
        printf %s "$text" | "$call"
        status=$? calls=$((calls + 1))
        if [ -z "$end" ]; then
            echo "agent: timer.sh did not tell the time, so there is one call only" >&2
            return "$status"
        fi
        time_for_more || return "$status"
        if [ "$calls" -ge "$REPROMPT_CALLS" ]; then
            echo "agent: $calls calls are enough, $((left / 60)):$(printf %02d $((left % 60))) left" >&2
            return "$status"
        fi
        if [ $((SECONDS - began)) -ge "$REPROMPT_QUICK_S" ]; then
            failures=0 pause=$REPROMPT_PAUSE_S
            sleep "$pause"
        else
            failures=$((status == 0 ? 0 : failures + 1))
            if [ "$failures" -ge "$REPROMPT_FAILURES" ]; then
                echo "agent: $failures calls in a row failed at once, the last with status $status" >&2
                return "$status"
            fi
            sleep "$pause"
            pause=$((pause * 2 < REPROMPT_PAUSE_MAX_S ? pause * 2 : REPROMPT_PAUSE_MAX_S))
        fi
        time_for_more || return "$status"
        text="You still have $((left / 60)) hours and $((left % 60)) minutes: keep improving final_model."
        echo "agent: asking again, $((left / 60)):$(printf %02d $((left % 60))) left" >&2
        call=$2
    done
}

converse() { # converse FIRST AGAIN: one call, or as many as there is time for where PTB_REPROMPT is set
    if [ -n "${PTB_REPROMPT-}" ]; then
        unset PTB_REPROMPT
        reprompt "$1" "$2"
    else
        printf %s "$PROMPT" | "$1"
    fi
}
