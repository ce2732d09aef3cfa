// The windows of plans over time, with the keys in colours.

import { el, svg } from './dom.js';
import { clock, named, until } from './format.js';

const maxColors = 8; // further keys share the last one

const least = 13; // bars in a figure, so that those of all figures are as wide

// planWindows returns a figure for each meter and length of a window in the document of /v1/usage that was used.
export function planWindows(windows) {
  const keys = [...new Set(windows.flatMap((w) => Object.keys(w.by_key)))].sort();
  const color = (key) => `key-${Math.min(keys.indexOf(key), maxColors - 1)}`;
  const figures = Object.values(Object.groupBy(windows, (w) => `${w.login} ${w.meter} ${w.window_seconds}`));
  return figures.filter((all) => all.some((w) => w.used_percent > 0)).map((all) => figure(all, keys, color));
}

function figure(all, keys, color) {
  const last = all[all.length - 1];
  const title = `${last.meter}, ${lengthOf(last.window_seconds)}, login ${last.login}`;
  const bars = all.map((w, i) => {
    const x = Math.max(least - all.length + i, i) * 10 + 1;
    let top = 100;
    const parts = [...keys.map((key) => [w.by_key[key] ?? 0, color(key)]), [w.others_percent, 'others']];
    const rects = parts.map(([percent, kind]) => svg('rect', { x, y: (top -= percent), width: 8, height: percent, class: kind }));
    return svg('g', {}, svg('title', {}, said(w)), svg('rect', { x, y: 0, width: 8, height: 100, class: 'free' }), ...rects);
  });
  return el(
    'figure',
    { class: 'chart' },
    el('figcaption', {}, title),
    svg('svg', { viewBox: `0 0 ${Math.max(least, all.length) * 10} 100`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${title}. ${all.map(said).join('. ')}` }, ...bars),
    el('figcaption', { class: 'note' }, `${pace(last)}. ${all.slice(-4, -1).reverse().map((w) => `Reset ${clock(w.resets_at)}: ${Math.round(w.used_percent)} %`).join('. ')}`),
    el('p', { class: 'legend note' }, ...keys.filter((key) => all.some((w) => key in w.by_key)).map((key) => legend(key, color(key))), legend('others', 'others')),
  );
}

const legend = (name, kind) => el('span', {}, svg('svg', { viewBox: '0 0 1 1', 'aria-hidden': 'true' }, svg('rect', { width: 1, height: 1, class: kind })), named(name));

const lengthOf = (seconds) => (seconds >= 172800 ? `${Math.round(seconds / 86400)} days` : `${Math.round(seconds / 360) / 10} h`);

// said is a window in words.
function said(w) {
  const shares = Object.entries(w.by_key).map(([key, percent]) => `${named(key)} ${percent.toFixed(1)} %`);
  return `Until ${clock(w.resets_at)}: ${[...shares, `others ${w.others_percent.toFixed(1)} %`].join(', ')}`;
}

// pace says when the window will be spent if it is used on as since its begin.
function pace({ window_seconds: length, resets_at: resets, used_percent: percent }) {
  const used = Math.round(percent);
  const begin = resets - length;
  const spent = begin + ((Date.now() / 1000 - begin) * 100) / used;
  if (resets <= Date.now() / 1000) return `${used} % were used until ${clock(resets)}`;
  if (used >= 100) return `Spent, resets in ${until(resets)}`;
  return `${used} % used; at this pace, ${spent < resets ? `spent in ${until(spent)}` : `it lasts until it resets in ${until(resets)}`}`;
}
