// Markdown as elements. marked (marked.js, with its licence in marked.txt) makes tokens of a
// text; every text in them becomes a text node, and nothing is loaded.

import { copyButton, el, table } from './dom.js';
import { Marked } from './marked.js';

const longest = 32 << 10; // characters that are parsed; some texts take the square of that
const deepest = 12; // lists and quotations within each other

// A formula stays as it is written, since Markdown would take its signs for its own.
const formula = /^(?:\$\$[^]{1,2000}?\$\$|\\\[[^]{1,2000}?\\\]|\\\([^\n]{1,500}?\\\)|\$(?![\s$])[^$\n]{1,500}(?<![\s\\])\$(?!\d))/;

const display = /^(?:\$\$[^]{1,2000}?\$\$|\\\[[^]{1,2000}?\\\])[ \t]*(?:\n|$)/;

const parser = new Marked().use({
  extensions: [
    { name: 'formula', level: 'inline', start: (text) => /\$|\\[([]/.exec(text)?.index, tokenizer: (text) => token('formula', formula, text) },
    { name: 'display', level: 'block', tokenizer: (text) => token('display', display, text) },
  ],
});

function token(type, pattern, text) {
  const found = pattern.exec(text);
  return found ? { type, raw: found[0] } : undefined;
}

// markdown returns the elements of a text. One that is too long or nested too deeply stays as it is.
export function markdown(text) {
  if (text.length > longest) return [plain(text)];
  try {
    return parser.lexer(text).flatMap((token) => block(token, 0));
  } catch {
    return [plain(text)];
  }
}

const plain = (text) => el('div', { class: 'text' }, text);

// block returns the elements of a block.
function block(token, depth) {
  if (depth > deepest) return [plain(token.raw)];
  const deeper = (tokens) => tokens.flatMap((inner) => block(inner, depth + 1));
  switch (token.type) {
    case 'space':
    case 'def':
      return [];
    case 'heading':
      return [el(`h${Math.min(6, token.depth + 3)}`, {}, ...inline(token.tokens))];
    case 'paragraph':
      return [el('p', {}, ...inline(token.tokens))];
    case 'code':
      return [codeBox(token.text, token.lang ?? '')];
    case 'display':
      return [el('pre', { class: 'formula', tabindex: '0', role: 'region', 'aria-label': 'Formula' }, token.raw.trim())];
    case 'blockquote':
      return [el('blockquote', {}, ...deeper(token.tokens))];
    case 'list':
      return [el(token.ordered ? 'ol' : 'ul', { start: token.ordered && token.start !== 1 && token.start }, ...token.items.map((item) => el('li', {}, ...deeper(item.tokens))))];
    case 'table':
      return [table('Table', token.header.map(cell('th')), token.rows.map((row) => row.map(cell('td'))))];
    case 'hr':
      return [el('hr')];
    case 'checkbox':
      return [token.checked ? '☑ ' : '☐ '];
    case 'text': // of an item of a list
      return token.tokens ? inline(token.tokens) : [unescaped(token.text)];
    default:
      return [plain(token.raw.trimEnd())];
  }
}

const alignments = new Set(['center', 'right']);

const cell = (name) => (c) => el(name, { class: alignments.has(c.align) && c.align }, ...inline(c.tokens));

function codeBox(text, language) {
  const name = language.split(/\s/)[0].slice(0, 30);
  return el(
    'div',
    { class: 'code-box' },
    el('div', { class: 'code-head' }, el('span', {}, name), copyButton(() => text)),
    el('pre', { class: 'fence', tabindex: '0', role: 'region', 'aria-label': 'Code', 'data-code': name }, text),
  );
}

const elements = { strong: 'strong', em: 'em', del: 'del' };

// inline returns the nodes of tokens within a line.
function inline(tokens) {
  return tokens.flatMap((token) => {
    switch (token.type) {
      case 'strong':
      case 'em':
      case 'del':
        return [el(elements[token.type], {}, ...inline(token.tokens))];
      case 'codespan':
        return [el('code', {}, token.text)];
      case 'formula':
        return [el('code', { class: 'formula' }, token.raw)];
      case 'br':
        return [el('br')];
      case 'link':
      case 'image':
        return [link(token)];
      case 'escape':
        return [token.text];
      case 'text':
        return token.tokens ? inline(token.tokens) : [unescaped(token.text)];
      default:
        return [token.raw];
    }
  });
}

// link returns a link to a site; of another address, and of one without a text, the source.
function link({ href, raw, tokens }) {
  if (!/^(https?:\/\/|mailto:)/i.test(href)) return raw;
  return el('a', { href, target: '_blank', rel: 'noopener noreferrer' }, ...(tokens?.length ? inline(tokens) : [href]));
}

const entities = { amp: '&', lt: '<', gt: '>', quot: '"', nbsp: '\u00a0', '#39': "'" };

const unescaped = (text) => text.replace(/&(amp|lt|gt|quot|nbsp|#39);/g, (_, name) => entities[name]);
