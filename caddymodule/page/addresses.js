// The addresses of the page: a chat that is kept has its own.

import { chatId, clear, disown, open } from './chat.js';
import { byId, problem } from './dom.js';
import { kept, nameOf } from './history.js';

const prefix = '#chat=';
const addressOf = (id) => (id ? prefix + encodeURIComponent(id) : '#playground');

// followAddress shows the chat of the address.
export function followAddress() {
  const { hash } = location;
  if (hash === addressOf(chatId())) return;
  const known = hash.startsWith(prefix) && kept().find(({ id }) => addressOf(id) === hash);
  if (known) return open(known);
  if (hash.startsWith(prefix)) history.replaceState(null, '', addressOf(''));
  if (chatId()) clear();
  if (hash.startsWith(prefix)) problem('composer-problem', 'This browser has no chat of that address. This is a new one.');
}

// showAddress gives the address and the name of the page to the chat that is shown.
export function showAddress() {
  const address = addressOf(chatId());
  byId('to-playground').href = address;
  const shown = kept().find(({ id }) => id === chatId());
  document.title = shown ? `${nameOf(shown)} - caddy-codex` : 'caddy-codex';
  if (document.body.dataset.view !== 'playground' || location.hash === address) return;
  if (chatId() || location.hash.startsWith(prefix)) history.pushState(null, '', address);
}

// leaveForgotten takes the address from a chat that the browser keeps no more.
export function leaveForgotten() {
  if (!chatId() || kept().some(({ id }) => id === chatId())) return;
  history.replaceState(null, '', addressOf(''));
  disown();
}
