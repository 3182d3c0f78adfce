"""axe-core finds nothing on the page: in every state, in light and dark, on a desktop and a phone."""
import os
import pathlib

import pytest

from conftest import DESKTOP, PHONE, ask, scripted, settings

AXE = (pathlib.Path(os.environ["NODE_MODULES"]) / "axe-core/axe.min.js").read_text()
TOOLS = '[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]'
CODE = """**Hello**

```c
int main(void) { return 0; } /* c */
```

| a | b |
|---|---|
| 1 | 2 |

> quoted `code` and a [link](https://example.org/)
"""
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


def has_nothing_amiss(page, where):
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(v["id"], v["impact"], [n["html"][:120] for n in v["nodes"]]) for v in found] == [], where


@pytest.fixture(params=["light", "dark"])
def checked(page, request):
    """The page in a scheme, with axe in it."""
    page.emulate_media(color_scheme=request.param, reduced_motion="reduce")
    page.evaluate(AXE)
    return page


screens = pytest.mark.parametrize("context", [DESKTOP, PHONE], indirect=True, ids=["desktop", "phone"])


@screens
def test_an_empty_page(checked):
    has_nothing_amiss(checked, "nothing was asked yet")
    if checked.locator("#open-sidebar").is_visible():
        checked.click("#open-sidebar")
        has_nothing_amiss(checked, "the list of conversations")
        checked.click("#close-sidebar")
    checked.click("#tab-live")
    checked.wait_for_selector("#speed svg")
    has_nothing_amiss(checked, "the live view")


@screens
def test_a_conversation(checked):
    settings(checked, tools=TOOLS, system="Be brief.")
    scripted(checked, {"reasoning_content": "hm"}, {"content": CODE})
    ask(checked, "Hello")
    has_nothing_amiss(checked, "a reply")
    checked.unroute("**/v1/chat/completions")
    scripted(checked, {"tool_calls": [CALL]}, finish="tool_calls")
    ask(checked, "And the weather?")
    has_nothing_amiss(checked, "a call that waits for its result")
    checked.get_by_role("button", name="Edit").first.click()
    has_nothing_amiss(checked, "a message being changed")
    checked.get_by_role("button", name="Cancel").first.click()
    if checked.locator("#open-sidebar").is_visible():
        checked.click("#open-sidebar")
        has_nothing_amiss(checked, "the list with a conversation")


@screens
def test_settings(checked):
    checked.click("#open-settings")
    has_nothing_amiss(checked, "settings")
    checked.fill("#settings [name=tools]", "no JSON")
    has_nothing_amiss(checked, "settings with something wrong")


@screens
def test_origins(checked):
    settings(checked, max_tokens=12)
    checked.check("#origins")
    ask(checked, "Name a colour.")
    assert checked.locator(".token").count() > 0
    has_nothing_amiss(checked, "tokens by origin")
