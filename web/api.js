/*
 * api: the server, as the page sees it.
 *
 * Addresses are relative to the page's, so it also works behind a proxy that puts it below a path.
 */

const key = "ffwd-api-key"; // kept as long as the tab

export const apiKey = () => sessionStorage.getItem(key) ?? "";
export const setApiKey = (value) => sessionStorage.setItem(key, value);

function headers() {
  return apiKey() ? { Authorization: `Bearer ${apiKey()}` } : {};
}

async function failure(response) {
  try {
    const { error } = await response.json();
    return new Error(error.message);
  } catch {
    return new Error(`The server answered with status ${response.status}.`);
  }
}

async function get(path) {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) throw await failure(response);
  return response;
}

export const getModel = async () => (await (await get("v1/models")).json()).data[0];
export const getRows = async () => (await get("v1/ffwd/rows")).json();
export const getMetrics = async () => (await get("metrics")).text();

/* The data of each server-sent event of a response. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks)
      for (const line of block.split("\n")) if (line.startsWith("data: ")) yield line.slice(6);
  }
}

/* The chunks of a chat completion as they come. Throws what the server says, also in the middle of a stream. */
export async function* streamChat(body, signal) {
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await failure(response);
  for await (const data of events(response)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    yield chunk;
  }
  throw new Error("The connection ended before the reply did.");
}
