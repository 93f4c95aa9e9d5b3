// Parts 2 and 3: what the cache saves, and what it holds.

import { bar, bytes, count, duration, lasted, percent, rate, ratio, say, short, show, sum, table, tile, total } from './format.js';

const MOST_LIFETIME = 30 * 86400; // s; beyond, an estimate from an hour says nothing

// The flow of the last ten seconds, and the columns of the hour, of the cluster or of this member.
export const flowOf = (status, scope) => (scope === 'fleet' ? status.fleet.activity : status.activity) ?? null;
export const pastOf = (history, scope) => history?.[scope] ?? history?.node ?? null;
const spanOf = (past) => past?.sum?.seconds ?? 0;

// What members tell of tokens: heartbeats carry pages, so this member's tokens a page, since it
// started, stand for those of all; and so does the rate that its engines compute at.
function ratesOf(status) {
  const delivered = Object.values(status.lookups.delivered);
  const tokens = sum(delivered.map((one) => one.tokens));
  const rates = status.engines.map((e) => e.prefill_tokens_per_second).filter((n) => n > 0);
  return { perPage: tokens > 0 ? tokens / sum(delivered.map((one) => one.pages)) : NaN,
    prefill: rates.length > 0 ? sum(rates) / rates.length : NaN };
}

const rough = (n) => Number(n.toPrecision(2)).toLocaleString('en');

function timeOf(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  return seconds < 5400 ? lasted(seconds) : `${rough(seconds / 3600)} h`;
}

// What the page has where a figure is missing.
function missing({ perPage, prefill }) {
  if (Number.isNaN(perPage)) return 'no engine of this member has got tokens yet';
  return Number.isNaN(prefill) ? 'no engine has reported its rate yet' : null;
}

function getTile(flow, rates, why) {
  const tokens = (total(flow.delivered) / flow.gets) * rates.perPage;
  const computing = tokens / rates.prefill;
  const times = computing / flow.get_p50_seconds;
  const compared = why ?? (flow.gets > 0 && times > 0
    ? `computing its ${count(Math.round(tokens))} tokens: about ${duration(computing)}, ${times >= 1 ? `${short(times)} times as long` : 'which is faster'}` : 'no get just now');
  return tile('Added by a get, p50', duration(flow.get_p50_seconds), compared);
}

export function showWorth(status, history, scope) {
  const flow = flowOf(status, scope);
  const past = pastOf(history, scope);
  if (!flow) {
    show('tiles-worth', tile('Starting', '…', 'the first seconds'));
    return;
  }
  const rates = ratesOf(status);
  const why = missing(rates);
  const speed = (total(flow.delivered) * rates.perPage) / flow.seconds;
  const saved = (total(past?.sum?.delivered ?? {}) * rates.perPage) / rates.prefill;
  const hits = ratio(total(flow.delivered), flow.looked_up);
  show('tiles-worth',
    tile('Tokens from cache', Number.isFinite(speed) ? `${short(speed)}/s` : '–', Number.isNaN(rates.perPage) ? why : `${short(flow.looked_up / flow.seconds)} pages/s looked up`),
    tile('Hit ratio', percent(hits), 'of the prompt tokens that engines looked up'),
    tile('Prefill time saved', timeOf(saved), why ?? `of GPUs, in ${lasted(spanOf(past))}`),
    tile('Worth about', Number.isFinite(speed / rates.prefill) ? `${rough(speed / rates.prefill)} GPUs` : '–',
      why ?? `that would compute ${short(rates.prefill)} tokens/s each`),
    getTile(flow, rates, why));
  const others = scope === 'fleet' ? ', taken for all members,' : '';
  const ratesText = Number.isNaN(rates.prefill) ? 'The prefill rate comes from engines, or from prefill_tokens_per_second of their configuration.'
    : `Engines of this member compute ${short(rates.prefill)} tokens/s on average${others} with one GPU for each rank.`;
  say('assumption', Number.isNaN(rates.perPage) ? ratesText
    : `Assumed: a page has ${count(rates.perPage)} tokens, as this member's pages have on average${others.replace(/,$/, '')}. ${ratesText}`);
}

// How long a page stays: pages in the pools, by those evicted in a second.
function lifetimeTile(status, past, used) {
  const { pool } = status;
  const span = spanOf(past);
  if (span === 0 || used === 0) return tile('A page stays', '–', 'no page yet, or none evicted');
  if (past.sum.evicted_per_second === 0) return tile('A page stays', `> ${lasted(span)}`, 'no page was evicted in that time');
  const size = pool.pages > 0 ? pool.used_bytes / pool.pages : (past.sum.read_bytes_per_second * span) / total(past.sum.delivered);
  const stays = used / size / past.sum.evicted_per_second;
  return tile('A page stays', stays > MOST_LIFETIME ? '> 30 days' : `about ${lasted(stays)}`,
    `${short(past.sum.evicted_per_second)} pages/s evicted, mean of ${lasted(span)}`);
}

function drivesOf(status, scope) {
  if (scope === 'fleet') return status.fleet.disks;
  const { disk } = status;
  if (!disk) return { total: 0 };
  return { ...disk, total: disk.devices.length, on: disk.devices.filter((d) => d.on).length };
}

function driveTiles(drives) {
  if (!(drives.total > 0)) return [tile('Drives', 'none', 'memory only')];
  const tiles = [tile('Drives', `${drives.on} of ${drives.total} on`, `${bytes(drives.used_bytes)} of ${bytes(drives.capacity_bytes)} used`)];
  if (drives.budget_bytes_a_day > 0) {
    tiles.push(tile('Write budget left', percent(ratio(drives.budget_left_bytes, drives.budget_bytes_a_day)),
      `${bytes(drives.budget_left_bytes)} of ${bytes(drives.budget_bytes_a_day)} a day`));
  }
  return tiles;
}

function poolTable(status, scope) {
  const { pool, fleet } = status;
  const whole = scope === 'fleet' ? fleet.pool.capacity_bytes : pool.capacity_bytes;
  const part = (name, size, colour) => [name, bar(ratio(size, whole), colour), bytes(size), percent(ratio(size, whole))];
  const heads = ['what', '', 'bytes', 'share'];
  if (scope === 'fleet') {
    const { used_bytes: used } = fleet.pool;
    return table('Pools of all members', heads, [part('used', used), part('free', whole - used, 'quiet')], { class: 'bars' });
  }
  return table(`Pool of this member: ${count(pool.pages)} pages`, heads, [
    part('used', pool.used_bytes), part('of that, replicas', pool.replica_bytes),
    part('resting before reuse', pool.quarantined_bytes, 'quiet'), part('free', pool.free_bytes, 'quiet')], { class: 'bars' });
}

export function showCapacity(status, history, scope) {
  const { used_bytes: used, capacity_bytes: whole } = (scope === 'fleet' ? status.fleet : status).pool;
  const flow = flowOf(status, scope);
  say('memory-of', scope === 'fleet' ? `of all pools: ${bytes(whole)}` : `of this member's pool: ${bytes(whole)}`);
  show('tiles-capacity', tile('Memory', percent(ratio(used, whole)), `${bytes(used)} of ${bytes(whole)}`),
    lifetimeTile(status, pastOf(history, scope), used),
    tile('Written by engines', rate(flow?.written_bytes_per_second), `${short(flow?.evicted_per_second)} pages/s evicted now`),
    ...driveTiles(drivesOf(status, scope)));
  const groups = scope === 'fleet' ? status.fleet.groups : [];
  show('memory', poolTable(status, scope), ...(groups.length < 2 ? [] : [table('Groups', ['group', 'members', 'rails up'], groups.map((g) =>
    [g.name, count(g.members), g.rails > 0 ? `${g.rails_up} of ${g.rails}` : 'none']))]));
}
