/*
 * live: what the server does, looked at once a second while the view is shown: /metrics and /v1/ffwd/rows.
 */
import { getMetrics, getRows } from "./api.js";
import { byId, h } from "./dom.js";
import { LIVE_POINTS } from "./limits.js";
import { bar, originParts } from "./origins.js";

const EVERY_MS = 1000;
const WIDTH = 600, HEIGHT = 90; // of the curve's drawing

/* Prometheus's text as a Map from a sample's name, with its labels, to its value. */
export function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const at = line.lastIndexOf(" ");
    if (line && !line.startsWith("#")) samples.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return samples;
}

function bySource(samples) {
  const counts = {};
  let known = 0;
  for (const [name, value] of samples) {
    const source = name.match(/^ffwd:source_accepted_tokens_total\{source="(\w+)"\}$/)?.[1];
    if (source) known += counts[source] = value;
  }
  return { sampled: Math.max(0, samples.get("ffwd:generation_tokens_total") - known), ...counts };
}

function tile(label, value, more = "") {
  return h("div", { class: "tile" }, h("b", {}, value), h("span", {}, label), h("small", {}, more));
}

function curve(points) {
  const ns = "http://www.w3.org/2000/svg", most = Math.max(1, ...points);
  const svg = document.createElementNS(ns, "svg"), line = document.createElementNS(ns, "polyline");
  const x = (i) => (WIDTH * (i + LIVE_POINTS - points.length)) / (LIVE_POINTS - 1);
  const at = points.map((p, i) => `${x(i).toFixed(1)},${(HEIGHT - 4 - (p / most) * (HEIGHT - 10)).toFixed(1)}`);
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Now ${Math.round(points.at(-1) ?? 0)}, at most ${Math.round(most)}`);
  line.setAttribute("points", at.join(" "));
  svg.append(line);
  return svg;
}

const COLUMNS = ["request", "state", "prompt", "reused", "fed", "written", "of at most", "seconds"];

function rowCells(r) {
  const { id, state, prompt_tokens, cached_tokens, fed_tokens, completion_tokens, max_tokens, age_s } = r;
  return [id, state, prompt_tokens, cached_tokens, fed_tokens, completion_tokens, max_tokens, age_s.toFixed(1)];
}

function table(rows) {
  if (!rows.length) return h("p", { class: "hint" }, "Nothing runs and nothing waits.");
  return h("table", {},
    h("thead", {}, h("tr", {}, ...COLUMNS.map((c) => h("th", { scope: "col" }, c)))),
    h("tbody", {}, ...rows.map((r) => h("tr", {}, ...rowCells(r).map((c) => h("td", {}, String(c)))))));
}

export class Live {
  constructor() {
    this.points = []; // tokens a second
    this.before = null;
    this.timer = 0;
  }

  show(on) {
    clearInterval(this.timer);
    this.before = null;
    if (!on) return;
    this.#look();
    this.timer = setInterval(() => document.hidden || this.#look(), EVERY_MS);
  }

  async #look() {
    try {
      const [text, rows] = await Promise.all([getMetrics(), getRows()]);
      this.#draw(parseMetrics(text), rows);
      byId("live-note").textContent = "";
    } catch (error) {
      byId("live-note").textContent = `No news: ${error.message}`;
    }
  }

  /* What a counter grew by in a second. */
  #rate(samples, name) {
    const seconds = this.before && (this.now - this.before.at) / 1000;
    return seconds ? Math.max(0, (samples.get(name) - this.before.samples.get(name)) / seconds) : 0;
  }

  #draw(samples, { rows, queued, kv }) {
    this.now = performance.now();
    const speed = this.#rate(samples, "ffwd:generation_tokens_total");
    const queries = samples.get("ffwd:prefix_cache_queries_total"), hits = samples.get("ffwd:prefix_cache_hits_total");
    this.points = [...this.points, speed].slice(-LIVE_POINTS);
    byId("tiles").replaceChildren(
      tile("tokens a second", Math.round(speed)),
      tile("steps a second", Math.round(this.#rate(samples, "ffwd:steps_total"))),
      tile("requests run", rows.filter((r) => r.state === "running").length, `${queued} wait`),
      tile("prompt tokens reused", queries ? `${Math.round((100 * hits) / queries)} %` : "–", `${hits} of ${queries}`),
      tile("tokens written", samples.get("ffwd:generation_tokens_total"), "since the start"));
    byId("speed").replaceChildren(curve(this.points));
    this.#drawBars(bySource(samples), kv);
    byId("rows").replaceChildren(table(rows));
    this.before = { at: this.now, samples };
  }

  #drawBars(counts, kv) {
    const parts = originParts(counts), words = parts.map((p) => p.label).join(", ") || "none yet";
    byId("sources").replaceChildren(bar(parts, words), h("p", { class: "hint" }, words));
    const free = kv.blocks - kv.used - kv.cached;
    const text = `${kv.used} blocks used, ${kv.cached} kept for later prompts, ${free} free`;
    const memory = [["used", kv.used], ["kept", kv.cached], ["free", free]];
    byId("cache").replaceChildren(
      bar(memory.map(([name, value]) => ({ name: `kv-${name}`, value, label: `${value} ${name}` })), text),
      h("p", { class: "hint" }, text));
  }
}
