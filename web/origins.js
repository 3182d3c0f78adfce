/*
 * origins: where tokens came from, in colours.
 *
 * The colours are in css/base.css, one for each class "from-NAME".
 */
import { h } from "./dom.js";

export const ORIGINS = {
  sampled: "chosen by the model's sampler",
  grammar: "the only ones a schema or grammar allowed",
  grammar_likely: "what a grammar forces if white space goes on as before",
  template: "tool calls as the chat template writes them",
  echo: "copied from the prompt or the reply",
  ngram: "what followed the same tokens before",
  draft: "proposed by a smaller model",
};

export const shownName = (origin) => origin.replace("_", " ");

export function legendItems() {
  return Object.entries(ORIGINS).map(([name, meaning]) =>
    h("li", { title: meaning }, h("i", { class: `from-${name}` }), shownName(name)));
}

/* The text of some spans, each token in the colour of its origin. */
export function colouredText(spans) {
  return spans.map(([, origin, text]) => h("span", { class: `token from-${origin || "sampled"}`, title: shownName(origin) }, text));
}

/* A bar of the parts [{name, value, label}], as wide as all of them. */
export function bar(parts, label) {
  const box = h("div", { class: "bar", role: "img", "aria-label": label });
  for (const { name, value, label: text } of parts.filter((p) => p.value > 0)) {
    const part = h("span", { class: name, title: text });
    part.style.flexGrow = value;
    box.append(part);
  }
  return box;
}

/* {name: count} as parts of a bar; those that are 0 are left out. */
export function originParts(counts) {
  return Object.keys(ORIGINS).filter((name) => counts[name] > 0).map((name) => (
    { name: `from-${name}`, value: counts[name], label: `${counts[name]} ${shownName(name)}` }));
}

function countsOf(usage) {
  const counts = { sampled: usage.ffwd.sampled };
  for (const [name, source] of Object.entries(usage.ffwd.by_source)) counts[name] = source.accepted ?? 0;
  return counts;
}

/* What a reply cost: tokens by source, passes saved, prompt tokens reused. Null where the server told nothing of it. */
export function account(usage) {
  if (!usage?.ffwd) return null;
  const parts = originParts(countsOf(usage)), tokens = usage.completion_tokens;
  const saved = Math.max(0, tokens - usage.ffwd.steps);
  const reused = usage.prompt_tokens_details?.cached_tokens ?? 0;
  const words = [
    `${tokens} tokens: ${parts.map((p) => p.label).join(", ")}`,
    `${usage.ffwd.steps} forward passes, ${saved} saved`,
    `${reused} of ${usage.prompt_tokens} prompt tokens reused`,
  ];
  return h("div", { class: "account" }, bar(parts, words[0]), h("p", {}, words.join(" · ")));
}
