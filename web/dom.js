/*
 * dom: making and finding elements.
 *
 * Text goes in as text: nothing here turns a string into markup.
 */

export const byId = (id) => document.getElementById(id);

/* h("button", {class: "quiet", onclick: f, hidden: true}, "Copy", otherElement, null) */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/* A random name. (crypto.randomUUID() is there only on secure origins, and a page in a home network is none.) */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
}

/* Says something to screen readers. */
export function announce(text) {
  byId("status").textContent = text;
}

let noticeTimer = 0;

/* Shows what went wrong, for some seconds. */
export function notice(text) {
  const box = byId("notice");
  box.textContent = text;
  box.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => (box.hidden = true), 8000);
}

/* Calls f at most once every `ms`, and once more after the last call. */
export function throttled(f, ms) {
  let timer = 0, last = 0;
  return () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      last = Date.now();
      f();
    }, Math.max(0, last + ms - Date.now()));
  };
}
