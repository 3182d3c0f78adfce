"""A server, a browser, and pages that fail a test when the console complains or a request goes elsewhere."""
import json
import os
import sys
import time

import pytest
from playwright.sync_api import sync_playwright

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import served  # noqa: E402


@pytest.fixture(scope="session")
def url():
    s = served.Served("--port", "0", "--ctx", "2048")
    yield s.url
    assert s.stop() == 0, "the server did not end well"


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as p:
        b = p.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
        yield b
        b.close()


DESKTOP = {"viewport": {"width": 1200, "height": 800}}
PHONE = {"viewport": {"width": 375, "height": 700}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def context(browser, url, request):
    """A browser profile of its own, on a screen that a test may choose."""
    c = browser.new_context(**getattr(request, "param", DESKTOP))
    c.set_default_timeout(60000)
    complaints = []

    def watch(page):
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.on("request", lambda r: None if r.url.startswith(url) else complaints.append("request to " + r.url))

    c.on("page", watch)
    c.complaints = complaints
    yield c
    c.close()
    assert not complaints


@pytest.fixture
def page(context, url):
    return opened(context, url)


def opened(context, url):
    p = context.new_page()
    p.goto(url)
    until(p, "document.querySelector('#model').textContent")
    return p


def until(page, expression, seconds=60):
    """Waits until a JavaScript expression is true. (Playwright's own wait needs eval, which the page's policy forbids.)"""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def send(page, text):
    page.fill("#text", text)
    page.press("#text", "Enter")


def ended(page):
    """Waits for the end of a reply and returns its text."""
    page.wait_for_selector("#send:not([hidden])")
    return page.locator(".message.assistant").last.inner_text()


def ask(page, text):
    send(page, text)
    page.locator(".message.user", has_text=text).wait_for()
    return ended(page)


def settings(page, **values):
    """Fills fields of the dialog by their names, and closes it."""
    page.click("#open-settings")
    for name, value in values.items():
        field = page.locator(f"#settings [name={name}]")
        if isinstance(value, bool):
            field.set_checked(value)
        elif name in ("fill", "theme"):
            field.select_option(value)
        else:
            field.fill(str(value))
    page.click("#settings-done")


def scripted(page, *deltas, finish="stop"):
    """The next replies are these deltas, whatever is asked. Returns the list of the requests' bodies."""
    asked = []
    chunks = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    text = "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + "data: [DONE]\n\n"

    def answer(route):
        asked.append(route.request.post_data_json)
        route.fulfill(status=200, content_type="text/event-stream", body=text)

    page.route("**/v1/chat/completions", answer)
    return asked


def unending(page):
    """The next replies go on for as long as there is room, and do not repeat themselves, which would be fast."""
    page.route("**/v1/chat/completions", lambda route: route.continue_(post_data=json.dumps(
        {**route.request.post_data_json, "ignore_eos": True, "temperature": 2})))


def pytest_terminal_summary(terminalreporter):
    n = {k: len(terminalreporter.stats.get(k, [])) for k in ("passed", "failed", "error", "skipped")}
    print(f"\nweb: {n['passed']} passed, {n['failed'] + n['error']} failed, {n['skipped']} skipped")
