// LangChain.
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { concat } from '@langchain/core/utils/stream';
import { ChatOpenAI } from '@langchain/openai';
import { apiKey, call, form, model, search, tool } from './shared.js';

function chat(baseURL, c) {
  const llm = new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL } });
  if (c.form) return llm.withStructuredOutput(form, { method: 'jsonSchema', includeRaw: true });
  if (c.json) return llm.withStructuredOutput(form, { method: 'jsonMode', includeRaw: true });
  if (!c.tools) return llm;
  const tools = [{ type: 'function', function: tool }];
  return llm.bindTools(tools, c.choose ? { tool_choice: tool.name } : {});
}

// rounds asks, answers the calls if the case wants it, and asks again.
async function rounds(llm, saw, c, ask) {
  const messages = [new HumanMessage(c.prompt)];
  const first = await ask(llm, messages);
  if (c.form || c.json) return { ...saw(first.raw), object: first.parsed };
  if (!c.results) return saw(first);
  const results = first.tool_calls.map(
    (made) => new ToolMessage({ content: search(made.args), tool_call_id: made.id }),
  );
  const second = await ask(llm, [...messages, first, ...results]);
  return { ...saw(second), calls: callsOf(first) };
}

export function saw(message) {
  const { input_tokens, output_tokens, total_tokens, input_token_details, output_token_details } =
    message.usage_metadata;
  return {
    content: message.content,
    reasoning: message.additional_kwargs.reasoning_content,
    calls: callsOf(message),
    finish: message.response_metadata.finish_reason,
    usage: {
      input: input_tokens,
      cached: input_token_details.cache_read,
      output: output_tokens,
      reasoning: output_token_details.reasoning,
      total: total_tokens,
    },
  };
}

// callsOf has those that could not be read, too, with their text.
export function callsOf({ tool_calls, invalid_tool_calls }) {
  return [...tool_calls, ...(invalid_tool_calls ?? [])].map(({ name, args }) => call(name, args));
}

async function gather(llm, messages) {
  let whole;
  for await (const chunk of await llm.stream(messages)) whole = whole ? concat(whole, chunk) : chunk;
  return whole;
}

// waysOf are those of a model: chat makes one, and saw tells what was seen of a message.
export const waysOf = (chat, saw) => ({
  invoke: (baseURL, c) => rounds(chat(baseURL, c), saw, c, (llm, messages) => llm.invoke(messages)),
  stream: (baseURL, c) => rounds(chat(baseURL, c), saw, c, gather),
});

export const ways = waysOf(chat, saw);

const converse = (chat, step) => (baseURL) => {
  const llm = chat(baseURL, { tools: true });
  const messages = [];
  return async (prompt) => {
    messages.push(new HumanMessage(prompt));
    for (;;) {
      const message = await step(llm, messages);
      messages.push(message);
      if (!message.tool_calls.length) return message.text;
      for (const { id, args } of message.tool_calls) {
        messages.push(new ToolMessage({ content: search(args), tool_call_id: id }));
      }
    }
  };
};

export const talksOf = (chat) => ({
  invoke: converse(chat, (llm, messages) => llm.invoke(messages)),
  stream: converse(chat, gather),
});

export const talks = talksOf(chat);

// LangChain passes on the errors of the official SDK, which it is built upon.
export { describeError } from './openai.js';
