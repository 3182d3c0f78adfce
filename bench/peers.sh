#!/bin/sh
# Builds the engines that ffwd is compared with, natively and outside the repository.
#
# llama.cpp's source is the copy inside the source package of llama-cpp-python, so that everyone compares with the same
# state. ik_llama.cpp is in no package: it is built where IK_SOURCE names a folder with its source, or taken as it is
# where IK_BUILD names a folder that it was built in. Installs nothing: it says what is missing. A second run finds the
# programs and returns at once, or builds anew what changed in IK_SOURCE.
#
#   bench/peers.sh            builds, then prints the folder of llama.cpp's programs as its last line
#   bench/peers.sh source     only fetches and unpacks, then prints the folder of llama.cpp's source (the tests read the
#                             real vocabularies and chat templates under its models/)
#   bench/peers.sh where [llama | ik]
#                             prints the folder of that peer's programs, or fails when they were not built
#
# PEERS_DIR chooses another place than ${XDG_CACHE_HOME:-~/.cache}/ffwd/peers, PEERS_JOBS the number of compilers (2).
set -eu

version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
root=${PEERS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ffwd/peers}
package=$root/llama_cpp_python-$version
source=$package/vendor/llama.cpp
build=$root/build-$version
tools="llama-bench llama-batched-bench llama-cli llama-completion llama-server llama-perplexity llama-tokenize"
ik_build=${IK_BUILD:-$root/build-ik}
ik_tools="llama-bench llama-batched-bench llama-sweep-bench llama-cli llama-server" # as far as the source has them

say() { printf '%s\n' "$*" >&2; }
die() { say "peers: $*"; exit 1; }
usage() { die "usage: bench/peers.sh [source | where [llama | ik]]"; }

need() {
    for program in "$@"; do
        command -v "$program" >/dev/null 2>&1 || missing="${missing:-}$program "
    done
    test -z "${missing:-}" || die "missing: ${missing}(Debian: apt install cmake g++ make python3-pip python3-venv)"
}

fetch() {
    test -f "$source/CMakeLists.txt" && return
    need python3 tar sha256sum
    mkdir -p "$root"
    archive=$root/llama_cpp_python-$version.tar.gz
    if ! test -f "$archive"; then
        # pip reads a source package's metadata by asking its build tool, hence a virtual environment of its own.
        say "peers: fetching the source package of llama-cpp-python $version (77 MB)"
        test -x "$root/venv/bin/pip" || python3 -m venv "$root/venv" || die "python3 -m venv failed (python3-venv?)"
        "$root/venv/bin/pip" download --quiet --no-deps --no-binary llama-cpp-python --dest "$root" \
            "llama-cpp-python==$version" >&2
    fi
    printf '%s  %s\n' "$sha256" "$archive" | sha256sum --check --quiet >&2 || die "$archive: not the expected file"
    # Unpacked beside and renamed, so that an interrupted run leaves nothing that looks whole.
    rm -rf "$root/unpack"
    mkdir "$root/unpack"
    tar -xzf "$archive" -C "$root/unpack"
    rm -rf "$package"
    mv "$root/unpack/llama_cpp_python-$version" "$package"
    rmdir "$root/unpack"
}

built() {
    for tool in $tools; do
        test -x "$build/bin/$tool" || return 1
    done
}

compile() {
    need cmake g++ make
    say "peers: building llama.cpp in $build; this takes 10 to 20 minutes once"
    # No network while building (no web page, no TLS), and no tests: only the tools that are measured.
    nice -n 10 cmake -S "$source" -B "$build" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
        -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF >"$root/build.log" 2>&1 || die "cmake failed: $root/build.log"
    # shellcheck disable=SC2086  # a list of names
    nice -n 10 cmake --build "$build" -j "${PEERS_JOBS:-2}" --target $tools >>"$root/build.log" 2>&1 ||
        die "the build failed: $root/build.log"
    built || die "the build left out a tool: $root/build.log"
}

# The source may be of any age: a tool that it lacks is left out here, and named by whoever needs it.
compile_ik() {
    need cmake g++ make
    test -f "$IK_SOURCE/CMakeLists.txt" || die "IK_SOURCE: $IK_SOURCE holds no source"
    say "peers: building ik_llama.cpp in $ik_build; this takes 20 to 60 minutes once"
    mkdir -p "$root"
    log=$root/build-ik.log
    nice -n 10 cmake -S "$IK_SOURCE" -B "$ik_build" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_CURL=OFF >"$log" 2>&1 || die "cmake failed: $log"
    known=$(cmake --build "$ik_build" --target help)
    wanted=
    for tool in $ik_tools; do
        case $known in *" $tool"*) wanted="$wanted $tool" ;; esac
    done
    # shellcheck disable=SC2086  # a list of names
    nice -n 10 cmake --build "$ik_build" -j "${PEERS_JOBS:-2}" --target $wanted >>"$log" 2>&1 ||
        die "the build failed: $log"
}

case ${1:-build} in
source)
    fetch
    printf '%s\n' "$source"
    ;;
where)
    case ${2:-llama} in
    llama)
        built || die "llama.cpp is not built yet: run bench/peers.sh"
        printf '%s\n' "$build/bin"
        ;;
    ik)
        test -d "$ik_build/bin" || die "ik_llama.cpp is not built: run bench/peers.sh with IK_SOURCE (or set IK_BUILD)"
        printf '%s\n' "$ik_build/bin"
        ;;
    *) usage ;;
    esac
    ;;
build)
    if test -n "${IK_SOURCE:-}" && test -z "${IK_BUILD:-}"; then
        compile_ik
    fi
    if ! built; then
        fetch
        compile
    fi
    printf '%s\n' "$build/bin"
    ;;
*) usage ;;
esac
