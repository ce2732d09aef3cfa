// A request for a chat completion as one of the Responses API.

// toResponses returns the body. It has no place for several answers.
export function toResponses(body) {
  const system = body.messages.filter(({ role }) => role === 'system').map(({ content }) => content);
  const all = { model: body.model, ...(system.length > 0 ? { instructions: system.join('\n\n') } : {}) };
  all.input = body.messages.filter(({ role }) => role !== 'system').flatMap(items);
  if (body.reasoning_effort) all.reasoning = { effort: body.reasoning_effort };
  if (body.tools) all.tools = body.tools.map(({ type, function: f }) => ({ type, ...f }));
  if (body.response_format) all.text = { format: { type: 'json_schema', ...body.response_format.json_schema } };
  if (body.max_completion_tokens) all.max_output_tokens = body.max_completion_tokens;
  if (body.stream) all.stream = true;
  return all;
}

// items returns the items of a message.
function items({ role, content, tool_calls: calls, tool_call_id: id }) {
  if (role === 'tool') return [{ type: 'function_call_output', call_id: id, output: content }];
  const said = content ? [{ role, content: typeof content === 'string' ? content : content.map(part) }] : [];
  return [...said, ...(calls ?? []).map((call) => ({ type: 'function_call', call_id: call.id, name: call.function.name, arguments: call.function.arguments }))];
}

const part = (p) => (p.type === 'text' ? { type: 'input_text', text: p.text } : { type: 'input_image', image_url: p.image_url.url });
