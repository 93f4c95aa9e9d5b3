// Part 1, the status: what is wrong, what that costs users, and the one command that comes next.

import { ago, count, make, percent, ratio, say, show, tile, total } from './format.js';

const MOST_NAMED = 4;
const MOST_TROUBLES = 12;
const RECENT_SECONDS = 3600; // a member that failed longer ago is history
const FELL_BACK = 0.05; // of the pages from other members, over TCP although there are rails
const SKIPPED = 0.1; // of the pages found: as the alert PeerCacheSlowerThanCompute

const NO_HARM = 'Nothing is wrong with what engines get.';
const MISSES = 'Only its pages become cache misses: prompts that need them take as long as without a cache. No errors, no wrong answers.';
const COMPUTES = 'Engines on this machine compute everything, as without a cache. No errors, no wrong answers.';

const fellBack = (flow) => flow && flow.delivered.tcp > FELL_BACK * (flow.delivered.tcp + flow.delivered.rdma);
export const drivesOff = ({ health }) => health?.disks_on < health?.disks;
export const railsDown = ({ health }) => health?.rails_up < health?.rails;

// Of the plug-in with its cluster, where the discovery address is the operator's; on bare metal the
// member's own. Strangers see no address.
function command(status, what) {
  const discovery = status.config?.['discovery-addr'];
  const [, name, namespace] = discovery?.match(/^(.+)-discovery\.([^.]+)\.svc:/) ?? [];
  const off = what === 'bypass' ? ' --off' : '';
  if (name) return `kubectl peercache ${what} ${name} -n ${namespace}${off}`;
  return status.config ? 'peercached doctor' : `kubectl peercache ${what} -n NAMESPACE${off}`;
}

// Members whose last word in the events is that they failed.
function failed(status) {
  const here = new Set(status.members.map(({ id }) => id));
  const last = new Map();
  for (const event of status.events ?? []) if (!last.has(event.whom)) last.set(event.whom, event);
  return [...last.values()].filter((e) => e.what === 'lost' && e.seconds_ago < RECENT_SECONDS && !here.has(e.whom));
}

function named(ids) {
  const more = ids.length > MOST_NAMED ? ` and ${ids.length - MOST_NAMED} more` : '';
  return `${ids.slice(0, MOST_NAMED).join(', ')}${more}`;
}

// [grade, what, impact, command], the worst first.
function troubles(status) {
  const found = [];
  const add = (grade, what, impact, next) => found.push([grade, what, impact, command(status, next)]);
  const those = (grade, test, what, impact, next) => {
    const ids = status.members.filter(test).map(({ id }) => id);
    if (ids.length > 0) add(grade, `${ids.length === 1 ? 'One member' : `${count(ids.length)} members`} ${what}: ${named(ids)}`, impact, next);
  };
  const { node } = status;
  const flow = status.fleet?.activity ?? status.activity;
  if (!node.ready) add('bad', `This member is not ready: ${node.reason}`, COMPUTES, 'doctor');
  if (flow?.missed.checksum > 0)
    add('bad', `${count(flow.missed.checksum)} pages with a wrong checksum`, 'They were dropped, as misses. Memory or the network damages bytes.', 'doctor');
  for (const event of failed(status)) add('bad', `${event.whom} failed ${ago(event.seconds_ago).replace('now', 'just now')} and is not back`, MISSES, 'members');
  those('bad', (m) => !m.reachable, 'that most others cannot reach', MISSES, 'doctor');
  those('bad', (m) => m.health?.rails > 0 && fellBack(m.health.activity), 'with rails, reading over TCP',
    'Reads are slower and take processor time.', 'rails');
  if (status.tls.enabled && status.tls.certificate_expires_in_seconds < 3 * 86400)
    add('bad', `The certificate of this member expires ${status.tls.certificate_expires}`, 'After that, members refuse each other, and all reads between them are misses.', 'doctor');
  if (node.bypassed) add('warn', 'This member is bypassed', COMPUTES, 'bypass');
  those('warn', (m) => m.reachable && m.breaker === 'open', 'that this member gets no answer from', MISSES, 'doctor');
  those('warn', railsDown, 'with a rail that is down', 'Reads use the other rails, or TCP, and are slower.', 'rails');
  those('warn', drivesOff, 'with a drive that is off', 'Pages on the drive are misses. Pages in memory are served.', 'disks');
  const skipped = ratio(flow?.missed.slower ?? 0, total(flow?.delivered ?? {}) + (flow?.missed.slower ?? 0));
  if (skipped > SKIPPED)
    add('warn', `${percent(skipped)} of the pages found are not worth bringing`, 'Engines compute them, because the network or a drive is slower than that.', 'top');
  those('warn', (m) => ['threads_elsewhere', 'memory_elsewhere'].includes(m.health?.numa), 'with threads or memory far from the rails',
    'Reads are slower than the rails allow.', 'doctor');
  those('warn', (m) => m.state === 'joining', 'starting', `It holds no pages for others yet. ${NO_HARM}`, 'members');
  those('warn', (m) => m.state === 'draining', 'leaving', `Its most-read pages move to other members. ${NO_HARM}`, 'members');
  if (status.fleet?.warming) add('warn', 'This discovery host has just started', `Members may be missing on this page for some seconds. ${NO_HARM}`, 'members');
  if (status.unserved_tenants > 0)
    add('warn', `${count(status.unserved_tenants)} folders of tenants-dir have no socket`, 'Engines of these tenants cannot attach, and compute everything.', 'doctor');
  return found;
}

function item([grade, what, impact, next]) {
  return make('li', { class: grade }, make('p', { class: 'what' }, what), make('p', { class: 'impact' }, impact), make('code', {}, next));
}

// The list stays as it is while nothing changes, so that a command can be selected and copied.
let listed = '';

function list(found) {
  const now = JSON.stringify(found);
  if (now === listed) return;
  listed = now;
  const items = found.slice(0, MOST_TROUBLES).map(item);
  if (found.length > MOST_TROUBLES) items.push(make('li', {}, `and ${found.length - MOST_TROUBLES} more`));
  show('attention-list', ...items);
}

// Returns the issues: how many, and the grade of the worst.
export function showStatus(status, scope) {
  const found = troubles(status);
  const { fleet, node } = status;
  const grade = found.length === 0 ? 'ok' : found[0][0];
  document.getElementById('verdict').dataset.grade = grade;
  say('headline', found.length === 0 ? 'No issues' : `${found.length} ${found.length === 1 ? 'issue' : 'issues'}`);
  const active = status.members.filter((m) => m.state === 'active' && m.reachable).length;
  say('serving', `${count(active)} of ${count(status.members.length + failed(status).length)} members serve pages.`);
  list(found);
  if (scope === 'node' || !fleet) {
    show('tiles-status', tile('Engines', count(status.engines.length), node.ready ? 'attached to this member' : node.reason),
      tile('Tenants', count(new Set(status.engines.map((e) => e.tenant ?? '')).size), 'of these engines'));
  } else {
    show('tiles-status', tile('Members', `${fleet.states.active} of ${fleet.members}`, 'active'),
      tile('Engines', count(fleet.engines), 'attached to members'),
      tile('Rails', fleet.rails.total > 0 ? `${fleet.rails.up} of ${fleet.rails.total}` : 'none', fleet.rails.total > 0 ? 'up' : 'members read over TCP'));
  }
  return { issues: found.length, grade };
}
