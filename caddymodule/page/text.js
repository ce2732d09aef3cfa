// Texts of the model as elements. Everything becomes text nodes.

import { el } from './dom.js';
import { markdown } from './markdown.js';

// maxParts bounds how often a text is searched for blocks; what follows them is one part.
const maxParts = 200;

// render returns the elements of a text: <use_tool> blocks are set apart from the Markdown around
// them, unless they are in fenced code.
export function render(text) {
  const parts = [];
  const add = (part) => {
    const shown = part.replace(/^\n+/, '').trimEnd();
    if (shown) parts.push(el('div', { class: 'markdown' }, ...markdown(shown)));
  };
  let begin = 0; // of what was not added yet
  let at = 0;
  const next = blocks(text);
  for (let i = 0; i < maxParts; i++) {
    const block = next(at);
    if (!block) break;
    at = block.end;
    if (!block.tag) continue;
    add(text.slice(begin, block.start));
    parts.push(el('pre', { class: 'block', tabindex: '0', role: 'region', 'aria-label': 'Tool block' }, text.slice(block.start, block.end)));
    begin = at;
  }
  add(text.slice(begin));
  return parts;
}

// blocks returns a function that finds the first block from a place in the text. A kind of
// block whose end is missing is not searched for again.
function blocks(text) {
  let fences = true;
  let tags = true;
  return (from) => {
    const fence = fences ? findFence(text, from) : null;
    fences = fence !== null;
    const tag = tags ? findTag(text, from) : null;
    tags = tag !== null;
    if (!fence || !tag) return fence ?? tag;
    return fence.start < tag.start ? fence : tag;
  };
}

function findFence(text, from) {
  const open = find(/^```[^\n`]{0,64}\n/gm, text, from);
  const close = open && find(/^```[ \t]*$/gm, text, open.end);
  return close && { start: open.start, end: close.end };
}

function find(pattern, text, from) {
  pattern.lastIndex = from;
  const found = pattern.exec(text);
  return found && { start: found.index, end: pattern.lastIndex };
}

function findTag(text, from) {
  const start = text.indexOf('<use_tool>', from);
  const close = start < 0 ? -1 : text.indexOf('</use_tool>', start);
  return close < 0 ? null : { tag: true, start, end: close + '</use_tool>'.length };
}

// pretty returns JSON with line breaks, or the text as it is if it is no JSON.
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
