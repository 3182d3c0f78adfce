/*
 * markdown: a model's text as elements.
 *
 * Three libraries in a row: marked reads markdown, highlight.js colours code, DOMPurify lets through only the elements
 * named here. Nothing a model writes can load anything: pictures are not among them, and links open only when clicked.
 */
import hljs from "./vendor/highlight.min.js";
import { Marked } from "./vendor/marked.esm.js";
import DOMPurify from "./vendor/purify.es.mjs";

const CODE_CHARS = 50000; // longer code stays in one colour

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => text.replace(/[&<>"]/g, (c) => escapes[c]);

function colouredCode({ text, lang }) {
  const language = (lang ?? "").match(/^[\w+#-]+/)?.[0] ?? "";
  const known = hljs.getLanguage(language) && text.length <= CODE_CHARS;
  const inner = known ? hljs.highlight(text, { language, ignoreIllegals: true }).value : escaped(text);
  return `<pre tabindex="0"><code>${inner}\n</code></pre>`;
}

const marked = new Marked({ gfm: true, breaks: true, renderer: { code: colouredCode } });

const allowed = {
  ALLOWED_TAGS: ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "span",
                 "em", "strong", "del", "a", "table", "thead", "tbody", "tr", "th", "td", "sup", "sub"],
  ALLOWED_ATTR: ["href", "class", "start", "align", "tabindex"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ADD_URI_SAFE_ATTR: ["start", "align", "tabindex"], // else held to be addresses, and dropped
  RETURN_DOM_FRAGMENT: true,
};

/* The values that may stay. Classes are highlight.js' ("hljs-title function_"): with the page's own a reply could pass for
 * the page. Any other tabindex would be focused before everything else. */
const values = { class: /^hljs-[\w-]+(?: [a-z]+_+)*$/, tabindex: /^0$/ };

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
  for (const [name, value] of Object.entries(values))
    if (node.hasAttribute?.(name) && !value.test(node.getAttribute(name))) node.removeAttribute(name);
});

/* A DocumentFragment. */
export function fromMarkdown(text) {
  return DOMPurify.sanitize(marked.parse(text), allowed);
}
