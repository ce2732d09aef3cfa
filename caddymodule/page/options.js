// The options as a whole: which differ from what they are on an empty page, and back to that.

import { byId } from './dom.js';
import { counted } from './format.js';
import { readSchema, readTools } from './tools.js';

const form = byId('option-form');

let lent = []; // what a suggestion has set, until its chat ends: { field, before, value }

// lend sets an option until the chat ends.
export function lend(id, value) {
  const field = byId(id);
  lent.push({ field, before: field.value, value });
  field.value = value;
  tell();
}

// takeBack undoes what was lent, unless the person has changed it.
export function takeBack() {
  for (const { field, before, value } of lent.splice(0)) if (field.value === value) field.value = before;
  tell();
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
