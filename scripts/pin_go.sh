#!/usr/bin/env bash
# Pins a program in Go: writes the go.mod and go.sum with which harness/artifacts/go_programs.py builds it.
#
#   scripts/pin_go.sh nats-server-2.12.1 github.com/nats-io/nats-server/v2@v2.12.1
#
# Compare the result with what the project publishes before it is committed.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: pin_go.sh NAME PACKAGE@VERSION" >&2; exit 254; }
cd "$(dirname "$0")/../harness/artifacts/go"
mkdir -p "$1"
cd "$1"
printf 'module squall/%s\n\ngo 1.21\n' "$1" >go.mod
go get "$2"
