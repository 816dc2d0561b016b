#!/bin/sh
# A sentry: sees to it that the keeper of this host works for as long as a fault is open, and owes nothing to Python.
#
#     sh sentry.sh STATE PYTHON -u agent.py --state STATE …      the keeper's own command, to start it again
#
# Two of them run beside the keeper (sentries.py). Once a second each looks whether the keeper is there, is not stopped
# (SIGSTOP), and its heartbeat has moved within the last LOOKS_UNTIL_STALE looks. One that is stopped or has no pulse is
# killed; if a fault is open, a new one is started. Without keeper and fault a sentry ends the other one if that is
# stopped, and then itself. It writes no file: the disk may be full.

LOOKS_UNTIL_STALE=4
LOOKS_FOR_START=10
LOOKS_UNTIL_IDLE=4

state=$1
shift

# The state letter and the start time of process $1, in $letter and $started; fails if it is not there.
look() {
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    line=${line##*) }
    # shellcheck disable=SC2086
    set -- $line
    letter=$1
    started=${20}
    [ "$letter" != Z ] && [ "$letter" != X ]
}

# Whether a fault is open: an entry in the journal or in its copy.
faults_open() {
    for entry in "$state"/journal/*.json "$state"/journal.copy/*.json; do
        [ -e "$entry" ] && return 0
    done
    return 1
}

# Whether the keeper works. One that does not is killed here. Its pid is only believed with its start time.
keeper_works() {
    pid='' since=''
    { read -r pid since <"$state/keeper.lock"; } 2>/dev/null
    [ -n "$pid" ] && [ -n "$since" ] && look "$pid" && [ "$started" = "$since" ] || return 1
    beat=''
    { read -r beat <"$state/keeper.beat"; } 2>/dev/null
    if [ "$pid $beat" = "$last_beat" ]; then
        silent=$((silent + 1))
    else
        silent=0
        last_beat="$pid $beat"
    fi
    case $letter in
        T | t) silent=$LOOKS_UNTIL_STALE ;;
    esac
    [ "$silent" -lt "$LOOKS_UNTIL_STALE" ] && return 0
    silent=0
    kill -9 "$pid" 2>/dev/null
    return 1
}

start_keeper() {
    if { : >>"$state/keeper.log"; } 2>/dev/null; then
        "$@" --keeper 9 9>/dev/null </dev/null >>"$state/keeper.log" 2>&1 &
    else
        "$@" --keeper 9 9>/dev/null </dev/null >/dev/null 2>&1 &
    fi
    starting=$!
    patience=$LOOKS_FOR_START
}

# Kills the other sentry if it is stopped: it would stay for ever. Its pid is only believed with its start time.
end_stopped_sentries() {
    { read -r known <"$state/sentries"; } 2>/dev/null
    # shellcheck disable=SC2086
    set -- $known
    while [ $# -ge 2 ]; do
        if look "$1" && [ "$started" = "$2" ] && { [ "$letter" = T ] || [ "$letter" = t ]; }; then
            kill -9 "$1" 2>/dev/null
        fi
        shift 2
    done
}

last_beat='' silent=0 starting='' patience=0 idle=0
while [ "$idle" -lt "$LOOKS_UNTIL_IDLE" ]; do
    if keeper_works; then
        idle=0 patience=0
    elif ! faults_open; then
        idle=$((idle + 1)) # at first, the fault for which we were started is still to be written down
    elif [ "$patience" -gt 0 ] && look "$starting"; then
        patience=$((patience - 1)) # it is on its way
    else
        start_keeper "$@"
    fi
    sleep 1
done
end_stopped_sentries
