// The pane with the conversations that the browser keeps.

import { leaveForgotten, showAddress } from './addresses.js';
import { chatId, open } from './chat.js';
import { byId, download, el } from './dom.js';
import { age, counted, number } from './format.js';
import { asMarkdown, forget, forgetAll, kept, nameOf, rename, search } from './history.js';

let opened = () => {};

// onOpen sets what is called after a conversation was chosen.
export function onOpen(listener) {
  opened = listener;
}

export function showHistory() {
  if (byId('kept').querySelector('input')) return; // a name is being typed
  const all = kept();
  const found = search(byId('search').value);
  const note = all.length > 0 ? `${counted(all.length, 'conversation')}, which only this browser has.` : 'Conversations are kept here, in this browser only.';
  byId('history-note').textContent = found.length < all.length ? `${number(found.length)} of ${note}` : note;
  byId('forget-all').hidden = all.length === 0;
  byId('forget-all').textContent = 'Forget all';
  byId('save-found').hidden = found.length === 0;
  byId('kept').replaceChildren(...found.map(keptItem));
}

function keptItem(conversation) {
  const { id, at } = conversation;
  const name = nameOf(conversation);
  const current = id === chatId() && 'true';
  const item = el(
    'li',
    {},
    el('button', { type: 'button', class: 'kept-open', 'aria-current': current, click: () => openKept(id) }, el('span', { class: 'kept-title' }, name), el('span', { class: 'note' }, `${age(at / 1000)} ago`)),
    el('button', { type: 'button', class: 'quiet', 'aria-label': `Rename ${name}`, click: () => askName(item, conversation) }, '✎'),
    el('button', { type: 'button', class: 'quiet', 'aria-label': `Forget ${name}`, click: () => changeHistory(() => forget(id)) }, '×'),
  );
  return item;
}

// askName has a field in place of the name of a conversation. Enter and leaving it take the name,
// Escape does not. Without a name, the conversation has the first question again.
function askName(item, conversation) {
  const end = (change) => {
    field.onblur = null;
    field.remove();
    change();
    showAddress();
    showHistory();
  };
  const take = () => rename(conversation.id, field.value.trim());
  const keydown = (event) => {
    if (event.isComposing || !['Enter', 'Escape'].includes(event.key)) return;
    event.stopPropagation(); // Escape stops no answer here
    end(event.key === 'Enter' ? take : () => {});
    byId('tab-history').focus();
  };
  const field = el('input', { value: nameOf(conversation), maxlength: 80, 'aria-label': 'Name of the conversation', keydown });
  field.onblur = () => end(take);
  item.replaceChildren(field);
  field.select();
}

function openKept(id) {
  const chosen = kept().find((conversation) => conversation.id === id);
  if (id !== chatId() && chosen) open(chosen);
  opened();
}

// saveFound saves the conversations that are listed.
export const saveFound = () => download('conversations.md', 'text/markdown', search(byId('search').value).map(asMarkdown).join('\n\n'));

// askForgetAll forgets all when its button is pressed for the second time.
export function askForgetAll() {
  const button = byId('forget-all');
  const sure = `Forget ${counted(kept().length, 'conversation')} for good`;
  if (button.textContent === sure) return changeHistory(forgetAll);
  button.textContent = sure;
  button.addEventListener('blur', () => (button.textContent = 'Forget all'), { once: true });
}

// changeHistory shows the conversations after some were forgotten.
function changeHistory(change) {
  change();
  leaveForgotten();
  showHistory();
  byId('tab-history').focus();
}
