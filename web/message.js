/* message: one message as elements. What can be done with it is handed in as `actions`. */
import { h } from "./dom.js";
import { fromMarkdown } from "./markdown.js";
import { account, colouredText } from "./origins.js";
import { MESSAGE_CHARS } from "./limits.js";

const NAMES = { user: "You", assistant: "Assistant", tool: "Tool" };
const ENDS = { length: "The reply reached its limit of tokens.", stopped: "Stopped." };

function button(text, onclick, more = {}) {
  return h("button", { type: "button", class: "quiet", onclick, ...more }, text);
}

function spansOf(m, kind) {
  return m.spans.filter((span) => span[0] === kind);
}

/* The text in colours, or null when they are off or unknown. */
function coloured(m, kind, view) {
  const spans = view.origins ? spansOf(m, kind) : [];
  return spans.length ? h("div", { class: "plain" }, ...colouredText(spans)) : null;
}

function reasoning(m, view) {
  if (!m.reasoning) return null;
  const text = coloured(m, "reasoning", view) ?? h("div", { class: "plain" }, m.reasoning);
  return h("details", { class: "reasoning", open: view.writing && !m.content }, h("summary", {}, "Reasoning"), text);
}

/* A form for what the tool answers, under a call that has no answer yet. */
function answerForm(call, actions) {
  const field = h("textarea", { rows: 2, "aria-label": `Result of ${call.name}`, placeholder: "What the tool returns" });
  const send = (event) => {
    event.preventDefault();
    actions.answer(call, field.value);
  };
  return h("form", { class: "answer", onsubmit: send }, field, h("button", { class: "primary" }, "Send the result"));
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function calls(m, view, actions) {
  return m.calls.map((call, i) => {
    const text = coloured(m, i, view) ?? h("pre", { tabindex: 0 }, h("code", {}, readable(call.arguments)));
    const open = view.open.has(call.id);
    return h("section", { class: "call", "aria-label": `Call of ${call.name}` },
      h("h3", {}, call.name), text, open ? answerForm(call, actions) : null);
  });
}

function content(m, view) {
  if (m.role !== "assistant") return h("div", { class: "plain" }, m.content);
  if (!m.content) return null;
  return coloured(m, "content", view) ?? h("div", { class: "markdown" }, fromMarkdown(m.content));
}

/* Why the reply is as it is, where that needs a word. */
function end(m, view) {
  if (m.role !== "assistant" || view.writing) return null;
  if (m.error) return h("p", { class: "wrong" }, m.error);
  const text = m.finish ? ENDS[m.finish] : "This reply was not finished.";
  return text ? h("p", { class: "hint" }, text) : null;
}

function branches(view, actions) {
  const { at, of, previous, next } = view.siblings;
  if (of < 2) return null;
  return h("span", { class: "branches" },
    button("‹", () => actions.goTo(previous), { disabled: !previous, "aria-label": "Previous branch" }),
    h("span", {}, `${at} / ${of}`),
    button("›", () => actions.goTo(next), { disabled: !next, "aria-label": "Next branch" }));
}

function buttons(m, view, actions) {
  if (view.writing) return null;
  return h("div", { class: "actions" }, branches(view, actions),
    navigator.clipboard ? button("Copy", () => actions.copy(m)) : null,
    m.role === "user" ? button("Edit", () => actions.edit(m)) : null,
    m.role === "assistant" ? button("Regenerate", () => actions.regenerate(m)) : null);
}

/* view: {origins, writing, siblings, open: ids of calls that wait for an answer} */
export function drawMessage(m, view, actions) {
  const waiting = view.writing && !m.content && !m.reasoning && !m.calls.length;
  return h("article", { id: `m-${m.id}`, class: `message ${m.role}`, "aria-label": NAMES[m.role], "aria-busy": view.writing },
    h("h2", { class: "who" }, NAMES[m.role]),
    reasoning(m, view), content(m, view), ...(m.role === "assistant" ? calls(m, view, actions) : []),
    waiting ? h("p", { class: "waiting" }, "…") : null,
    end(m, view),
    view.origins && !view.writing && m.role === "assistant" ? account(m.usage) : null,
    buttons(m, view, actions));
}

/* The same message while its text is being changed. done(text), or done(null) when it stays as it was. */
export function drawEditor(m, done) {
  const field = h("textarea", { rows: 4, maxlength: MESSAGE_CHARS, "aria-label": "Change your message" });
  field.value = m.content;
  const keys = (event) => {
    if (event.key === "Escape") done(null);
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const submit = (event) => {
    event.preventDefault();
    if (field.value.trim()) done(field.value);
  };
  return h("form", { class: "message user editing", onkeydown: keys, onsubmit: submit }, field,
    h("div", { class: "actions" }, button("Cancel", () => done(null)), h("button", { class: "primary" }, "Send as a new branch")));
}
