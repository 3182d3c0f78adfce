/*
 * session: one conversation while it is open: its messages, the path that is shown, the reply that is being written.
 *
 * Knows the store and the server, and nothing of elements: `onchange` is called with the id of a message whose text grew,
 * and without one when the path is another.
 */
import { streamChat } from "./api.js";
import { newId } from "./dom.js";
import { emptyReply, replyChars, requestFor, takeChunk } from "./exchange.js";
import { MESSAGES, REPLY_CHARS } from "./limits.js";
import { loadConversation, saveConversation, saveMessage } from "./store.js";
import { newestLeaf, pathTo } from "./tree.js";

const SAVE_MS = 1000; // how often a reply is saved while it grows

export class Session {
  constructor(conversation, messages = new Map()) {
    this.conversation = conversation;
    this.messages = messages;
    this.leaf = messages.has(conversation.leaf) ? conversation.leaf : newestLeaf(messages, null);
    this.writing = null; // the message that is being written,
    this.abort = null;   // and what stops it
    this.onchange = () => {};
    this.onend = () => {};
  }

  static create(settings) {
    return new Session({ id: newId(), title: "", settings, leaf: null, created: Date.now(), updated: 0 });
  }

  static async open(id) {
    const found = await loadConversation(id);
    return found && new Session(found.conversation, found.messages);
  }

  get path() {
    return pathTo(this.messages, this.leaf);
  }

  /* Takes over what another tab saved. What is being written here stays as it is. */
  async refresh() {
    const found = await loadConversation(this.conversation.id);
    if (!found) return false;
    if (this.writing) found.messages.set(this.writing.id, this.writing);
    this.messages = found.messages;
    this.conversation = { ...found.conversation, leaf: this.leaf };
    return true;
  }

  async save() {
    await saveConversation({ ...this.conversation, leaf: this.leaf });
  }

  async add(message) {
    if (this.messages.size >= MESSAGES) throw new Error(`A conversation has ${MESSAGES} messages at most.`);
    const created = Math.max(Date.now(), ...[...this.messages.values()].map((m) => m.created + 1));
    const whole = { ...message, id: newId(), conversation: this.conversation.id, created };
    this.messages.set(whole.id, whole);
    this.leaf = whole.id;
    this.conversation.updated = Date.now();
    this.conversation.title ||= whole.content.trim().replace(/\s+/g, " ").slice(0, 60);
    await this.save(); // first: a message is kept only with its conversation
    await saveMessage(whole);
    return whole;
  }

  /* Says something after the message `parent`; another text after the same parent is a new branch. */
  async say(content, parent = this.leaf) {
    await this.add({ role: "user", parent, content });
    await this.reply(this.leaf);
  }

  /* What a tool answered. */
  async answer(call, content) {
    await this.add({ role: "tool", parent: this.leaf, call, content });
  }

  /* Has the model answer the message `parent`. */
  async reply(parent) {
    const body = requestFor(pathTo(this.messages, parent), this.conversation.settings);
    const m = await this.add({ ...emptyReply(), parent });
    this.writing = m;
    this.abort = new AbortController();
    this.onchange();
    try {
      await this.#read(m, body);
    } catch (error) {
      if (error.name === "AbortError") m.finish = "stopped";
      else m.error = error.message;
    }
    this.writing = this.abort = null;
    try {
      await saveMessage(m);
    } finally {
      this.onchange();
      this.onend(m);
    }
  }

  async #read(m, body) {
    let saved = Date.now();
    for await (const chunk of streamChat(body, this.abort.signal)) {
      takeChunk(m, chunk);
      this.onchange(m.id);
      if (replyChars(m) > REPLY_CHARS) throw new Error("The reply was too long for this page.");
      if (Date.now() - saved > SAVE_MS) {
        saved = Date.now();
        await saveMessage(m);
      }
    }
  }

  stop() {
    this.abort?.abort();
  }

  /* Shows the path through a message, to the newest end below it. */
  async goTo(id) {
    this.leaf = newestLeaf(this.messages, id);
    this.onchange();
    await this.save();
  }
}
