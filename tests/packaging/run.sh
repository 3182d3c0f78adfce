#!/bin/sh
# What `make install` and `make deb` leave: units that systemd understands and that give little away, a package whose
# program runs, and an image that has the libraries which the program needs.
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MAKELEVEL MFLAGS
: "${BUILD:=build}"
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0

check() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL  $name"
        cat "$tmp/log"
    fi
}

skip() {
    echo "note: $1"
    skipped=$((skipped + 1))
}

nothing_said() { # of systemd-analyze verify, which warns and exits with 0
    said=$("$@" 2>&1) && [ -z "$said" ] && return
    echo "$said"
    return 1
}

# Besides what a service needs anyway, the filter lets in by name what src/ calls.
calls_are_let_in() {
    systemd-analyze syscall-filter @resources | sed -n 's/^ *\([a-z_]*\)$/\1/p' >"$tmp/resources" && [ -s "$tmp/resources" ] || return
    while read -r call; do
        grep -rqE "(^|[^a-z_])$call\(|SYS_$call\>" src && ! grep -qE "^SystemCallFilter=([a-z_]+ )*$call\>" "$1" || continue
        echo "src/ calls $call, which the unit does not let in"
        return 1
    done <"$tmp/resources"
}

# A bare system has no /bin/kill, for instance.
calls_only_the_shell() {
    ! sed -n 's/^Exec[A-Za-z]*=\([^ ]*\).*/\1/p' "$1" | grep -v -e '/bin/ffwd$' -e '^/bin/sh$'
}

# A user that is made up, and a directory that outlives the service: systemd hides it from everybody else then.
socket_is_reached() {
    ! { grep -qi "^DynamicUser=[yt1]" "$1" && grep -qi "^RuntimeDirectoryPreserve=[^n]" "$1"; }
}

deb_runs() {
    dpkg-deb -x "$BUILD"/deb/ffwd_*.deb "$tmp/deb" && "$tmp/deb/usr/bin/ffwd" --version && [ -f "$tmp/deb/etc/default/ffwd" ] &&
        grep -q "^ExecStart=/usr/bin/ffwd serve" "$tmp/deb/usr/lib/systemd/system/ffwd.service" &&
        ! [ -e "$tmp/deb/usr/include" ]
}

image_has_libraries() {
    for package in $(dpkg-deb -f "$BUILD"/deb/ffwd_*.deb Depends | tr ',' '\n' | sed 's/^ *//; s/ .*//'); do
        [ "$package" = libc6 ] || sed '1,/^FROM debian:bookworm-slim/d' Dockerfile | grep -qw "$package" || {
            echo "the Dockerfile does not install $package"
            return 1
        }
    done
}

uninstalled() {
    make BUILD="$BUILD" uninstall PREFIX="$tmp/usr" && left=$(find "$tmp/usr" -type f) && [ -z "$left" ] && return
    echo "left: $left"
    return 1
}

check "make install" make BUILD="$BUILD" install PREFIX="$tmp/usr"
units=$tmp/usr/lib/systemd/system
if command -v systemd-analyze >/dev/null; then
    check "the units are understood" nothing_said systemd-analyze verify --man=no "$units/ffwd.service" "$units/ffwd.socket"
    check "the service may make its system calls" calls_are_let_in "$units/ffwd.service"
    check "the service gives little away" systemd-analyze security --offline=true --threshold=20 "$units/ffwd.service"
else
    skip "there is no systemd-analyze to look at the units"
fi
check "the service calls only the shell besides itself" calls_only_the_shell "$units/ffwd.service"
check "others reach a socket in /run/ffwd" socket_is_reached "$units/ffwd.service"
check "make uninstall leaves nothing" uninstalled
if command -v dpkg-shlibdeps >/dev/null; then
    check "make deb" make BUILD="$BUILD" deb
    check "the package's program runs" deb_runs
    check "the image has the program's libraries" image_has_libraries
else
    skip "there is no dpkg-shlibdeps to make a package with"
fi
echo "packaging: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
