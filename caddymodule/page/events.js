// The raw events of the last request.

import { byId, el, follow } from './dom.js';

const maxEvents = 500; // the newest ones are shown
const maxLength = 4000; // of an event that is shown

const followEvents = follow(byId('event-list'));

let began = 0;
let count = 0;

export function clearEvents() {
  began = performance.now();
  count = 0;
  byId('event-list').replaceChildren();
  byId('event-count').textContent = '';
}

// addEvent shows the text of an event, with its time since the request.
export function addEvent(text, kind = 'event') {
  const list = byId('event-list');
  const shown = text.length > maxLength ? `${text.slice(0, maxLength)}… (${text.length} characters)` : text;
  list.append(el('li', { class: kind }, el('span', { class: 'time' }, `${Math.round(performance.now() - began)} ms`), el('code', {}, shown)));
  if (list.childElementCount > maxEvents) list.firstElementChild.remove();
  count++;
  byId('event-count').textContent = String(count);
  byId('events-note').textContent = count > maxEvents ? `The newest ${maxEvents} of ${count} events of the last request.` : 'The events of the last request, with their times.';
  followEvents();
}
