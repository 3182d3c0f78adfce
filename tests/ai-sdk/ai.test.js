/*
 * The AI SDK through its providers for OpenAI's chat completions, OpenAI's Responses and Anthropic's Messages: chat,
 * stream, a round of tools, structured output, errors, cancellation.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, Output, generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";
import { startServer } from "./server.js";

const PROVIDERS = {
  "chat completions": (baseURL) =>
    createOpenAICompatible({ name: "ffwd", baseURL, includeUsage: true, supportsStructuredOutputs: true })("any"),
  Responses: (baseURL) => createOpenAI({ baseURL, apiKey: "none" }).responses("any"),
  Messages: (baseURL) => createAnthropic({ baseURL, apiKey: "none" })("any"),
};
const Colour = z.object({ name: z.string().max(8), warm: z.boolean() });
const tools = {
  get_weather: tool({
    description: "The weather of a city",
    inputSchema: z.object({ city: z.string().max(12) }),
    execute: ({ city }) => `sunny in ${city}`,
  }),
};

let server;
before(async () => {
  server = await startServer();
});
after(async () => assert.equal(await server.stop(), 0));

/* What all requests have; nothing is tried twice. */
function how(provider, more) {
  const model = PROVIDERS[provider](`${server.url}/v1`);
  return { model, prompt: "Name a colour.", temperature: 0, maxOutputTokens: 30, maxRetries: 0, ...more };
}

/* Calls that are forced, their results, and a reply to those. */
const round = {
  prompt: "The weather in Paris?", tools, maxOutputTokens: 80, stopWhen: isStepCount(2),
  prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber ? "none" : { type: "tool", toolName: "get_weather" } }),
};

function checkRound(steps) {
  assert.equal(steps.length, 2);
  const [{ finishReason, toolCalls, toolResults }, second] = steps;
  assert.equal(finishReason, "tool-calls");
  assert.ok(toolCalls.length && toolCalls.every((call) => call.toolName === "get_weather" && call.input.city));
  assert.deepEqual(toolResults.map((r) => r.output), toolCalls.map((call) => `sunny in ${call.input.city}`));
  assert.ok(second.text);
}

for (const provider of Object.keys(PROVIDERS)) {
  describe(provider, () => {
    it("chats", async () => {
      const reply = await generateText(how(provider, { instructions: "Be brief." }));
      assert.ok(reply.text);
      assert.ok(["stop", "length"].includes(reply.finishReason));
      assert.ok(reply.usage.inputTokens > 0 && reply.usage.outputTokens > 0 && reply.usage.outputTokens <= 30);
    });

    it("streams what a whole reply says", async () => {
      const whole = await generateText(how(provider));
      const stream = streamText(how(provider));
      const parts = await Array.fromAsync(stream.textStream);
      assert.ok(parts.length > 1);
      assert.equal(parts.join(""), whole.text);
      assert.equal(await stream.finishReason, whole.finishReason);
      assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
    });

    it("makes a round of tools", async () => checkRound((await generateText(how(provider, round))).steps));
    it("makes a round of tools, streamed", async () => checkRound(await streamText(how(provider, round)).steps));

    it("gives structured output", async () => {
      const more = { output: Output.object({ schema: Colour }), maxOutputTokens: 80 };
      const { output } = await generateText(how(provider, more));
      assert.deepEqual(Colour.parse(output), output);
      const stream = streamText(how(provider, more));
      const parts = await Array.fromAsync(stream.partialOutputStream);
      assert.deepEqual(parts.at(-1), output);
      assert.deepEqual(await stream.output, output);
    });

    it("passes errors on", async () => {
      const tooLong = how(provider, { prompt: "word ".repeat(3000) });
      const is400 = (e) => APICallError.isInstance(e) && e.statusCode === 400 && !e.isRetryable && /1024/.test(e.message);
      await assert.rejects(generateText(tooLong), is400);
      let seen;
      await streamText({ ...tooLong, onError: ({ error }) => (seen = error) }).consumeStream();
      assert.ok(is400(seen));
    });

    it("is left alone when a stream is aborted", async () => {
      const abort = new AbortController();
      const more = { prompt: "Count to a thousand.", maxOutputTokens: 900, abortSignal: abort.signal };
      const stream = streamText(how(provider, more));
      for await (const part of stream.fullStream) if (part.type === "text-delta") break;
      abort.abort();
      assert.ok(await server.becomesIdle(10));
    });
  });
}

it("gives structured output by Messages' own format", async () => {
  const providerOptions = { anthropic: { structuredOutputMode: "outputFormat" } };
  const more = { output: Output.object({ schema: Colour }), maxOutputTokens: 80, providerOptions };
  const { output } = await generateText(how("Messages", more));
  assert.deepEqual(Colour.parse(output), output);
});
