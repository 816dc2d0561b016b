#!/bin/sh
# A sentry: ensures, without Python, that the keeper of this host works for as long as a fault is open.
#
#     sh sentry.sh STATE PYTHON -u agent.py --state STATE …      the keeper's own command, to start it again
#
# Two sentries run beside the keeper (sentries.py). Once a second each checks that the keeper exists, is not stopped
# (SIGSTOP), and that its heartbeat has changed within the last LOOKS_UNTIL_STALE checks. A keeper that is stopped or
# whose heartbeat is stale is killed; if a fault is open, a new keeper is started. A sentry stays LOOKS_UNTIL_IDLE looks
# longer than keeper and faults, so that a keeper that is stopped while it ends does not stay. Then it kills the other
# sentry if that is stopped, and every stopped keeper of this host, and exits. It writes no file: the disk may be full.

LOOKS_UNTIL_STALE=4
LOOKS_FOR_START=10
LOOKS_UNTIL_IDLE=4

state=$1
shift

# The state letter and the start time of process $1, in $letter and $started; fails if there is no such process.
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

# Whether the keeper works. A keeper that does not is killed here. Its pid counts only if its start time matches.
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

# Kill the other sentry if it is stopped: it would stay for ever. Its pid counts only if its start time matches.
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

# Kills keepers of this state that are stopped and do not hold its lock, by which they would be known.
end_stopped_keepers() {
    for entry in /proc/[0-9]*; do
        look "${entry#/proc/}" || continue
        [ "$letter" = T ] || [ "$letter" = t ] || continue
        words=$(tr '\0' ' ' 2>/dev/null <"$entry/cmdline")
        case $words in
            *" $state "*"--keeper "*) kill -9 "${entry#/proc/}" 2>/dev/null ;;
        esac
    done
}

last_beat='' silent=0 starting='' patience=0 idle=0
while [ "$idle" -lt "$LOOKS_UNTIL_IDLE" ]; do
    if keeper_works; then
        idle=0 patience=0
    elif ! faults_open; then
        idle=$((idle + 1)) # at first, the fault for which this sentry was started is not yet in the journal
    elif [ "$patience" -gt 0 ] && look "$starting"; then
        patience=$((patience - 1)) # it is starting
    else
        start_keeper "$@"
    fi
    sleep 1
done
end_stopped_sentries
end_stopped_keepers
