// The options as a whole: which differ from what they are on an empty page, and back to that.

import { byId, el } from './dom.js';
import { counted } from './format.js';
import { readSchema, readTools } from './tools.js';

const form = byId('option-form');
const fields = [...form.querySelectorAll('select, input, textarea')];

const valueOf = (field) => (field.type === 'checkbox' ? field.checked : field.value);

function setValue(field, value) {
  if (field.type === 'checkbox') field.checked = value;
  else field.value = value;
  if (field.selectedIndex < 0) field.append(el('option', { value, selected: true }, value)); // a model, before all are known
}

const lent = []; // what a suggestion or a kept chat has set, until the chat ends: { field, before, value }

// lend sets an option until the chat ends.
export function lend(id, value) {
  const field = byId(id);
  lent.push({ field, before: valueOf(field), value });
  setValue(field, value);
  tell();
}

// takeBack undoes what was lent, unless the person has changed it.
export function takeBack() {
  for (const { field, before, value } of lent.splice(0)) if (valueOf(field) === value) setValue(field, before);
  tell();
}

// options returns all options by their names, to be kept with a chat.
export const options = () => Object.fromEntries(fields.map((field) => [field.id, valueOf(field)]));

// lendAll sets the options of a chat that was kept, until it ends.
export function lendAll(kept = {}) {
  for (const field of fields) if (field.id in kept && kept[field.id] !== valueOf(field)) lend(field.id, kept[field.id]);
}

export function resetOptions() {
  form.reset();
  byId('model').selectedIndex = 0;
  tell();
}

// tell has everything know of options that no person has typed.
const tell = () => form.dispatchEvent(new Event('input'));

// optionsInUse returns the options that differ, in words.
export function optionsInUse() {
  const value = (id) => byId(id).value.trim();
  const tools = readTools();
  const n = Number(value('choices'));
  return [
    byId('model').selectedIndex > 0 && value('model'),
    tools === null ? 'tools' : tools.length > 0 && counted(tools.length, 'tool'),
    n > 1 && counted(n, 'answer'),
    value('mode') && byId('mode').selectedOptions[0].text,
    value('effort') && `${value('effort')} reasoning`,
    value('limit') && `at most ${counted(Number(value('limit')), 'token')}`,
    !byId('stream').checked && 'no stream',
    value('instructions') && 'instructions',
    readSchema() !== undefined && 'a schema',
  ].filter(Boolean);
}
