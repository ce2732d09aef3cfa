// The body of a request for a chat completion as that of another API.

// toResponses returns the body for the Responses API, which has no place for several answers.
export function toResponses(body) {
  const system = body.messages.filter(({ role }) => role === 'system').map(({ content }) => content);
  const all = { model: body.model, ...(system.length > 0 ? { instructions: system.join('\n\n') } : {}) };
  all.input = body.messages.filter(({ role }) => role !== 'system').flatMap(items);
  all.reasoning = { summary: 'auto', ...(body.reasoning_effort ? { effort: body.reasoning_effort } : {}) };
  if (body.tools) all.tools = body.tools.map(({ function: f, ...tool }) => ({ ...tool, ...f }));
  if (body.response_format) all.text = { format: { type: 'json_schema', ...body.response_format.json_schema } };
  if (body.max_completion_tokens) all.max_output_tokens = body.max_completion_tokens;
  if (body.stream) all.stream = true;
  return all;
}

// items returns the items of a message.
function items({ role, content, tool_calls: calls, tool_call_id: id }) {
  if (role === 'tool') return [{ type: 'function_call_output', call_id: id, output: content }];
  const said = content ? [{ role, content: typeof content === 'string' ? content : content.map(toInput) }] : [];
  return [...said, ...(calls ?? []).map((call) => ({ type: 'function_call', call_id: call.id, name: call.function.name, arguments: call.function.arguments }))];
}

const toInput = (p) => (p.type === 'text' ? { type: 'input_text', text: p.text } : { type: 'input_image', image_url: p.image_url.url });

// toMessages returns the body for the Messages API of Anthropic, which has no place for several answers.
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
