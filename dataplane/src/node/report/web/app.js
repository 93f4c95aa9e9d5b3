// Asks the member again and again while somebody looks, and shows the answers. All addresses are
// relative, so that the page works behind any prefix of a proxy.

import { lasted, say } from './format.js';
import { showHour, start as startHour } from './hour.js';
import { note, showLatency, showStages } from './latency.js';
import { showEngines, showEvents, showMembers } from './members.js';
import { showNetwork, showReads } from './network.js';
import { showStatus as showVerdict } from './status.js';
import { start as startStrip } from './strip.js';
import { showCapacity, showWorth } from './worth.js';

const PERIOD = 2000; // ms; longer where answers take long
const HISTORY_PERIOD = 10000;
const LONGEST_PERIOD = 15000;

const seen = { status: null, history: null, historyAt: 0, failures: 0, answeredAt: 0 };
let timer = null;
let asking = false;

const scopeOf = () => (seen.status?.fleet ? document.querySelector('input[name=scope]:checked').value : 'node');
const paused = () => document.getElementById('pause').getAttribute('aria-pressed') === 'true';

async function ask(path, form = 'json') {
  const response = await fetch(path, { cache: 'no-store', signal: AbortSignal.timeout(10000) });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response[form]();
}

function setState(grade, text) {
  const state = document.getElementById('state');
  if (state.dataset.grade !== grade) state.dataset.grade = grade;
  say('state', text);
}

function showStatus() {
  const { status } = seen;
  const scope = scopeOf();
  document.getElementById('scope').hidden = !status.fleet;
  document.getElementById('stranger').hidden = status.asker !== 'stranger';
  say('who', `${status.node.id}${status.fleet ? ', a discovery host' : ''}`);
  document.title = `PeerCache ${status.node.id}`;
  const { issues, grade } = showVerdict(status, scope);
  showWorth(status, seen.history, scope);
  showCapacity(status, seen.history, scope);
  showLatency(status, scope);
  showMembers(status);
  showEngines(status);
  showNetwork(status, scope);
  showReads(status);
  showEvents(status);
  say('version', `peercached ${status.node.version}, up ${lasted(status.node.uptime_seconds)}`);
  if (paused()) setState('quiet', 'Paused');
  else setState(grade, issues === 0 ? 'Live: no issues' : `Live: ${issues} ${issues === 1 ? 'issue' : 'issues'}`);
}

// False: the member did not answer.
async function hear(began) {
  try {
    seen.status = await ask('v1/status');
    if (seen.history === null || began - seen.historyAt >= HISTORY_PERIOD) {
      seen.history = await ask('v1/history');
      note(await ask('metrics', 'text'));
      seen.historyAt = began;
    }
    return true;
  } catch {
    return false;
  }
}

async function round() {
  if (asking || document.hidden || paused()) return;
  asking = true;
  const began = performance.now();
  const heard = await hear(began);
  asking = false;
  seen.failures = heard ? 0 : seen.failures + 1;
  schedule(Math.min(LONGEST_PERIOD, Math.max(PERIOD * 2 ** Math.min(seen.failures, 3), (performance.now() - began) * 4)));
  document.body.classList.toggle('stale', !heard);
  if (!heard) {
    const since = seen.answeredAt ? ` for ${lasted((performance.now() - seen.answeredAt) / 1000)}` : '';
    setState('bad', `No answer from the member${since}; these figures are old`);
    return;
  }
  seen.answeredAt = performance.now();
  showStatus();
  if (seen.historyAt !== began) return;
  showHour(seen.history, scopeOf());
  showStages();
}

function schedule(delay) {
  clearTimeout(timer);
  timer = setTimeout(round, delay);
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) schedule(0);
});
document.getElementById('pause').addEventListener('click', (event) => {
  event.target.setAttribute('aria-pressed', String(!paused()));
  if (paused()) setState('quiet', 'Paused');
  else schedule(0);
});
document.getElementById('scope').addEventListener('change', () => {
  if (seen.status) showStatus();
  if (seen.history) showHour(seen.history, scopeOf());
});
startHour();
startStrip(() => showMembers(seen.status));
round();
