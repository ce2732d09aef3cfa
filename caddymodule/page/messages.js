// A request for a chat completion as one of Anthropic's Messages API.

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
  if (body.tools) all.tools = body.tools.map(({ function: f }) => ({ name: f.name, description: f.description ?? '', input_schema: f.parameters ?? { type: 'object' } }));
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

function toBlock(part) {
  if (part.type === 'text') return part;
  const [, type, data] = /^data:([^;]+);base64,(.*)$/s.exec(part.image_url.url) ?? [];
  const source = data ? { type: 'base64', media_type: type, data } : { type: 'url', url: part.image_url.url };
  return { type: 'image', source };
}
