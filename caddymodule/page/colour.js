// Colours of code. highlight.js (with its licence in highlight.txt) finds the words of a text; they
// become text nodes in elements with a class.

import { el } from './dom.js';

// Its time may grow with the square of a line.
const longest = 10000; // characters of a block
const longestLine = 400;
const deepest = 12; // elements within each other

let waiting = []; // blocks that are next

// colour colours the blocks of code in an element, one after the other when the browser is idle.
export function colour(element) {
  const blocks = [...element.querySelectorAll('pre.fence[data-code]')].filter(suits);
  if (blocks.length === 0) return;
  if (waiting.push(...blocks) === blocks.length) idle(next);
}

const suits = ({ textContent: text }) => text.length <= longest && text.split('\n').every((line) => line.length <= longestLine);

const idle = (work) => (window.requestIdleCallback ? requestIdleCallback(work, { timeout: 1000 }) : setTimeout(work));

async function next() {
  try {
    const { default: library } = await import('./highlight.js');
    library.registerAliases(['javascript', 'js', 'jsx', 'mjs'], { languageName: 'typescript' });
    library.registerAliases(['shell', 'console'], { languageName: 'bash' });
    paint(library, waiting[0]);
  } catch {
    // the block stays as it is
  }
  waiting.shift();
  if (waiting.length > 0) idle(next);
}

function paint(library, block) {
  const language = block.dataset.code;
  if (!block.isConnected || !library.getLanguage(language)) return;
  const found = library.highlight(block.textContent, { language, ignoreIllegals: true });
  block.replaceChildren(...nodes(found._emitter.root));
}

// nodes returns the nodes of a tree of scopes.
function nodes({ children }, depth = 0) {
  return children.map((child) => {
    if (typeof child === 'string') return child;
    const inner = depth < deepest ? nodes(child, depth + 1) : [textOf(child)];
    return el('span', { class: child.scope && `code-${child.scope.split('.')[0]}` }, ...inner);
  });
}

const textOf = (part) => (typeof part === 'string' ? part : part.children.map(textOf).join(''));
