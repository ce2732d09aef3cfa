// Genkit with its plugin for everything that speaks OpenAI's protocol. It calls the tools.
import { openAICompatible } from '@genkit-ai/compat-oai';
import { genkit, GenkitError, z } from 'genkit'; // it has a zod of its own
import { apiKey, call, model, search, tool } from './shared.js';

const toolInput = z.object({ query: z.string() });
const form = z.object({ title: z.string(), count: z.number() });

function plugged(baseURL) {
  return genkit({ plugins: [openAICompatible({ name: 'codex', apiKey, baseURL, maxRetries: 0 })] });
}

function request(ai, c) {
  const options = { model: `codex/${model}`, prompt: c.prompt };
  if (c.tools) {
    const { name, description } = tool;
    options.tools = [ai.defineTool({ name, description, inputSchema: toolInput }, async (input) => search(input))];
    options.returnToolRequests = !c.results;
  }
  if (c.form) options.output = { schema: form };
  if (c.json) options.output = { format: 'json' };
  return options;
}

// saw has the calls of all rounds. With an answer in JSON there is no text.
function saw(c, { text, reasoning, messages, finishReason, usage, output }) {
  const requests = messages.flatMap(({ content }) => content.flatMap(({ toolRequest }) => toolRequest ?? []));
  return {
    content: c.form || c.json ? JSON.stringify(output) : text,
    reasoning,
    calls: requests.map(({ name, input }) => call(name, input)),
    finish: finishReason,
    usage: { input: usage.inputTokens, output: usage.outputTokens, total: usage.totalTokens },
    object: c.form || c.json ? output : undefined,
  };
}

export const ways = {
  generate: async (baseURL, c) => {
    const ai = plugged(baseURL);
    return saw(c, await ai.generate(request(ai, c)));
  },
  stream: async (baseURL, c) => {
    // The plugin parses each chunk of streamed JSON by itself, so that it can stream none.
    if (c.form || c.json) return ways.generate(baseURL, c);
    const ai = plugged(baseURL);
    const { stream, response } = ai.generateStream(request(ai, c));
    let text = '';
    for await (const chunk of stream) text += chunk.text;
    const seen = saw(c, await response);
    // The deltas have the texts of all rounds.
    if (!text.endsWith(seen.content)) throw new Error(`deltas ${JSON.stringify([text, seen.content])}`);
    return seen;
  },
};

export const talks = {
  generate: (baseURL) => {
    const ai = plugged(baseURL);
    const options = request(ai, { tools: true, results: true });
    let messages = [];
    return async (prompt) => {
      const response = await ai.generate({ ...options, messages, prompt });
      messages = response.messages;
      return response.text;
    };
  },
};

export function describeError(error) {
  if (!(error instanceof GenkitError)) return { class: error.constructor.name, message: error.stack };
  const { name, code: status, message, responseMetadata } = error;
  return { class: name, status, message, retryAfter: responseMetadata?.retryAfterMs?.toString() };
}
