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
  RETURN_DOM_FRAGMENT: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
  if (node.hasAttribute?.("class") && !/^hljs-[\w -]+$/.test(node.getAttribute("class"))) node.removeAttribute("class");
});

/* A DocumentFragment. */
export function fromMarkdown(text) {
  return DOMPurify.sanitize(marked.parse(text), allowed);
}
