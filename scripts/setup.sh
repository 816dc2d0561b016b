#!/usr/bin/env bash
# Sets up everything Squall needs on Debian 12, Ubuntu 22.04 or newer: system packages by apt, Python packages in
# .venv. Prints what it installs; a second run installs nothing.
#
#   scripts/setup.sh run     what `make quickstart` needs
#   scripts/setup.sh test    also what the test suite needs
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-run}

say() { printf 'setup  %s\n' "$*"; }
die() { printf 'setup  %s\n' "$*" >&2; exit 254; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if command -v "$candidate" >/dev/null 2>&1 \
            && "$candidate" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    die "needs Python 3.11 or newer: install one, or name it with PYTHON=/path/to/python3.11"
}

java_is_17() {
    command -v java >/dev/null 2>&1 || return 1
    local major
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ -n "$major" ] && [ "$major" -ge 17 ]
}

on_path() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }

python=$(find_python)

packages=()
on_path sshd || packages+=(openssh-server)
on_path nft || packages+=(nftables)
on_path iptables || packages+=(iptables)
on_path ip || packages+=(iproute2)
on_path cc || packages+=(gcc libc6-dev)
java_is_17 || packages+=(openjdk-17-jre-headless)
"$python" -c 'import venv, ensurepip' 2>/dev/null || packages+=("$(basename "$("$python" -c \
    'import sys; print("python%d.%d-venv" % sys.version_info[:2])')")")
if [ "$purpose" = test ]; then
    on_path kcat || packages+=(kcat)
    on_path mvn || packages+=(maven)
    on_path sudo || packages+=(sudo)
    on_path chromedriver || packages+=(chromium chromium-driver fonts-dejavu-core)
fi

if [ ${#packages[@]} -gt 0 ]; then
    command -v apt-get >/dev/null 2>&1 || die "needs ${packages[*]}, and this machine has no apt: install them by hand"
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || die "needs ${packages[*]}: run as root, or install sudo"
        as_root=(sudo)
    fi
    say "installing system packages: ${packages[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        "${packages[@]}" >/dev/null
fi

if [ ! -x .venv/bin/python ]; then
    say "creating .venv with $("$python" --version)"
    "$python" -m venv .venv
fi

wanted=$(cat pyproject.toml constraints.txt | sha256sum | cut -c1-16)
extras=""
[ "$purpose" = test ] && extras="[test]"
stamp=.venv/.squall-$purpose
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    say "installing Python packages into .venv (squall$extras, in the versions of constraints.txt)"
    log=.venv/setup.log
    {
        .venv/bin/python -m pip install --disable-pip-version-check --upgrade pip setuptools
        .venv/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable ".$extras"
    } >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "pip failed; all it said is in $log"; }
    say "compiling the checker's loops, once"
    .venv/bin/python -c 'import squall.results.checkers.kernels.passes' >>"$log" 2>&1 \
        || { tail -n 20 "$log" >&2; die "the checker's loops cannot be compiled; all that was said is in $log"; }
    printf '%s' "$wanted" >"$stamp"
    if [ "$purpose" = test ]; then printf '%s' "$wanted" >.venv/.squall-run; fi
fi
