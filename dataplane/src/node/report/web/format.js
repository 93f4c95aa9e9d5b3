// Numbers as people read them, and elements out of text. Nothing here reads HTML.

const NONE = '–';

// Three digits that matter; never an exponent.
function digits(n) {
  const size = Math.abs(n);
  if (size === 0) return '0';
  if (size >= 100 || Number.isInteger(n)) return Math.round(n).toLocaleString('en');
  return n.toFixed(size >= 10 ? 1 : 2).replace(/\.0+$/, '');
}

function scaled(n, base, units) {
  if (!Number.isFinite(n)) return NONE;
  let unit = 0;
  while (Math.abs(n) >= base && unit + 1 < units.length) {
    n /= base;
    unit += 1;
  }
  return `${digits(n)} ${units[unit]}`.trim();
}

export const count = (n) => (Number.isFinite(n) ? digits(n) : NONE);
export const short = (n) => scaled(n, 1000, ['', 'k', 'M', 'G']);
// Memory in binary units, as Kubernetes has it; rates in decimal ones, as networks have them.
export const bytes = (n) => scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);
export const rate = (n) => scaled(n, 1000, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s']);
export const percent = (share) => (Number.isFinite(share) ? `${(share * 100).toFixed(1).replace(/^(0|100)\.0$/, '$1')}%` : NONE);

export function duration(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return NONE;
  if (seconds === 0) return '0 ms';
  if (seconds < 0.001) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  return `${digits(seconds)} s`;
}

export const sum = (numbers) => numbers.reduce((all, n) => all + (n ?? 0), 0);
export const total = (byName) => sum(Object.values(byName));
export const ratio = (part, whole) => (whole > 0 ? Math.min(1, part / whole) : NaN);

export function ago(seconds) {
  if (seconds < 1.5) return 'now';
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

export function lasted(seconds) {
  return ago(seconds).replace(' ago', '').replace('now', 'a second');
}

export const clock = (unixSeconds) =>
  new Date(unixSeconds * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false });

export const words = (name) => name.replaceAll('_', ' ');

// An element with attributes and children. Children that are no elements become text, whatever they
// hold: names of members come from other machines.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// The same in SVG.
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// A table with a caption; the first column names the rows. `rows`: of cells, which are text or elements.
export function table(caption, heads, rows, attributes = {}) {
  const head = make('tr', {}, heads.map((text) => make('th', { scope: 'col' }, text)));
  const body = rows.map((cells) =>
    make('tr', {}, cells.map((cell, n) => make(n === 0 ? 'th' : 'td', n === 0 ? { scope: 'row' } : {}, cell))));
  return make('table', attributes, make('caption', {}, caption), make('thead', {}, head), make('tbody', {}, body));
}

// A figure of a <dl>: its name, the figure, and what it is made of.
export function tile(name, value, note) {
  return make('div', { class: 'tile' }, make('dt', {}, name), make('dd', { class: 'value' }, value), make('dd', { class: 'aside' }, note));
}

// A bar that shows `share` of its room; the number stands beside it.
export function bar(share, colour = 'accent') {
  const width = Math.max(0, Math.min(1, Number.isFinite(share) ? share : 0)) * 100;
  const svg = draw('svg', { class: 'bar', 'aria-hidden': 'true', preserveAspectRatio: 'none', viewBox: '0 0 100 8' });
  svg.append(draw('rect', { class: 'track', width: 100, height: 8 }));
  if (width > 0) svg.append(draw('rect', { class: `fill ${colour}`, width: Math.max(width, 0.5), height: 8 }));
  return svg;
}

export function show(id, ...children) {
  document.getElementById(id).replaceChildren(...children);
}

export function say(id, text) {
  const element = document.getElementById(id);
  if (element.textContent !== text) element.textContent = text;
}
