// The AI SDK with its provider for Ollama, which leaves reasoning out unless it is told otherwise.
import { createOllama } from 'ollama-ai-provider-v2';
import { wrapLanguageModel, defaultSettingsMiddleware } from 'ai';
import { model } from './shared.js';
import { describeError as describe, talksOf, waysOf } from './vercel.js';

// It prints the errors within streams that it drops.
console.log = console.warn = console.error = () => {};

const modelAt = (baseURL) =>
  wrapLanguageModel({
    model: createOllama({ baseURL: baseURL.replace(/\/v1$/, '/api') })(model),
    middleware: defaultSettingsMiddleware({ settings: { providerOptions: { ollama: { think: true } } } }),
  });

const { generate, stream } = waysOf(modelAt);

export const ways = {
  generate,
  // It drops an error within a stream, and reports that the end is another one.
  stream: async (baseURL, c) => {
    const saw = await stream(baseURL, c);
    if (saw.finish === 'other') throw new Error('the stream has no end');
    return saw;
  },
};
export const talks = talksOf(modelAt);
export const describeError = describe;
