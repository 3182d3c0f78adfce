"""The page as a person uses it."""
import json

import pytest

from conftest import PHONE, ask, ended, opened, scripted, send, settings, unending, until

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "large": {"type": "boolean"}},
          "required": ["city", "large"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]


def test_send_streams_and_reload_keeps_history(page):
    settings(page, max_tokens=40, temperature=0)
    send(page, "Tell me about the sea.")
    page.wait_for_selector("#stop:not([hidden])")
    until(page, "document.querySelector('.message.assistant .markdown')?.textContent.length > 5")
    assert page.locator(".message.assistant").get_attribute("aria-busy") is not None  # it is shown while it grows
    text = ended(page)
    assert "limit of tokens" in text and page.input_value("#title") == "Tell me about the sea."
    page.reload()
    page.wait_for_selector(".message.assistant")
    assert page.locator(".message.assistant").inner_text() == text
    assert page.locator("#conversations .name").all_inner_texts() == ["Tell me about the sea."]


def test_stop_keeps_what_came(page):
    unending(page)
    send(page, "Count from one to a thousand, in words.")
    until(page, "document.querySelector('.message.assistant .markdown')?.textContent.length > 20")
    page.press("#text", "Escape")
    assert "Stopped." in ended(page)
    page.reload()
    assert "Stopped." in page.locator(".message.assistant").inner_text()


def test_edit_and_regenerate_make_branches(page):
    settings(page, max_tokens=8)
    ask(page, "Say red.")
    page.get_by_role("button", name="Edit").click()
    field = page.get_by_label("Change your message")
    field.fill("Say blue.")
    field.press("Enter")
    page.locator(".message.user", has_text="Say blue.").wait_for()
    ended(page)
    assert page.locator(".message.user .plain").all_inner_texts() == ["Say blue."]
    assert page.locator(".message.user .branches").inner_text().split() == ["‹", "2", "/", "2", "›"]
    page.get_by_role("button", name="Regenerate").click()
    page.locator(".message.assistant .branches").wait_for()
    ended(page)
    assert "2 / 2" in page.locator(".message.assistant .branches").inner_text()
    page.locator(".message.user").get_by_role("button", name="Previous branch").click()
    page.locator(".message.user", has_text="Say red.").wait_for()
    assert page.locator(".message.assistant .branches").count() == 0
    page.reload()
    page.locator(".message.user", has_text="Say red.").wait_for()  # the branch that was shown


def test_schema_and_origins(page):
    settings(page, schema=json.dumps(SCHEMA), useSchema=True, max_tokens=60)
    assert page.locator("#modes").inner_text() == "schema"
    page.check("#origins")
    ask(page, "Name a city.")
    reply = page.locator(".message.assistant")
    value = json.loads(reply.locator(".plain").text_content())
    assert set(value) == {"city", "large"}
    assert reply.locator(".token.from-grammar").count() > 0 and reply.locator(".token.from-sampled").count() > 0
    account = reply.locator(".account p").inner_text()
    assert "grammar" in account and "forward passes" in account and "prompt tokens reused" in account
    parts = reply.locator(".account .bar span").evaluate_all("all => all.map((p) => getComputedStyle(p).backgroundColor)")
    assert len(parts) >= 2 and len(set(parts)) == len(parts)
    assert page.locator("#legend li").count() == 7
    page.uncheck("#origins")
    assert page.locator(".token").count() == 0 and reply.locator(".markdown").count() == 1


def test_second_turn_reuses_the_first(page):
    settings(page, max_tokens=40, temperature=0)
    page.check("#origins")
    ask(page, "Tell me about the old castle on the hill, its king and his ships.")
    ask(page, "Go on.")
    words = page.locator(".account p").last.inner_text().split(" · ")[-1].split()
    assert int(words[0]) >= 32 and int(words[0]) < int(words[2])


def test_wrong_json_is_named_and_not_taken(page):
    page.click("#open-settings")
    page.fill("#settings [name=tools]", '{"a": 1}')
    assert "array of tools" in page.locator("#set-tools-wrong").inner_text()
    page.click("#settings-done")
    assert page.locator("#settings").evaluate("d => d.open")
    page.fill("#settings [name=tools]", json.dumps(TOOLS))
    assert page.locator("#set-tools-wrong").inner_text() == ""
    page.click("#settings-done")
    assert page.locator("#modes").inner_text() == "tools"


def test_tool_call_and_its_result(page):
    settings(page, tools=json.dumps(TOOLS), system="Be brief.", seed=7, fill="off")
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    asked = scripted(page, {"role": "assistant", "content": "", "id": "msg_1"}, {"tool_calls": [call]},
                     {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
                     {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]}, finish="tool_calls")
    ask(page, "Weather?")
    assert '"city": "Rome"' in page.locator(".call").inner_text()
    page.unroute("**/v1/chat/completions")
    later = scripted(page, {"content": "Sunny."})
    page.get_by_label("Result of weather").fill("sun")
    page.get_by_role("button", name="Send the result").click()
    page.locator(".markdown", has_text="Sunny.").wait_for()
    first, second = asked[0], later[0]
    assert first["tools"] == TOOLS and first["seed"] == 7 and first["ffwd"] == {"trace": True, "fill": "off"}
    assert [m["role"] for m in second["messages"]] == ["system", "user", "assistant", "tool"]
    assert second["messages"][2]["id"] == "msg_1"
    assert second["messages"][2]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city":"Rome"}'}
    assert second["messages"][3] == {"role": "tool", "tool_call_id": "call_1", "content": "sun"}


@pytest.mark.parametrize("text", [
    "<img src=x onerror=\"document.title='bad'\"><script>document.title='bad'</script>**bold**",
    "[link](javascript:document.title='bad') **bold** <a href=\"data:text/html,x\" onclick=\"document.title='bad'\">a</a>",
    "![x](https://example.org/x.png) **bold** <style>*{display:none}</style><iframe src=//example.org></iframe>",
    "```html\n<img src=x onerror=\"document.title='bad'\">\n```\n**bold** <svg><script>document.title='bad'</script></svg>",
    "<span class=\"hljs-x notice\" tabindex=\"1\">An error of the page</span> **bold** <span class=\"notice\">and another</span>",
])
def test_replies_load_and_run_nothing(page, text):
    """The sanitiser takes out what is asked; what the policy says of the document it parses is only heard on the console."""
    scripted(page, {"content": text})
    ask(page, "Hello")
    assert page.locator(".markdown strong").inner_text() == "bold"
    assert page.title().startswith("Hello")
    assert page.locator(".markdown").evaluate("""m => [...m.querySelectorAll('*')].every((e) =>
        !/^(img|script|style|iframe|svg)$/i.test(e.tagName) && !e.hasAttribute('onclick') && !e.hasAttribute('onerror') &&
        !/^(javascript|data):/.test(e.href ?? '') && !e.classList.contains('notice') && e.tabIndex <= 0)""")
    heard = page.context.complaints
    heard[:] = [c for c in heard if "Content Security Policy" not in c]


STORED = """new Promise((done) => { indexedDB.open('ffwd').onsuccess = (e) => {
    e.target.result.transaction('messages').objectStore('messages').count().onsuccess = (c) => done(c.target.result) } })"""


def test_a_conversation_is_deleted_while_it_is_written(page):
    page.on("dialog", lambda d: d.accept())
    unending(page)
    send(page, "Count from one to a thousand, in words.")
    until(page, "document.querySelector('.message.assistant .markdown')?.textContent.length > 20")
    assert page.evaluate(STORED) == 2
    page.get_by_role("button", name="Delete Count").click()
    until(page, "document.querySelector('#status').textContent === 'Stopped.'")
    assert page.evaluate(STORED) == 0 and page.locator("#conversations li").count() == 0


def test_a_reply_that_is_too_long(page):
    call = {"index": 1, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "x" * (1 << 20)}}
    scripted(page, {"tool_calls": [{**call, "index": 0, "function": {"name": "a", "arguments": ""}}]}, {"tool_calls": [call]})
    assert "too long for this page" in ask(page, "Hello")


def test_a_reply_that_cannot_be_saved(page):
    scripted(page, {"content": "text"})
    page.evaluate("""() => { const all = IDBObjectStore.prototype, put = all.put;
        all.put = function (m) { if (m.finish && (all.put = put)) throw new Error('no room'); return put.call(this, m) } }""")
    send(page, "Hello")
    page.locator(".notice", has_text="no room").wait_for()
    ended(page)
    assert "text" in ask(page, "Again")  # it is not held to be writing still


def test_markdown_and_code(page):
    scripted(page, {"content": "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\ndef f():\n    return 1\n```\n"},
             {"content": "\n3. three\n\nsee [here](https://example.org/)\n\n| c |\n|--:|\n| 3 |\n"})
    ask(page, "Hello")
    box = page.locator(".markdown")
    assert box.locator("h1").inner_text() == "Title" and box.locator("td").all_inner_texts() == ["1", "2", "3"]
    assert box.locator("ol").get_attribute("start") == "3" and box.locator("td").last.get_attribute("align") == "right"
    assert box.locator("pre").get_attribute("tabindex") == "0"  # what scrolls is reached by keys
    assert box.locator("pre .hljs-title").get_attribute("class") == "hljs-title function_"
    assert box.locator("pre .hljs-keyword").all_inner_texts() == ["def", "return"]
    assert box.locator("a").get_attribute("rel") == "noopener noreferrer"


def test_errors_are_shown(page):
    settings(page, schema='{"type": "nonsense"}', useSchema=True)
    assert "schema/type" in ask(page, "Hello") and page.locator(".message.assistant .wrong").count() == 1
    settings(page, useSchema=False, max_tokens=4)
    page.get_by_role("button", name="Regenerate").click()
    page.locator(".message.assistant .branches").wait_for()
    assert "limit of tokens" in ended(page)
    page.context.complaints.clear()  # the browser logs the 400 itself


def test_two_tabs(page, context, url):
    other = opened(context, url)
    settings(page, max_tokens=60)
    settings(other, max_tokens=60)
    send(page, "Here is the first tab.")
    send(other, "Here is the second tab.")
    assert ended(page) and ended(other)
    for tab in (page, other):
        until(tab, "document.querySelectorAll('#conversations li').length === 2")
    other.locator("#conversations .name", has_text="first tab").click()
    other.locator(".message.user", has_text="Here is the first tab.").wait_for()
    ask(other, "More of it.")
    ask(page, "And here?")  # on the same message as the other tab: a branch
    until(other, "document.body.textContent.includes('More of it.')")
    other.on("dialog", lambda d: d.accept())
    other.get_by_role("button", name="Delete Here is the second tab.").click()
    until(page, "document.querySelectorAll('#conversations li').length === 1")


def test_live_view(page):
    page.click("#tab-live")
    page.wait_for_selector("#speed svg")
    page.evaluate("""() => { fetch('v1/chat/completions', {method: 'POST', body: JSON.stringify(
        {messages: [{role: 'user', content: 'Tell a long story.'}], max_tokens: 400, ignore_eos: true})}) }""")
    page.locator("#rows td", has_text="running").wait_for()
    until(page, "Number(document.querySelector('.tile b').textContent) > 0")
    assert "sampled" in page.locator("#sources .hint").inner_text()
    assert "free" in page.locator("#cache .hint").inner_text()
    page.click("#tab-chat")
    assert page.locator("#live").is_hidden() and page.locator("#text").is_visible()


@pytest.mark.parametrize("context", [PHONE], indirect=True, ids=["phone"])
def test_phone(page):
    scripted(page, {"content": "```\n" + "wide " * 60 + "\n```"})
    ask(page, "Hello")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not page.get_by_role("button", name="New conversation").is_visible()
    page.get_by_role("button", name="Conversations").click()
    page.get_by_role("button", name="New conversation").click()
    assert page.locator(".message").count() == 0 and not page.get_by_role("button", name="New conversation").is_visible()
