// An answer of the model: its choices, what it took, and how it ended.

import { copyButton, el } from './dom.js';
import { counted, number } from './format.js';
import { Choice } from './choice.js';

const maxChoices = 8;

export class Answer {
  constructor(several) {
    this.several = several;
    this.choices = [];
    this.usage = null;
    this.began = performance.now();
    this.first = 0; // milliseconds until the first output
    this.grid = el('div', { class: several ? 'choices several' : 'choices' });
    this.wait = el('p', { class: 'waiting' }, el('span', { class: 'pulse', 'aria-hidden': 'true' }), 'Waiting for the model');
    this.meta = el('p', { class: 'meta' });
    this.acts = el('p', { class: 'acts' });
    this.element = el('article', { class: 'message assistant', 'aria-label': 'Model' }, el('h3', { class: 'who' }, 'Model'), this.wait, this.grid, this.meta, this.acts);
  }

  // add takes a chunk of a stream or a whole completion.
  add(body) {
    for (const part of body.choices ?? []) {
      const choice = this.choice(part.index ?? 0);
      if (!choice) continue;
      const delta = part.delta ?? part.message ?? {};
      if (!this.first && (delta.content || delta.reasoning_content || delta.tool_calls)) this.first = performance.now() - this.began;
      choice.add(delta);
      if (part.finish_reason) choice.finish = part.finish_reason;
    }
    if (body.usage) this.usage = body.usage;
  }

  choice(index) {
    if (!Number.isInteger(index) || index < 0 || index >= maxChoices) return null;
    while (this.choices.length <= index) {
      const choice = new Choice(this.choices.length, this.several);
      this.choices.push(choice);
      this.grid.append(choice.element);
    }
    this.wait.hidden = true;
    return this.choices[index];
  }

  // restore shows a message of a conversation that was kept.
  restore(message) {
    this.wait.hidden = true;
    this.add({ choices: [{ index: 0, message }] });
    this.endChoices();
    this.meta.textContent = message.meta ?? '';
    return this.choices[0];
  }

  // end shows what the answer took.
  end(note) {
    this.wait.hidden = true;
    this.endChoices();
    const finishes = [...new Set(this.choices.map((choice) => choice.finish).filter(Boolean))];
    const facts = [note, ...finishes];
    if (this.first) facts.push(`first output after ${seconds(this.first)}`);
    facts.push(`${seconds(performance.now() - this.began)} in all`);
    if (this.usage) facts.push(`${counted(this.usage.prompt_tokens, 'token')} in, ${number(this.usage.completion_tokens)} out`);
    this.meta.textContent = facts.filter(Boolean).join(' · ');
  }

  // endChoices shows the choices whole.
  endChoices() {
    for (const choice of this.choices) choice.end();
    if (!this.several && this.choices[0]?.text) this.acts.append(copyButton(() => this.choices[0].text));
  }

  // empty reports whether nothing has arrived.
  get empty() {
    return this.choices.every((choice) => !choice.text && !choice.reasoning && choice.calls.length === 0);
  }
}

const seconds = (milliseconds) => (milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`);
