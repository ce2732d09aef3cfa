// The AI SDK with OpenAI's provider as it is: it speaks the Responses API.
import { createOpenAI } from '@ai-sdk/openai';
import { apiKey, model } from './shared.js';
import { talksOf, waysOf } from './vercel.js';

// In its second round the SDK names the reasoning of the first, and what was said
// behind it, instead of sending them: the responses that are kept are put to use.
function refersToItems(url, init) {
  const types = JSON.parse(init.body).input.map((item) => item.type);
  if (init.body.includes('reason:') && types.includes('function_call_output') && !types.includes('item_reference')) {
    throw new Error(`no item is referred to: ${types}`);
  }
  return fetch(url, init);
}

export const ways = waysOf((baseURL) => createOpenAI({ baseURL, apiKey, fetch: refersToItems })(model));
export const talks = talksOf((baseURL) => createOpenAI({ baseURL, apiKey })(model));
export { describeError } from './vercel.js';
