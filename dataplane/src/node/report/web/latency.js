// Part 5: the time of calls, whole and by stage, of the histograms of /metrics.

import { draw, duration, lasted, make, percent, short, show, table, tile } from './format.js';
import { flowOf } from './worth.js';

// The axis of stages: six decades, from a copy of a small page to past any time-out.
const FROM = 1e-5;
const DECADES = 6;
const LINE = /^peercache_(op|stage)_latency_seconds_bucket\{op="(\w+)"(?:,stage="(\w+)")?,le="([^}]+)"\} (\d+)$/;
const KEPT = 30; // scrapes, one every ten seconds

const scrapes = []; // { at, calls }, the oldest first; at in ms

// Cumulative counts by "op stage": [[bound in seconds, calls]...]
function parse(text) {
  const found = new Map();
  for (const line of text.split('\n')) {
    const [, , op, stage, bound, calls] = LINE.exec(line) ?? [];
    if (!op) continue;
    const name = `${op} ${stage ?? 'in all'}`;
    if (!found.has(name)) found.set(name, []);
    found.get(name).push([bound === '+Inf' ? Infinity : Number(bound), Number(calls)]);
  }
  return found;
}

export function note(text) {
  const next = parse(text);
  const before = scrapes.at(-1)?.calls.get('get in all');
  // A member that has restarted counts from 0.
  if (before && (next.get('get in all')?.at(-1)[1] ?? 0) < before.at(-1)[1]) scrapes.length = 0;
  scrapes.push({ at: performance.now(), calls: next });
  if (scrapes.length > KEPT) scrapes.shift();
}

// As the member has it for /v1/status: within a bucket, calls are taken for evenly spread.
function quantile(buckets, share) {
  const rank = share * buckets.at(-1)[1];
  let [from, below] = [0, 0];
  for (const [to, calls] of buckets) {
    if (calls >= rank && calls > below) return to === Infinity ? from : from + ((to - from) * (rank - below)) / (calls - below);
    [from, below] = [to, calls];
  }
  return NaN;
}

const place = (seconds) => Math.max(0, Math.min(1, Math.log10(seconds / FROM) / DECADES)) * 100;

function span(p50, p99) {
  const svg = draw('svg', { class: 'span', 'aria-hidden': 'true', preserveAspectRatio: 'none', viewBox: '0 0 100 16' });
  for (let n = 0; n <= DECADES; n += 1) svg.append(draw('rect', { class: 'decade', x: (n / DECADES) * 99.6, width: 0.4, height: 16 }));
  const [from, to] = [place(p50), place(p99)];
  svg.append(draw('rect', { class: 'fill accent', x: from, y: 5, width: Math.max(to - from, 1), height: 6 }),
    draw('rect', { class: 'fill mark', x: Math.min(from, 99), y: 1, width: 1, height: 14 }));
  return svg;
}

function axis() {
  return make('span', { class: 'axis' }, make('span', {}, '10 µs'), make('span', {}, '10 ms'), make('span', {}, '10 s'));
}

export function showLatency(status, scope) {
  const flow = flowOf(status, scope);
  const late = Object.entries(flow?.missed ?? {}).filter(([why]) => ['slower', 'given_up', 'disk_late', 'unreachable'].includes(why));
  const gone = late.reduce((all, [, pages]) => all + pages, 0);
  show('tiles-latency', tile('Get, p99', duration(flow?.get_p99_seconds ?? null), `p50 ${duration(flow?.get_p50_seconds ?? null)}`),
    tile('Set, p99', duration(flow?.set_p99_seconds ?? null), `p50 ${duration(flow?.set_p50_seconds ?? null)}`),
    tile('Not in time', flow ? percent(flow.looked_up > 0 ? gone / flow.looked_up : 0) : '–', 'of the pages looked up: too slow, given up, unreachable'));
}

export function showStages() {
  const latest = scrapes.at(-1);
  if (!latest) return;
  const first = scrapes.length > 1 ? scrapes[0].calls : new Map();
  const rows = [];
  for (const [name, buckets] of latest.calls) {
    const gained = buckets.map(([bound, calls], n) => [bound, calls - (first.get(name)?.[n][1] ?? 0)]);
    const calls = gained.at(-1)[1];
    if (calls === 0) continue;
    const [p50, p99] = [quantile(gained, 0.5), quantile(gained, 0.99)];
    rows.push([name, span(p50, p99), duration(p50), duration(p99), short(calls)]);
  }
  const since = scrapes.length === 1 ? 'since it started' : `in the last ${lasted((latest.at - scrapes[0].at) / 1000)}`;
  show('stages', table(`Calls of this member's engines, ${since}: from p50 (mark) to p99`, ['stage', axis(), 'p50', 'p99', 'calls'],
    rows.sort((a, b) => order(a[0]) - order(b[0])), { class: 'spans' }));
}

// Gets first, each call before its stages.
function order(name) {
  const [op, stage] = [name.slice(0, name.indexOf(' ')), name.slice(name.indexOf(' ') + 1)];
  return ['get', 'set', 'exists', 'presence'].indexOf(op) * 10 + ['in all', 'lookup', 'read', 'copy', 'share', 'reserve', 'publish'].indexOf(stage);
}
