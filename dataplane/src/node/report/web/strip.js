// Part 6, first half: all members as cells, those with trouble first. A cell has a mark where there
// is trouble beside its colour, and a stronger colour where the member is busier.

import { count, draw, make, percent, rate, ratio, say, show } from './format.js';
import { drivesOff, railsDown } from './status.js';

// The worst first: the mark, the grade, what it means, and which members have it.
const STATES = [
  ['✕', 'bad', 'unreachable', (m) => !m.reachable],
  ['!', 'warn', 'no answer to this member', (m) => m.breaker === 'open'],
  ['–', 'warn', 'a rail is down', railsDown],
  ['=', 'warn', 'a drive is off', drivesOff],
  ['+', 'quiet', 'joining', (m) => m.state === 'joining'],
  ['→', 'quiet', 'draining', (m) => m.state === 'draining'],
  ['', 'ok', 'active', () => true],
];
const stateOf = (m) => STATES.findIndex(([, , , test]) => test(m));
export const inTrouble = (m) => stateOf(m) < STATES.length - 1;
export const traffic = ({ health }) => (health?.activity?.read_bytes_per_second ?? 0) + (health?.activity?.served_bytes_per_second ?? 0);
const byName = (a, b) => (a.id < b.id ? -1 : 1);

let chosen = null; // the id of the member whose card is asked for
let change = () => {};
const cells = new Map(); // by id: kept, so that the focus survives new figures

export const chosenId = () => chosen;

function paint(cell, m, most) {
  const [mark, grade, meaning] = STATES[stateOf(m)];
  const busy = most > 0 ? traffic(m) / most : ratio(m.health?.pool_used_bytes, m.capacity_bytes) || 0;
  const hits = m.health ? `, ${percent(ratio(m.health.recent_delivered, m.health.recent_looked_up))} hits` : '';
  const label = `${m.id}: ${meaning}${hits}${m.health?.activity ? `, ${rate(traffic(m))}` : ''}`;
  if (cell.textContent !== mark) cell.textContent = mark;
  cell.className = `cell ${grade}`;
  cell.title = label;
  cell.setAttribute('aria-label', label);
  cell.setAttribute('aria-pressed', String(m.id === chosen));
  cell.style.setProperty('--heat', busy.toFixed(2));
}

function choose(id) {
  chosen = chosen === id ? null : id;
  change();
}

// One of the cells has the tab stop; arrows, Home and End move it.
function move(event) {
  const all = [...document.querySelectorAll('#strip .cell')];
  const at = all.indexOf(event.target);
  if (at < 0) return;
  const across = Math.max(1, all.filter((cell) => cell.offsetTop === all[0].offsetTop).length);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + across, ArrowUp: at - across, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  all[Math.max(0, Math.min(all.length - 1, to))].focus();
}

function stop(cell) {
  for (const other of cells.values()) other.tabIndex = other === cell ? 0 : -1;
}

export function start(changed) {
  change = changed;
  const strip = document.getElementById('strip');
  strip.addEventListener('keydown', move);
  strip.addEventListener('focusin', (event) => stop(event.target));
}

function cellOf(id) {
  if (!cells.has(id)) {
    const cell = make('button', { type: 'button', tabindex: '-1' });
    cell.addEventListener('click', () => choose(id));
    cells.set(id, cell);
  }
  return cells.get(id);
}

// Cells are moved only when their order has changed: a move takes the focus away.
function arrange(strip, order) {
  const there = [...strip.querySelectorAll('.cell')];
  if (there.length === order.length && order.every((cell, n) => cell === there[n])) return;
  const focused = order.includes(document.activeElement) ? document.activeElement : null;
  strip.replaceChildren(...order.map((cell) => make('li', {}, cell)));
  focused?.focus();
}

export function showStrip(members) {
  const all = [...members].sort((a, b) => stateOf(a) - stateOf(b) || byName(a, b));
  const most = Math.max(0, ...all.map(traffic));
  for (const id of [...cells.keys()]) if (!members.some((m) => m.id === id)) cells.delete(id);
  if (!cells.has(chosen)) chosen = null;
  for (const m of all) paint(cellOf(m.id), m, most);
  arrange(document.getElementById('strip'), all.map((m) => cells.get(m.id)));
  if (![...cells.values()].some((cell) => cell.tabIndex === 0)) stop(cells.get(all[0]?.id));
  const found = STATES.map(([mark, grade, meaning], n) => ({ mark, grade, meaning, members: all.filter((m) => stateOf(m) === n).length }))
    .filter((one) => one.members > 0);
  say('strip-about', `${count(all.length)} ${all.length === 1 ? 'member' : 'members'}, those with trouble first. Choose one to see its figures.`);
  show('strip-legend', ...found.map(({ mark, grade, meaning, members: of }) =>
    make('li', {}, make('span', { class: `cell ${grade}`, 'aria-hidden': 'true' }, mark), ` ${meaning} `, make('b', {}, count(of)))),
  ...(all.some((m) => m.health) ? [make('li', {}, scale(), most > 0 ? ` stronger: busier, up to ${rate(most)}` : ' stronger: a fuller pool')] : []));
}

function scale() {
  const svg = draw('svg', { class: 'scale', 'aria-hidden': 'true', viewBox: '0 0 40 10', width: 40, height: 10 });
  for (let n = 0; n < 4; n += 1) svg.append(draw('rect', { class: 'fill accent', x: n * 10, width: 10, height: 10, opacity: (n + 1) / 4 }));
  return svg;
}
