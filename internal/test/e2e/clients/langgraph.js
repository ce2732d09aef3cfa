// LangGraph's agent, which calls the tools and keeps the conversation.
import { HumanMessage } from '@langchain/core/messages';
import { tool as declare } from '@langchain/core/tools';
import { MemorySaver } from '@langchain/langgraph';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { saw as sawMessage } from './langchain.js';
import { apiKey, form, model, search, tool, toolInput } from './shared.js';

function agent(baseURL, c) {
  return createReactAgent({
    llm: new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL } }),
    tools: c.tools ? [declare(search, { ...tool, schema: toolInput })] : [],
    responseFormat: c.form ? form : undefined,
    interruptBefore: c.results ? undefined : ['tools'],
    checkpointer: new MemorySaver(),
  });
}

const asked = (c) => ({ messages: [new HumanMessage(c.prompt)] });
const config = { configurable: { thread_id: '1' } };

// saw has the calls of all rounds, and the object that a request after the answer asks for.
function saw(c, { messages, structuredResponse: object }) {
  const answers = messages.filter((message) => message.getType() === 'ai').map(sawMessage);
  const seen = { ...answers.at(-1), calls: answers.flatMap(({ calls }) => calls) };
  if (c.form) return { ...seen, object, content: JSON.stringify(object) };
  return c.json ? { ...seen, object: JSON.parse(seen.content) } : seen;
}

// follow reads a stream, and holds the deltas of the last message to it.
async function follow(graph, c) {
  const texts = new Map();
  for await (const [message] of await graph.stream(asked(c), { ...config, streamMode: 'messages' })) {
    texts.set(message.id, (texts.get(message.id) ?? '') + message.content);
  }
  const { values } = await graph.getState(config);
  const { id, content } = values.messages.at(-1);
  if (texts.get(id) !== content) throw new Error(`deltas ${JSON.stringify([...texts])}, message ${id}: ${content}`);
  return values;
}

export const ways = {
  invoke: async (baseURL, c) => saw(c, await agent(baseURL, c).invoke(asked(c), config)),
  stream: async (baseURL, c) => saw(c, await follow(agent(baseURL, c), c)),
};

function converse(step) {
  return (baseURL) => {
    const graph = agent(baseURL, { tools: true, results: true });
    return async (prompt) => (await step(graph, { prompt })).messages.at(-1).content;
  };
}

export const talks = {
  invoke: converse((graph, c) => graph.invoke(asked(c), config)),
  stream: converse(follow),
};
export { describeError } from './openai.js';
