/*
 * exchange: between the page's messages and the API's.
 *
 * A message: {id, conversation, parent, created, role, content}. Of the assistant also {reasoning, calls, spans, finish,
 * usage, error, remote}: calls are [{id, name, arguments}]; spans are [kind, origin, text] in the order in which they came,
 * kind "content", "reasoning" or the number of a call; remote is the server's id for the reply, by which it finds the ids it
 * generated. Of a tool {call}: the id of the call it answers.
 */
import { SPANS } from "./limits.js";

function toApi(m) {
  if (m.role === "tool") return { role: "tool", tool_call_id: m.call, content: m.content };
  if (m.role === "user") return { role: "user", content: m.content };
  const message = { role: "assistant", content: m.content };
  if (m.remote) message.id = m.remote;
  if (m.calls.length)
    message.tool_calls = m.calls.map((c) => ({
      id: c.id, type: "function", function: { name: c.name, arguments: c.arguments },
    }));
  return message;
}

/* The request for the reply to a path of messages. A schema and tools exclude each other, as in the API. */
export function requestFor(path, settings) {
  const body = { messages: path.map(toApi), stream: true, stream_options: { include_usage: true } };
  if (settings.system.trim()) body.messages.unshift({ role: "system", content: settings.system });
  Object.assign(body, settings.sampling);
  if (settings.useSchema)
    body.response_format = {
      type: "json_schema",
      json_schema: { name: "reply", strict: true, schema: JSON.parse(settings.schema) },
    };
  else if (settings.tools.trim()) body.tools = JSON.parse(settings.tools);
  body.ffwd = { trace: true, fill: settings.fill };
  return body;
}

export function emptyReply() {
  return { role: "assistant", content: "", reasoning: "", calls: [], spans: [], finish: null, usage: null };
}

export function replyChars(m) {
  return m.calls.reduce((sum, c) => sum + c.name.length + c.arguments.length, m.content.length + m.reasoning.length);
}

/* Of several tokens whose text came at once, the origin of most. */
function mainOrigin(origins) {
  const count = (o) => origins.filter((other) => other === o).length;
  return origins.reduce((best, o) => (count(o) >= count(best) ? o : best));
}

/* A chunk without origins is the rest of what a token brought. */
function addSpan(m, kind, origins, text) {
  if (!text) return;
  const last = m.spans.at(-1), full = m.spans.length >= SPANS;
  if (full && last[0] === kind) last[2] += text;
  else m.spans.push([kind, full ? "" : origins ? mainOrigin(origins) : (last?.[1] ?? ""), text]);
}

function takeCall(m, delta, origins) {
  const call = (m.calls[delta.index] ??= { id: delta.id, name: "", arguments: "" });
  call.name += delta.function.name ?? "";
  call.arguments += delta.function.arguments ?? "";
  addSpan(m, delta.index, origins, delta.function.arguments);
}

/* Adds what a chunk of the stream brings to the message. */
export function takeChunk(m, chunk) {
  if (chunk.usage) m.usage = chunk.usage;
  const choice = chunk.choices[0];
  if (!choice) return;
  const { delta } = choice, origins = choice.ffwd?.origins;
  if (delta.id) m.remote = delta.id;
  if (delta.reasoning_content) {
    m.reasoning += delta.reasoning_content;
    addSpan(m, "reasoning", origins, delta.reasoning_content);
  }
  if (delta.content) {
    m.content += delta.content;
    addSpan(m, "content", origins, delta.content);
  }
  for (const call of delta.tool_calls ?? []) takeCall(m, call, origins);
  if (choice.finish_reason) m.finish = choice.finish_reason;
}
