"""web/vendor holds what the packages of web/package-lock.json hold (installed by clients.sh)."""
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENDOR, PACKAGES = ROOT / "web/vendor", pathlib.Path(os.environ["NODE_MODULES"])
FROM = {
    "highlight.min.js": "@highlightjs/cdn-assets/es/highlight.min.js",
    "highlightjs.LICENSE.txt": "@highlightjs/cdn-assets/LICENSE",
    "marked.esm.js": "marked/lib/marked.esm.js",
    "marked.LICENSE.txt": "marked/LICENSE",
    "purify.es.mjs": "dompurify/dist/purify.es.mjs",
    "dompurify.LICENSE.txt": "dompurify/LICENSE",
}


def test_all_files_have_a_source():
    assert {p.name for p in VENDOR.iterdir()} == set(FROM)


@pytest.mark.parametrize("name", FROM)
def test_equals_the_package(name):
    assert (VENDOR / name).read_bytes() == (PACKAGES / FROM[name]).read_bytes()
