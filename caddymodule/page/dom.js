// Building the page. Texts become text nodes: no text is ever parsed as HTML.

export const byId = (id) => document.getElementById(id);

// el returns an element. Functions among the properties are event listeners; other
// properties are attributes, and those that are false, null or undefined are left out.
export function el(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === 'function') element.addEventListener(key, value);
    else if (value !== false && value != null) element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child != null && child !== false).map((child) => (child instanceof Node ? child : String(child))));
  return element;
}

// onEnter calls a function if a key event is of Enter alone, which then breaks no line.
export function onEnter(event, call) {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  call();
}

const svgSpace = 'http://www.w3.org/2000/svg';

export function svg(name, attributes, ...children) {
  const element = document.createElementNS(svgSpace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// follow returns a function to call after something was added to a list that scrolls. It
// keeps the end in sight until the person scrolls up, once for each frame.
export function follow(list) {
  let atEnd = true;
  let due = false;
  let top = 0;
  list.addEventListener('scroll', () => {
    const near = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
    if (near) atEnd = true;
    else if (list.scrollTop < top) atEnd = false; // by the person: what is added moves nothing up
    top = list.scrollTop;
  });
  const added = (always = false) => {
    if (always) atEnd = true;
    if (due || !atEnd) return;
    due = true;
    requestAnimationFrame(() => {
      list.scrollTop = list.scrollHeight;
      due = false;
    });
  };
  new ResizeObserver(() => {
    // Also when it is shown again, but never away from where the person is.
    if (!list.contains(document.activeElement)) added();
  }).observe(list);
  return added;
}

// table returns a table that scrolls, with a label. heads and lines are rows of cells; more follows it.
export const table = (label, heads, lines, more) =>
  el(
    'div',
    { class: 'table', tabindex: '0', role: 'region', 'aria-label': label },
    el('table', {}, el('thead', {}, el('tr', {}, ...heads)), el('tbody', {}, ...lines.map((cells) => el('tr', {}, ...cells)))),
    more && el('p', { class: 'note' }, more),
  );

// column is the head of a column, header that of a row.
export const column = (text) => el('th', { scope: 'col' }, text);
export const header = (text) => el('th', { scope: 'row' }, text);

// problem shows a text in the element for it, or hides that.
export function problem(id, text) {
  const element = byId(id);
  element.textContent = text ?? '';
  element.hidden = !text;
}

// handy reports whether the person has a pointer that is fine. Where it is a finger, a focus in a
// field opens a keyboard over half of the page.
export const handy = () => !matchMedia('(pointer: coarse)').matches;

export function focusPrompt() {
  if (handy()) byId('prompt').focus({ preventScroll: true });
}

// passFocus gives the focus to the message if it is within an element that is about to go,
// unless it came there with a pointer: on a phone that would open the keyboard.
export function passFocus(element) {
  const focused = document.activeElement;
  if (element.contains(focused) && focused.matches(':focus-visible')) byId('prompt').focus();
}

// copyButton returns a button that copies a text, which is asked for then.
export function copyButton(text, label = 'Copy') {
  const button = el('button', { type: 'button', class: 'link', click: () => copy(button, text(), label) }, label);
  return button;
}

// copy copies a text, and says so on the button for two seconds.
export async function copy(button, text, label = 'Copy') {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Not allowed by the browser';
  }
  setTimeout(() => (button.textContent = label), 2000);
}

// download gives the person a text as a file.
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el('a', { href: url, download: name }).click();
  URL.revokeObjectURL(url);
}

// announce has a screen reader say a text.
export function announce(text) {
  byId('announcer').textContent = text;
}
