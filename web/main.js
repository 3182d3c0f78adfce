/*
 * main: joins the parts: the list of conversations, the open one, the message field, the two views.
 */
import { getModel } from "./api.js";
import { announce, byId, h, notice } from "./dom.js";
import { MESSAGE_CHARS } from "./limits.js";
import { Live } from "./live.js";
import { legendItems } from "./origins.js";
import { Session } from "./session.js";
import { applyTheme, editSettings, lastSettings } from "./settings.js";
import { listConversations, onChangeElsewhere, openStore, removeConversation } from "./store.js";
import { Thread } from "./thread.js";

const OPEN = "ffwd-open", ORIGINS = "ffwd-origins";

const thread = new Thread(drawFrame);
const live = new Live();
const busy = new Map(); // sessions that are being written to, by conversation: they go on when another is shown
let session;

/* ---- the open conversation ---- */

function show(next) {
  session = next;
  session.onend = (m) => ended(next, m);
  sessionStorage.setItem(OPEN, session.conversation.id);
  thread.show(session);
}

async function open(id) {
  const found = busy.get(id) ?? (await Session.open(id));
  if (found) show(found);
  document.body.classList.remove("list-open");
}

function begin() {
  show(Session.create(lastSettings()));
  document.body.classList.remove("list-open");
  byId("text").focus();
}

function ended(which, m) {
  busy.delete(which.conversation.id);
  announce(m.error ? `The reply failed: ${m.error}` : m.finish === "stopped" ? "Stopped." : "The reply is complete.");
}

/* Title, buttons and marks around the thread. */
function drawFrame() {
  const { title, settings } = session.conversation, writing = session.writing !== null;
  if (document.activeElement !== byId("title")) byId("title").value = title;
  document.title = title ? `${title} – ffwd` : "ffwd";
  byId("stop").hidden = !writing;
  byId("send").hidden = writing;
  if (writing && !busy.has(session.conversation.id)) {
    busy.set(session.conversation.id, session);
    announce("Writing a reply.");
  }
  const modes = [];
  if (settings.useSchema) modes.push("schema");
  else if (settings.tools.trim()) modes.push("tools");
  if (settings.system.trim()) modes.push("system prompt");
  byId("modes").textContent = modes.join(" · ");
  drawList();
}

/* ---- the list ---- */

function item(c) {
  const remove = async () => {
    if (!confirm(`Delete “${c.title || "Untitled"}”?`)) return;
    busy.get(c.id)?.stop();
    await removeConversation(c.id);
    if (c.id === session.conversation.id) begin();
    else drawList();
  };
  const current = c.id === session.conversation.id;
  return h("li", { class: current ? "current" : "" },
    h("button", { class: "quiet name", "aria-current": current ? "true" : null, onclick: () => open(c.id) }, c.title || "Untitled"),
    h("button", { class: "quiet remove", "aria-label": `Delete ${c.title || "Untitled"}`, onclick: remove }, "✕"));
}

async function drawList() {
  const all = await listConversations();
  byId("conversations").replaceChildren(...all.map(item));
  byId("no-conversations").hidden = all.length > 0;
}

async function changedElsewhere(id) {
  drawList();
  if (id === session.conversation.id && !session.writing && (await session.refresh())) thread.draw();
}

/* ---- the message field ---- */

function grow() {
  const field = byId("text");
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

async function send(event) {
  event?.preventDefault();
  const field = byId("text"), text = field.value;
  if (!text.trim() || session.writing) return;
  field.value = "";
  grow();
  await thread.say(text);
}

function keys(event) {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
}

/* ---- views ---- */

function showView() {
  const isLive = location.hash === "#live";
  byId("chat").hidden = isLive;
  byId("live").hidden = !isLive;
  byId("tab-live").toggleAttribute("aria-current", isLive);
  byId("tab-chat").toggleAttribute("aria-current", !isLive);
  live.show(isLive);
}

function showOrigins(on) {
  localStorage.setItem(ORIGINS, on ? "1" : "");
  thread.origins = on;
  byId("legend").hidden = !on;
  if (session) thread.draw();
}

async function showModel() {
  try {
    const model = await getModel();
    byId("model").textContent = model.id;
    byId("model").title = `The model; its context holds ${model.context_length} tokens`;
  } catch (error) {
    notice(error.message);
  }
}

function connect() {
  byId("new").onclick = begin;
  byId("open-sidebar").onclick = () => document.body.classList.add("list-open");
  byId("close-sidebar").onclick = () => document.body.classList.remove("list-open");
  byId("composer").onsubmit = send;
  byId("text").maxLength = MESSAGE_CHARS;
  byId("text").oninput = grow;
  byId("text").onkeydown = keys;
  byId("stop").onclick = () => session.stop();
  byId("origins").onchange = (event) => showOrigins(event.target.checked);
  byId("title").onchange = (event) => {
    session.conversation.title = event.target.value;
    session.save().then(drawFrame);
  };
  byId("open-settings").onclick = () => editSettings(session.conversation.settings, (settings) => {
    session.conversation.settings = settings;
    if (session.messages.size) session.save();
    drawFrame();
    showModel();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || byId("settings").open) return;
    if (document.body.classList.contains("list-open")) document.body.classList.remove("list-open");
    else session.stop();
  });
  addEventListener("hashchange", showView);
  addEventListener("unhandledrejection", (event) => notice(String(event.reason?.message ?? event.reason)));
}

async function start() {
  applyTheme();
  byId("legend").append(...legendItems());
  await openStore();
  const last = sessionStorage.getItem(OPEN);
  show((last && (await Session.open(last))) || Session.create(lastSettings()));
  connect();
  onChangeElsewhere(changedElsewhere);
  byId("origins").checked = localStorage.getItem(ORIGINS) === "1";
  showOrigins(byId("origins").checked);
  showView();
  showModel();
}

start().catch((error) => notice(error.message));
