/*
 * store: conversations in the browser's database, and news of them between tabs.
 *
 * Messages are records of their own: two tabs in one conversation add branches and overwrite nothing. A conversation's
 * record holds title, settings, and the end of the path that was shown last.
 */
import { CONVERSATIONS } from "./limits.js";

const channel = new BroadcastChannel("ffwd");
let database;

function promised(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

export async function openStore() {
  const request = indexedDB.open("ffwd", 1);
  request.onupgradeneeded = () => {
    request.result.createObjectStore("conversations", { keyPath: "id" });
    request.result.createObjectStore("messages", { keyPath: "id" }).createIndex("conversation", "conversation");
  };
  database = await promised(request);
}

function table(name, mode = "readonly") {
  return database.transaction(name, mode).objectStore(name);
}

/* All of them, the latest first. */
export async function listConversations() {
  const all = await promised(table("conversations").getAll());
  return all.sort((a, b) => b.updated - a.updated);
}

export async function loadConversation(id) {
  const conversation = await promised(table("conversations").get(id));
  const messages = await promised(table("messages").index("conversation").getAll(id));
  messages.sort((a, b) => a.created - b.created);
  return conversation && { conversation, messages: new Map(messages.map((m) => [m.id, m])) };
}

function tell(id) {
  channel.postMessage(id);
}

/* Calls f with the id of each conversation that another tab changes. */
export function onChangeElsewhere(f) {
  channel.onmessage = (event) => f(event.data);
}

/* Of a conversation that is gone nothing is kept: a reply may end after it was deleted, here or in another tab. */
export async function saveMessage(message) {
  const both = database.transaction(["conversations", "messages"], "readwrite");
  if (!(await promised(both.objectStore("conversations").getKey(message.conversation)))) return;
  await promised(both.objectStore("messages").put(message));
  tell(message.conversation);
}

export async function saveConversation(conversation) {
  await promised(table("conversations", "readwrite").put(conversation));
  tell(conversation.id);
  const all = await listConversations();
  await Promise.all(all.slice(CONVERSATIONS).map((c) => removeConversation(c.id)));
}

export async function removeConversation(id) {
  const both = database.transaction(["conversations", "messages"], "readwrite"), messages = both.objectStore("messages");
  const keys = await promised(messages.index("conversation").getAllKeys(id));
  keys.forEach((key) => messages.delete(key));
  await promised(both.objectStore("conversations").delete(id));
  tell(id);
}
