/*
 * thread: the path of a session as a list of messages, kept up to date while a reply grows.
 *
 * A growing reply is drawn anew a few times a second, it alone; any other change draws the path anew.
 */
import { announce, byId, h, notice, throttled } from "./dom.js";
import { drawEditor, drawMessage } from "./message.js";
import { siblings } from "./tree.js";

const DRAW_MS = 80;
const NEAR_END = 120; // pixels: whoever reads this near the end is kept there

export class Thread {
  /* ondraw() is called whenever the path was drawn anew: a reply begins or ends, another path is shown. */
  constructor(ondraw) {
    this.ondraw = ondraw;
    this.session = null;
    this.origins = false;
    this.drawGrowing = throttled(() => this.#redraw(this.session.writing), DRAW_MS);
    this.actions = {
      goTo: (id) => this.session.goTo(id),
      copy: (m) => navigator.clipboard.writeText(m.content).then(() => announce("Copied.")),
      edit: (m) => this.#edit(m),
      regenerate: (m) => this.#run(() => this.session.reply(m.parent)),
      answer: (call, text) => this.#answer(call, text),
    };
  }

  show(session) {
    this.session = session;
    session.onchange = (id) => {
      if (session !== this.session) return;
      if (id) this.drawGrowing();
      else this.draw();
    };
    this.draw();
    this.#toEnd();
  }

  draw() {
    const stay = this.#isNearEnd();
    const path = this.session.path;
    byId("thread").replaceChildren(...(path.length ? path.map((m) => this.#element(m)) : [this.#welcome()]));
    if (stay) this.#toEnd();
    this.ondraw();
  }

  #welcome() {
    return h("div", { class: "welcome" },
      h("h2", {}, "What can I do for you?"),
      h("p", {}, "Everything runs on this server. Conversations stay in this browser."),
      h("p", {}, "Turn on “Origins” to see where each token came from."));
  }

  /* Calls of the last reply that nothing has answered. */
  #openCalls() {
    const path = this.session.path, answered = new Set(path.map((m) => m.call));
    const last = path.findLast((m) => m.role === "assistant");
    return new Set(last && !this.session.writing ? last.calls.map((c) => c.id).filter((id) => !answered.has(id)) : []);
  }

  #element(m) {
    const view = {
      origins: this.origins,
      writing: m === this.session.writing,
      siblings: siblings(this.session.messages, m),
      open: this.#openCalls(),
    };
    return drawMessage(m, view, this.actions);
  }

  #redraw(m) {
    const old = m && byId(`m-${m.id}`);
    if (!old) return;
    const stay = this.#isNearEnd(), opened = old.querySelector("details")?.open;
    const element = this.#element(m);
    if (opened !== undefined) element.querySelector("details").open = opened;
    old.replaceWith(element);
    if (stay) this.#toEnd();
  }

  #edit(m) {
    const editor = drawEditor(m, (text) => {
      if (text === null) this.draw();
      else this.#run(() => this.session.say(text, m.parent));
    });
    byId(`m-${m.id}`).replaceWith(editor);
    editor.querySelector("textarea").focus();
  }

  async #answer(call, text) {
    await this.session.answer(call.id, text);
    this.draw();
    if (!this.#openCalls().size) await this.#run(() => this.session.reply(this.session.leaf));
  }

  async #run(start) {
    if (this.session.writing) notice("A reply is being written. Stop it first.");
    else await start().catch((error) => notice(error.message));
  }

  say(text) {
    this.#toEnd();
    return this.#run(() => this.session.say(text));
  }

  #isNearEnd() {
    const box = byId("scroll");
    return box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
  }

  #toEnd() {
    byId("scroll").scrollTop = byId("scroll").scrollHeight;
  }
}
