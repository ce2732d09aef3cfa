// One choice of an answer: its reasoning, text and calls, as they arrive.

import { colour } from './colour.js';
import { copyButton, el, onEnter } from './dom.js';
import { pretty, render } from './text.js';

// maxCalls bounds the calls that are shown of one choice.
const maxCalls = 128;

export class Choice {
  constructor(index, several) {
    this.several = several; // there are others
    this.text = '';
    this.reasoning = '';
    this.calls = []; // as the API has them
    this.finish = '';
    this.thoughts = new Text();
    this.nextPreview = 0; // a time as of performance.now()
    this.timer = 0; // of the next preview; 0: none waits
    this.reasoningBox = el('details', { class: 'reasoning', hidden: true }, el('summary', {}, 'Reasoning'), el('div', { class: 'text' }, this.thoughts));
    this.textBox = el('div', { class: 'said' });
    this.callBox = el('div', { class: 'calls' });
    this.cards = [];
    this.element = el('article', { class: 'choice', 'aria-busy': 'true' }, several && el('h4', {}, `Choice ${index + 1}`), this.reasoningBox, this.textBox, this.callBox);
  }

  // add takes a delta of a stream, or a whole message.
  add(delta) {
    if (delta.reasoning_content) {
      this.reasoning += delta.reasoning_content;
      this.thoughts.appendData(delta.reasoning_content);
      this.reasoningBox.hidden = false;
    }
    if (delta.content) {
      this.text += delta.content;
      this.preview();
    }
    for (const [i, part] of (delta.tool_calls ?? []).entries()) this.addCall(part.index ?? i, part);
  }

  addCall(index, part) {
    if (!Number.isInteger(index) || index < 0 || index > this.calls.length || index >= maxCalls) return;
    if (index === this.calls.length) {
      this.calls.push({ id: '', type: 'function', function: { name: '', arguments: '' } });
      this.cards.push(new CallCard());
      this.callBox.append(this.cards[index].element);
    }
    const call = this.calls[index];
    if (part.id) call.id = part.id;
    call.function.name += part.function?.name ?? '';
    call.function.arguments += part.function?.arguments ?? '';
    this.cards[index].show(call);
  }

  // preview shows the text so far soon, at most as often as that takes a tenth of the time.
  preview() {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      const began = performance.now();
      this.timer = 0;
      this.textBox.replaceChildren(...render(this.text));
      this.nextPreview = began + Math.max(100, 10 * (performance.now() - began));
    }, Math.max(0, this.nextPreview - performance.now()));
  }

  // end replaces the text by its parts, now that it is whole.
  end() {
    clearTimeout(this.timer);
    this.element.setAttribute('aria-busy', 'false');
    this.textBox.replaceChildren(...render(this.text));
    colour(this.textBox);
    if (this.text && this.several) this.textBox.after(el('p', { class: 'acts' }, copyButton(() => this.text)));
    if (!this.text && this.calls.length === 0) this.textBox.append(el('p', { class: 'note' }, 'The model said nothing.'));
    for (const [i, card] of this.cards.entries()) card.show(this.calls[i], true);
  }

  // settle shows the result of a call, as a message of a conversation that was kept.
  settle({ tool_call_id: made, content }) {
    const card = this.cards[this.calls.findIndex(({ id }) => id === made)];
    if (!card) return;
    card.ask();
    card.result.value = content;
    card.settle();
  }

  // message returns the choice as a message of the conversation.
  message() {
    const message = { role: 'assistant', content: this.text || null };
    if (this.calls.length > 0) message.tool_calls = this.calls;
    if (this.reasoning) message.reasoning_content = this.reasoning;
    return message;
  }
}

// CallCard shows a call and takes its result.
class CallCard {
  constructor() {
    this.name = el('code', { class: 'name' });
    this.args = el('pre', { class: 'args', tabindex: '0', role: 'region', 'aria-label': 'Arguments' });
    this.result = null;
    this.element = el('section', { class: 'call', 'aria-label': 'Tool call' }, el('p', { class: 'call-title' }, 'calls ', this.name), this.args);
  }

  show(call, whole) {
    this.name.textContent = call.function.name;
    this.args.textContent = whole ? pretty(call.function.arguments) : call.function.arguments;
  }

  // ask offers a field for the result, in which Enter calls a function.
  ask(enter = () => {}) {
    const keydown = (event) => onEnter(event, enter);
    this.result = el('textarea', { rows: '2', class: 'mono', spellcheck: 'false', placeholder: 'What the tool returns; Enter sends it', keydown });
    this.element.append(el('label', {}, 'Result', this.result));
  }

  // settle shows the result that was sent.
  settle() {
    if (this.result) this.result.readOnly = true;
  }
}
