# both TINY REAL: runs the matrix with each list of arguments, at the same time, and adds up. An empty REAL is skipped.
both() {
    matrix=${BUILD:-build}/tests/matrix
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
    status=0
    # shellcheck disable=SC2086
    "$matrix" $1 >"$out/tiny" 2>&1 &
    tiny=$!
    if [ -n "$2" ]; then
        # shellcheck disable=SC2086
        "$matrix" $2 >"$out/real" 2>&1 || status=$?
    else
        echo "note: skipped: the real models, which are not in the cache" >"$out/real"
    fi
    wait "$tiny" || status=$?
    for part in tiny real; do
        sed -n "s/^note: /note: $part models: /p; /^note: /!p" "$out/$part" | grep -v '^[0-9]* passed, [0-9]* failed$' || true
    done
    cat "$out/tiny" "$out/real" | awk '/^[0-9]+ passed, [0-9]+ failed$/ { p += $1; f += $3 } END { print p + 0 " passed, " f + 0 " failed" }'
    return "$status"
}
