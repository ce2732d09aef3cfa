// A request for a chat completion as one of the Responses API, and its answer as chunks.

// toResponses returns the body. It has no place for several answers.
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
  const said = content ? [{ role, content: typeof content === 'string' ? content : content.map(part) }] : [];
  return [...said, ...(calls ?? []).map((call) => ({ type: 'function_call', call_id: call.id, name: call.function.name, arguments: call.function.arguments }))];
}

const part = (p) => (p.type === 'text' ? { type: 'input_text', text: p.text } : { type: 'input_image', image_url: p.image_url.url });

// responsesReader returns a function that takes an event of a stream, or a whole response, and
// returns what it adds as a chunk of a chat completion, with done after the end.
export function responsesReader() {
  const calls = []; // the places of the calls among the items
  return (event) => {
    switch (event.type) {
      case 'response.output_text.delta':
        return chunk({ content: event.delta });
      case 'response.reasoning_summary_text.delta':
        return chunk({ reasoning_content: event.delta });
      case 'response.output_item.added':
        return event.item.type === 'function_call' ? chunk({ tool_calls: [toCall({ ...event.item, arguments: '' }, calls.push(event.output_index) - 1)] }) : {};
      case 'response.function_call_arguments.delta':
        return chunk({ tool_calls: [{ index: calls.indexOf(event.output_index), function: { arguments: event.delta } }] });
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        return end(event.response, {});
      case 'error':
        return { error: event };
    }
    return event.object === 'response' ? end(event, whole(event.output)) : {};
  };
}

const chunk = (delta) => ({ choices: [{ delta }] });

const toCall = (item, index) => ({ index, id: item.call_id, function: { name: item.name, arguments: item.arguments } });

// whole returns all items as one delta.
function whole(output) {
  const texts = (type, list) => output.filter((item) => item.type === type).flatMap((item) => item[list].map(({ text }) => text ?? ''));
  return {
    reasoning_content: texts('reasoning', 'summary').join('\n\n'),
    content: texts('message', 'content').join(''),
    tool_calls: output.filter(({ type }) => type === 'function_call').map(toCall),
  };
}

function end({ status, error, incomplete_details: why, usage }, delta) {
  return {
    choices: [{ delta, finish_reason: why?.reason ?? status }],
    usage: usage && { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens },
    error,
    done: true,
  };
}
