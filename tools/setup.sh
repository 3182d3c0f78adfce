#!/bin/sh
# Installs what ffwd needs from the distribution's packages, or says what to install.
#
#   tools/setup.sh build   what `make` needs
#   tools/setup.sh test    that, and what `make test` needs
#   tools/setup.sh long    that, and what `make test-long` needs
#   tools/setup.sh fuzz    what `make test` and what `make fuzz` needs
#   tools/setup.sh clients what `make test` and `make test-clients` need
#   tools/setup.sh cargo   prints the path of a cargo that is new enough, the same one each time (kept in build/cargo)
#
# Debian and Ubuntu: missing packages are installed when run by root; otherwise the one line to run is printed. Nothing is
# ever removed for them.
# Anywhere else the tools and headers are looked for, and the missing ones named. Usually there is nothing to do.
set -eu

RUST_MAJOR=1 RUST_MINOR=${FFWD_RUST_MINOR:-87} # (the variable is for the tests of this script)
BUILD="gcc libc6-dev make pkg-config ca-certificates python3 python3-pip
libmicrohttpd-dev libgnutls28-dev libjansson-dev libmd-dev libedit-dev libxxhash-dev libcurl4-gnutls-dev"
TEST="libcmocka-dev libsimde-dev python3-venv valgrind"
# Another processor's compiler and its emulator; an aarch64 needs neither.
LONG=
[ "$(uname -m)" != x86_64 ] || LONG="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
CLIENTS="chromium fonts-dejavu-core"

# What rustc-web and cargo-web cannot stand beside.
CONFLICTS="rustc rustc-mozilla cargo cargo-mozilla rustup"
CHOSEN=$(dirname "$0")/../build/cargo

# Path of the first cargo whose rustc is new enough; fails when there is none. Two toolchains that take turns, as PATH
# changes from one shell to the next, would each build the shim anew, so the one chosen first is tried first.
find_cargo() {
    for cargo in "$(cat "$CHOSEN" 2>/dev/null)" "$(command -v cargo || true)" "${HOME:-/nonexistent}/.cargo/bin/cargo" \
        /usr/bin/cargo; do
        rustc=${cargo%cargo}rustc
        [ -n "$cargo" ] && [ -x "$cargo" ] && [ -x "$rustc" ] || continue
        version=$("$rustc" --version 2>/dev/null | sed -n 's/^rustc \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
        # shellcheck disable=SC2086
        set -- ${version:-0 0}
        if [ "$1" -gt $RUST_MAJOR ] || { [ "$1" -eq $RUST_MAJOR ] && [ "$2" -ge $RUST_MINOR ]; }; then
            echo "$cargo"
            return 0
        fi
    done
    return 1
}

missing_debs() {
    for p in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"
    done
}

# Debian's forms of libcurl's headers exclude each other, and any will do: the one that is there stays.
choose_curl() {
    # shellcheck disable=SC2046,SC2086
    set -- $(installed_debs libcurl4-openssl-dev libcurl4-nss-dev)
    [ $# -eq 0 ] || BUILD=$(echo "$BUILD" | sed "s/libcurl4-gnutls-dev/$1/")
}

installed_debs() {
    for p in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] && echo "$p"
    done
    true
}

# Rust from the distribution, unless an older one of its packages is in the way.
want_rust() {
    # shellcheck disable=SC2046,SC2086
    old=$(echo $(installed_debs $CONFLICTS))
    if [ -n "$old" ]; then
        echo "ffwd needs Rust $RUST_MAJOR.$RUST_MINOR, and the packages rustc-web and cargo-web that have it conflict with what is" \
            "installed ($old): remove that, or install a newer Rust beside it, for instance with rustup" >&2
        exit 1
    fi
    want="$want rustc-web cargo-web"
}

setup_debian() {
    choose_curl
    # shellcheck disable=SC2046,SC2086
    want=$(echo $(missing_debs $BUILD $1))
    find_cargo >/dev/null || want_rust
    [ -n "$want" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        echo "ffwd needs Debian packages that are not installed. Run this line, then try again:" >&2
        echo "  sudo apt-get update && sudo apt-get install -y --no-remove --no-install-recommends ${want# }" >&2
        exit 1
    fi
    echo "installing: ${want# }" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >/dev/null
    # shellcheck disable=SC2086
    apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-remove --no-install-recommends $want >/dev/null || {
        echo "apt-get did not install ${want# } (it was told to remove nothing); its own words are above" >&2
        exit 1
    }
    find_cargo >/dev/null || {
        echo "the packages rustc-web and cargo-web did not bring Rust $RUST_MAJOR.$RUST_MINOR; install it another way" >&2
        exit 1
    }
}

# clang, and libFuzzer with the sanitizers, which are in a package of the version that the distribution calls clang.
clang_debs() {
    version=$(clang_version)
    [ -n "$version" ] || { apt-get update -qq >/dev/null 2>&1 || true; version=$(clang_version); }
    echo "clang libclang-rt-$version-dev"
}

clang_version() {
    apt-cache depends clang 2>/dev/null | sed -n 's/^ *Depends: clang-\([0-9]*\)$/\1/p'
}

has_header() {
    echo "#include <$1>" | ${CC:-cc} -E -xc - >/dev/null 2>&1
}

setup_other() {
    want=
    for tool in "${CC:-gcc}" ar make python3; do
        command -v "$tool" >/dev/null || want="$want $tool"
    done
    find_cargo >/dev/null || want="$want rust>=$RUST_MAJOR.$RUST_MINOR(cargo,rustc)"
    python3 -m pip --version >/dev/null 2>&1 || want="$want python3-pip"
    for h in microhttpd.h gnutls/gnutls.h jansson.h sha2.h histedit.h xxhash.h curl/curl.h $1; do
        has_header "$h" || want="$want <$h>"
    done
    [ -z "$want" ] && return 0
    echo "ffwd needs these, which are not here (README, \"Other Linuxes\"):$want" >&2
    exit 1
}

case ${1:-build} in
cargo)
    find_cargo || {
        echo "there is no cargo with Rust $RUST_MAJOR.$RUST_MINOR or newer; \`make setup\` installs one or says how" >&2
        exit 1
    }
    mkdir -p "$(dirname "$CHOSEN")" && echo "$cargo" >"$CHOSEN"
    ;;
build) if command -v dpkg-query >/dev/null; then setup_debian ""; else setup_other ""; fi ;;
test) if command -v dpkg-query >/dev/null; then setup_debian "$TEST"; else setup_other "cmocka.h"; fi ;;
long) if command -v dpkg-query >/dev/null; then setup_debian "$TEST $LONG"; else setup_other "cmocka.h"; fi ;;
fuzz)
    if command -v dpkg-query >/dev/null; then
        setup_debian "$TEST $(clang_debs)"
    else
        setup_other "cmocka.h"
        command -v "${FUZZ_CC:-clang}" >/dev/null || { echo "make fuzz needs clang with libFuzzer" >&2; exit 1; }
    fi
    ;;
clients) if command -v dpkg-query >/dev/null; then setup_debian "$TEST $CLIENTS"; else setup_other "cmocka.h"; fi ;;
*)
    echo "usage: tools/setup.sh [build|test|long|fuzz|clients|cargo]" >&2
    exit 2
    ;;
esac
