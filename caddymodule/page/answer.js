// An answer of the model: its choices, what it took, and how it ended.

import { el } from './dom.js';
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
    this.element = el('div', { class: 'message assistant' }, el('p', { class: 'who' }, 'Model'), this.wait, this.grid, this.meta);
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

  // end shows what the answer took.
  end(note) {
    this.wait.hidden = true;
    for (const choice of this.choices) choice.end();
    const finishes = [...new Set(this.choices.map((choice) => choice.finish).filter(Boolean))];
    const facts = [note, ...finishes];
    if (this.first) facts.push(`first output after ${seconds(this.first)}`);
    facts.push(`${seconds(performance.now() - this.began)} in all`);
    if (this.usage) facts.push(`${this.usage.prompt_tokens} tokens in, ${this.usage.completion_tokens} out`);
    this.meta.textContent = facts.filter(Boolean).join(' · ');
  }

  // empty reports whether nothing has arrived.
  get empty() {
    return this.choices.every((choice) => !choice.text && !choice.reasoning && choice.calls.length === 0);
  }
}

const seconds = (milliseconds) => (milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`);
