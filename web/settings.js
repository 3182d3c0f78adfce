/*
 * settings: what a conversation asks of the model, and the dialog that changes it.
 *
 * New conversations begin with what was set last. A field that is empty is not sent: the server's own value counts.
 */
import { apiKey, setApiKey } from "./api.js";
import { byId, h } from "./dom.js";
import { EDITOR_CHARS } from "./limits.js";

const LAST = "ffwd-settings", THEME = "ffwd-theme";

const NUMBERS = [
  ["temperature", "Temperature", 0, 2, 0.05, "how freely tokens are chosen; 0 = always the likeliest"],
  ["top_p", "Top p", 0, 1, 0.01, "only the likeliest tokens that have this much probability together"],
  ["top_k", "Top k", 0, 1000, 1, "only so many of the likeliest tokens; 0 = all"],
  ["min_p", "Min p", 0, 1, 0.01, "no token less likely than this part of the likeliest"],
  ["repetition_penalty", "Repetition penalty", 0.5, 2, 0.05, "above 1: what was there already becomes less likely"],
  ["max_tokens", "Longest reply", 1, 1000000, 1, "in tokens"],
  ["seed", "Seed", 0, 2147483647, 1, "the same seed gives the same reply"],
];

const EMPTY = { system: "", sampling: {}, tools: "", schema: "", useSchema: false, fill: "lossless" };

const EXAMPLE_TOOLS = `[{"type": "function", "function": {"name": "weather", "parameters": {…}}}]`;
const EXAMPLE_SCHEMA = `{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}`;

export function lastSettings() {
  try {
    return { ...EMPTY, ...JSON.parse(localStorage.getItem(LAST)) };
  } catch {
    return { ...EMPTY };
  }
}

export function applyTheme() {
  document.documentElement.dataset.theme = localStorage.getItem(THEME) ?? "auto";
}

/* ---- checks of what was typed: the text of what is wrong, or "" ---- */

function wrongJson(text, isRight, wanted) {
  if (!text.trim()) return "";
  try {
    return isRight(JSON.parse(text)) ? "" : wanted;
  } catch (error) {
    return error.message;
  }
}

const isTool = (t) => t?.type === "function" && typeof t.function?.name === "string";
const wrongTools = (text) => wrongJson(text, (v) => Array.isArray(v) && v.every(isTool),
  "This has to be an array of tools, each with type “function” and a function with a name.");
const wrongSchema = (text) => wrongJson(text, (v) => v !== null && typeof v === "object" && !Array.isArray(v),
  "A schema is a JSON object.");

/* ---- fields ---- */

function labelled(label, field, help) {
  field.id = `set-${field.name}`;
  const note = help && h("small", { id: `${field.id}-help` }, help);
  if (note) field.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: field.id }, label), field, note);
}

function area(name, label, value, rows, more = {}) {
  const field = h("textarea", { name, rows, maxlength: EDITOR_CHARS, ...more });
  field.value = value;
  return labelled(label, field, "");
}

function numberField([name, label, min, max, step, help], sampling) {
  const field = h("input", { name, type: "number", min, max, step, placeholder: "default", inputmode: "decimal" });
  field.value = sampling[name] ?? "";
  return labelled(label, field, help);
}

function choice(name, label, value, options, help) {
  const field = h("select", { name }, ...options.map(([v, text]) => h("option", { value: v, selected: v === value }, text)));
  return labelled(label, field, help);
}

/* A text area of JSON that says what is wrong with it, and can be laid out. */
function jsonArea(name, label, value, example, wrong) {
  const box = area(name, label, value, 7, { spellcheck: "false", class: "json", placeholder: example });
  const field = box.querySelector("textarea"), problem = h("p", { class: "wrong", id: `set-${name}-wrong`, role: "status" });
  const check = () => {
    problem.textContent = wrong(field.value);
    field.setCustomValidity(problem.textContent);
    field.setAttribute("aria-invalid", problem.textContent !== "");
  };
  const layOut = () => {
    if (field.value.trim() && !wrong(field.value)) field.value = JSON.stringify(JSON.parse(field.value), null, 2);
  };
  field.setAttribute("aria-describedby", problem.id);
  field.addEventListener("input", check);
  box.append(problem, h("button", { type: "button", class: "quiet", onclick: layOut }, "Lay out"));
  return box;
}

function check(name, label, value) {
  return h("label", { class: "switch" }, h("input", { name, type: "checkbox", role: "switch", checked: value }),
    " ", h("span", {}, label));
}

function group(title, ...fields) {
  return h("fieldset", {}, h("legend", {}, title), ...fields);
}

function fields(s) {
  return [
    group("System prompt", area("system", "What the model is told first", s.system, 3)),
    group("Sampling", h("div", { class: "grid" }, ...NUMBERS.map((n) => numberField(n, s.sampling)))),
    group("Shape of replies", check("useSchema", "Replies follow this schema", s.useSchema),
      jsonArea("schema", "JSON schema", s.schema, EXAMPLE_SCHEMA, wrongSchema)),
    group("Tools", jsonArea("tools", "Definitions, as in the API (not sent together with a schema)", s.tools, EXAMPLE_TOOLS,
      wrongTools)),
    group("Server and page", h("div", { class: "grid" },
      choice("fill", "Fast-forwarding", s.fill,
        [["lossless", "lossless"], ["off", "off"], ["strict", "strict"]], "strict also takes what the template determines"),
      choice("theme", "Colours", localStorage.getItem(THEME) ?? "auto",
        [["auto", "as the system"], ["light", "light"], ["dark", "dark"]], ""),
      labelled("API key", h("input", { name: "key", type: "password", autocomplete: "off", value: apiKey() }),
        "kept until this tab is closed"))),
  ];
}

/* ---- the dialog ---- */

function read(form) {
  const text = (name) => form.elements[name].value;
  const sampling = {};
  for (const [name] of NUMBERS) if (text(name) !== "") sampling[name] = Number(text(name));
  return {
    system: text("system"), sampling, tools: text("tools"), schema: text("schema"), fill: text("fill"),
    useSchema: form.elements.useSchema.checked && text("schema").trim() !== "",
  };
}

/* Shows the dialog; done(settings) is called if it is not cancelled. */
export function editSettings(settings, done) {
  const dialog = byId("settings"), form = dialog.querySelector("form");
  byId("settings-fields").replaceChildren(...fields(settings));
  form.onsubmit = (event) => {
    if (!form.reportValidity()) {
      event.preventDefault();
      return;
    }
    setApiKey(form.elements.key.value);
    localStorage.setItem(THEME, form.elements.theme.value);
    applyTheme();
    const s = read(form);
    localStorage.setItem(LAST, JSON.stringify(s));
    done(s);
  };
  byId("settings-cancel").onclick = () => dialog.close();
  dialog.showModal();
}
