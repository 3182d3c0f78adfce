# needs.sh: how suites with a program and a real model begin; sourced from the repository's root. Sets and exports, where
# they are not set yet: FFWD the program, PYTHON one that has tools/requirements.txt, SMOLLM2 the model file.
: "${FFWD:=build/ffwd}" "${PYTHON:=build/venv/bin/python}"
: "${SMOLLM2:=$HOME/.cache/ffwd/models/SmolLM2-135M-Instruct.Q4_1.gguf}"
export FFWD PYTHON SMOLLM2

# skip_without SUITE FILE...: ends a suite whose files are not all there, as skipped
skip_without() {
    suite=$1 && shift
    for f; do
        if ! [ -e "$f" ]; then
            echo "note: $suite tests skipped, there is no $f"
            echo "$suite: 0 passed, 0 failed, 1 skipped"
            exit 0
        fi
    done
}

# fail_without SUITE FILE...: the same, as failed
fail_without() {
    suite=$1 && shift
    for f; do
        if ! [ -e "$f" ]; then
            echo "$suite: there is no $f"
            exit 1
        fi
    done
}
