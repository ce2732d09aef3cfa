// Texts of the model as elements. Everything becomes text nodes.

import { el } from './dom.js';

// maxParts bounds the elements of one text; what follows them stays as it is. It also
// bounds how often the text is searched.
const maxParts = 200;

// render returns the elements of a whole text: fenced code and <use_tool> blocks are set
// apart from the text around them.
export function render(text) {
  const parts = [];
  let end = 0;
  for (const next = blocks(text); parts.length < maxParts; ) {
    const block = next(end);
    if (!block) break;
    addText(parts, text.slice(end, block.start));
    parts.push(el('pre', { class: block.kind, tabindex: '0', 'aria-label': block.kind === 'fence' ? 'Code' : 'Tool block' }, block.text));
    end = block.end;
  }
  addText(parts, text.slice(end));
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
  return close && { kind: 'fence', start: open.start, end: close.end, text: text.slice(open.end, close.start).replace(/\n$/, '') };
}

function find(pattern, text, from) {
  pattern.lastIndex = from;
  const found = pattern.exec(text);
  return found && { start: found.index, end: pattern.lastIndex };
}

function findTag(text, from) {
  const start = text.indexOf('<use_tool>', from);
  const close = start < 0 ? -1 : text.indexOf('</use_tool>', start);
  const end = close + '</use_tool>'.length;
  return close < 0 ? null : { kind: 'block', start, end, text: text.slice(start, end) };
}

function addText(parts, text) {
  const shown = text.replace(/^\n+/, '').trimEnd();
  if (shown) parts.push(el('div', { class: 'text' }, shown));
}

// pretty returns JSON with line breaks, or the text as it is if it is no JSON.
export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
