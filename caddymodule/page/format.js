// Numbers and times as people read them.

const whole = new Intl.NumberFormat('en');

export const number = (value) => (typeof value === 'number' ? whole.format(value) : '0');

// counted returns a number with its noun: 1 request, 2 requests.
export const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`;

// words turns a name of JSON into words.
export const words = (name) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll('_', ' ');

export function bytes(value) {
  return value >= 1 << 30 ? `${(value / (1 << 30)).toFixed(1)} GiB` : `${Math.round(value / (1 << 20))} MiB`;
}

// date returns the time of Unix seconds or of a text in RFC 3339.
const date = (value) => new Date(typeof value === 'number' ? value * 1000 : value);

// clock returns a time, with the day unless that is today.
export function clock(value) {
  const at = date(value);
  if (Number.isNaN(at.getTime())) return String(value);
  const time = at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })}, ${time.slice(0, 5)}`;
}

// age returns how long ago something was.
export const age = (value) => duration(Math.max(0, (Date.now() - date(value).getTime()) / 1000));

// until returns how long it is until something.
export const until = (value) => duration(Math.max(0, (date(value).getTime() - Date.now()) / 1000));

// duration returns seconds in the largest unit that fits.
function duration(seconds) {
  const units = [
    [86400, 'day'],
    [3600, 'hour'],
    [60, 'minute'],
    [1, 'second'],
  ];
  const [size, unit] = units.find(([least]) => seconds >= least) ?? units[3];
  const count = Math.floor(seconds / size);
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}

// named returns the name of a user. All callers without a name in a realm are the user @realm.
export const named = (name) => (!name || name.startsWith('@') ? `without a name${name?.[1] ? ` (${name.slice(1)})` : ''}` : name);
