// A request for a chat completion as one of Anthropic's Messages API, and its answer as chunks.

// toMessages returns the body. It has no place for several answers.
export function toMessages(body) {
  const system = body.messages.filter(({ role }) => role === 'system').map(({ content }) => content);
  const all = {
    model: body.model,
    max_tokens: body.max_completion_tokens ?? 16384,
    ...(system.length > 0 ? { system: system.join('\n\n') } : {}),
    messages: body.messages.filter(({ role }) => role !== 'system').reduce(addMessage, []),
  };
  const config = {
    ...(body.reasoning_effort ? { effort: body.reasoning_effort } : {}),
    ...(body.response_format ? { format: { type: 'json_schema', schema: body.response_format.json_schema.schema } } : {}),
  };
  if (Object.keys(config).length > 0) all.output_config = config;
  if (body.tools) all.tools = body.tools.map(toTool);
  all.thinking = { type: 'adaptive' };
  if (body.stream) all.stream = true;
  return all;
}

// addMessage adds a message. The results of all calls of an answer are one message there.
function addMessage(all, { role, content, tool_calls: calls, tool_call_id: id }) {
  if (role === 'tool') {
    const result = { type: 'tool_result', tool_use_id: id, content };
    const last = all.at(-1);
    if (last.role === 'user') last.content.push(result);
    else all.push({ role: 'user', content: [result] });
  } else if (role === 'assistant') {
    const texts = content ? [{ type: 'text', text: content }] : [];
    const uses = (calls ?? []).map((call) => ({ type: 'tool_use', id: call.id, name: call.function.name, input: inputOf(call) }));
    if (texts.length + uses.length > 0) all.push({ role, content: [...texts, ...uses] });
  } else {
    all.push({ role, content: typeof content === 'string' ? content : content.map(toBlock) });
  }
  return all;
}

// inputOf returns the input of a call, which is an object there.
function inputOf({ function: { arguments: text } }) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return { __unparsedToolInput: { raw: text, len: text.length } };
  }
}

const toTool = ({ function: f, ...tool }) => (f ? { name: f.name, description: f.description ?? '', input_schema: f.parameters ?? { type: 'object' } } : tool);

function toBlock(part) {
  if (part.type === 'text') return part;
  const [, type, data] = /^data:([^;]+);base64,(.*)$/s.exec(part.image_url.url) ?? [];
  const source = data ? { type: 'base64', media_type: type, data } : { type: 'url', url: part.image_url.url };
  return { type: 'image', source };
}

// messagesReader returns a function that takes an event of a stream, or a whole message, and
// returns what it adds as a chunk of a chat completion, with done after the end.
export function messagesReader() {
  const calls = []; // the places of the calls among the blocks
  let counted; // the usage at the beginning
  const begin = ({ content_block: block, index }) => (block.type === 'tool_use' ? { tool_calls: [toCall(block, calls.push(index) - 1, '')] } : {});
  const add = ({ delta, index }) => {
    if (delta.type === 'text_delta') return { content: delta.text };
    if (delta.type === 'thinking_delta') return { reasoning_content: delta.thinking };
    if (delta.type === 'input_json_delta') return { tool_calls: [{ index: calls.indexOf(index), function: { arguments: delta.partial_json } }] };
    return {};
  };
  return (event) => {
    switch (event.type) {
      case 'message_start':
        counted = event.message.usage;
        return {};
      case 'content_block_start':
        return chunk(begin(event));
      case 'content_block_delta':
        return chunk(add(event));
      case 'message_delta':
        return chunk({}, event.delta.stop_reason, { ...counted, ...event.usage });
      case 'message_stop':
        return { done: true };
      case 'message':
        return { ...chunk(whole(event.content), event.stop_reason, event.usage), done: true };
    }
    return { error: event.error };
  };
}

function chunk(delta, reason, usage) {
  const prompt = usage && usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0);
  return { choices: [{ delta, finish_reason: reason }], usage: usage && { prompt_tokens: prompt, completion_tokens: usage.output_tokens } };
}

const toCall = ({ id, name }, index, input) => ({ index, id, function: { name, arguments: input } });

// whole returns all blocks as one delta.
function whole(content) {
  const of = (type) => content.filter((block) => block.type === type);
  return {
    reasoning_content: of('thinking').map(({ thinking }) => thinking).join('\n\n'),
    content: of('text').map(({ text }) => text).join(''),
    tool_calls: of('tool_use').map((use, i) => toCall(use, i, JSON.stringify(use.input))),
  };
}
