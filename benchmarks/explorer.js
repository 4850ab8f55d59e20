// How fast the page follows a scrub over 500 steps, by the browser's own performance trace. From
// explorer/, after `npm ci`: `npm run scrub` (or `npm run scrub -- --out ../benchmarks/explorer.json`).
//
// A step is asked for at every frame, as a hand does that goes through 500 steps in 8 seconds. Measured
// of each step is the main thread's own time (what other processes take of the core is not in it), of all
// threads of the browser together, and when its frame came; once with all cores of the machine and once with
// all of the browser on one (`--core 0`). `--unbounded COMMAND` times the first page, too.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { launch, openFile } from '../explorer/browser/browser.js'
import { pageOf } from '../explorer/browser/pages.js'

const GALLERY = resolve(import.meta.dirname, '../docs/gallery')
/** A frame of 60 a second. */
const FRAME_MS = 1000 / 60
const CATEGORIES = [
  'toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline', 'devtools.timeline.frame',
  'disabled-by-default-devtools.timeline.frame', 'blink.user_timing',
]
const PARTS = ['FunctionCall', 'UpdateLayoutTree', 'Layout', 'PrePaint', 'Paint', 'Layerize', 'Commit']

const times = (count, symbol) => Array.from({ length: count }, (_, place) => symbol(place))
/** What is watched, each 500 steps or a few less: a page of docs/gallery and an input. */
const CASES = {
  queue: ['queue_copy', times(249, (place) => `s${(7 * place) % 16}`).join(' ')],
  tape: ['tape_dyck', times(500, (place) => (place % 10 < 5 ? 'u' : 'd')).join('')],
  stacks: ['stacks_anbn', 'a'.repeat(250) + 'b'.repeat(250)],
  keys: ['keys_reverse', times(249, (place) => `s${(5 * place) % 6}`).join(' ')],
}

const { values: options } = parseArgs({
  options: { out: { type: 'string' }, core: { type: 'string', default: '0' }, unbounded: { type: 'string' }, rounds: { type: 'string', default: '3' }, only: { type: 'string' } },
})

/** Go through the steps of the page, one at each frame; when the frames came, in milliseconds. */
const scrub = async () => {
  const range = document.querySelector('.player input[type=range]')
  const steps = Math.min(500, Number(range.max))
  const frames = [await new Promise(requestAnimationFrame)]
  for (let step = 1; step <= steps; step++) {
    performance.mark(`step ${step}`)
    range.value = String(step)
    range.dispatchEvent(new Event('input'))
    frames.push(await new Promise(requestAnimationFrame))
  }
  performance.mark('step end')
  return frames
}

async function traced(page, act) {
  const client = await page.context().newCDPSession(page)
  const events = []
  client.on('Tracing.dataCollected', ({ value }) => events.push(...value))
  const finished = new Promise((done) => client.once('Tracing.tracingComplete', done))
  await client.send('Tracing.start', { categories: CATEGORIES.join(), transferMode: 'ReportEvents' })
  const outcome = await page.evaluate(act)
  await client.send('Tracing.end')
  await finished
  return { events, outcome }
}

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0)
const rounded = (number, digits = 2) => Number(number.toFixed(digits))
const quantile = (numbers, share) => [...numbers].sort((a, b) => a - b)[Math.floor(share * (numbers.length - 1))]
const own = ({ tdur, dur }) => (tdur ?? dur ?? 0) / 1000

function measured({ events, outcome: frames }) {
  const marks = events.filter((event) => /^step \d+$|^step end$/.test(event.name)).sort((a, b) => a.ts - b.ts)
  const [first, last] = [marks[0].ts, marks.at(-1).ts]
  const inside = events.filter((event) => event.ph === 'X' && event.ts >= first && event.ts < last)
  const { pid, tid } = marks[0]
  const main = inside.filter((event) => event.pid === pid && event.tid === tid)
  const tasks = main.filter((event) => event.name === 'RunTask')
  const perStep = marks.slice(1).map((mark, place) => sum(tasks.filter((task) => task.ts >= marks[place].ts && task.ts < mark.ts).map(own)))
  const steps = perStep.length
  const everywhere = inside.filter((event) => ['RunTask', 'ThreadPool_RunTask'].includes(event.name))
  const intervals = frames.slice(1).map((frame, place) => frame - frames[place])
  const late = intervals.map((interval) => Math.max(0, Math.round(interval / FRAME_MS) - 1))
  return {
    steps,
    main_thread_ms_per_step: rounded(sum(perStep) / steps),
    main_thread_ms_95_percent: rounded(quantile(perStep, 0.95)),
    main_thread_ms_longest: rounded(Math.max(...perStep)),
    share_of_steps_below_a_frame: rounded(perStep.filter((each) => each < FRAME_MS).length / steps, 3),
    all_threads_ms_per_step: rounded(sum(everywhere.map(own)) / steps),
    frame_ms_median: rounded(quantile(intervals, 0.5)),
    frame_ms_95_percent: rounded(quantile(intervals, 0.95)),
    frame_ms_longest: rounded(Math.max(...intervals)),
    share_of_frames_on_time: rounded(late.filter((each) => each === 0).length / steps, 3),
    frames_missed: sum(late),
    frames_dropped_by_the_trace: events.filter((event) => event.name === 'DroppedFrame' && event.ts >= first && event.ts < last).length,
    main_thread_parts_ms: Object.fromEntries(PARTS.map((name) => [name, rounded(sum(main.filter((event) => event.name === name).map(own)) / steps)])),
  }
}

const dataOf = (name) => {
  const text = readFileSync(join(GALLERY, `${name}.html`), 'utf8')
  return JSON.parse(/id="unbounded-data">(.*?)<\/script>/s.exec(text)[1]).runs
}

/** One scrub of a case, with all of the browser on one core of the machine or on all of them. */
async function scrubbed(name, core) {
  const [file, input] = CASES[name]
  const browser = await launch(core)
  const hash = `#${new URLSearchParams({ input, step: '0' })}`
  const { page } = await openFile(browser, pageOf(dataOf(file)) + hash, { reducedMotion: 'reduce' })
  const load = rounded(loadavg()[0])
  const outcome = { load_average: load, ...measured(await traced(page, scrub)) }
  const version = browser.version()
  await browser.close()
  return { version, outcome }
}

/** Seconds from `unbounded explore` in an empty folder to a page that has played its second step. */
async function started(command) {
  const folder = mkdtempSync(join(tmpdir(), 'unbounded-'))
  const browser = await launch()
  const begun = performance.now()
  execFileSync(command, ['explore', '--no-open'], { cwd: folder })
  const written = performance.now()
  const { page } = await openFile(browser, pathToFileURL(join(folder, 'unbounded-explore.html')).href)
  await page.getByRole('button', { name: 'Play' }).click()
  await page.waitForFunction(() => document.querySelector('.counter')?.textContent.startsWith('2 /'), undefined, { polling: 10 })
  const playing = performance.now()
  await browser.close()
  return { command_s: rounded((written - begun) / 1000), page_s: rounded((playing - written) / 1000), together_s: rounded((playing - begun) / 1000) }
}

const chosen = options.only ? [options.only] : Object.keys(CASES)
const outcomes = Object.fromEntries(chosen.map((name) => [name, { all_cores: [], one_core: [] }]))
const starts = []
let browser = ''
for (let round = 0; round < Number(options.rounds); round++) {
  for (const name of chosen) {
    for (const [cores, core] of [['all_cores', undefined], ['one_core', options.core]]) {
      const { version, outcome } = await scrubbed(name, core)
      browser = `Chromium ${version}, headless, without a GPU`
      outcomes[name][cores].push(outcome)
      console.log(name, cores, JSON.stringify(outcome))
    }
  }
  if (options.unbounded) starts.push(await started(options.unbounded))
}
console.log(JSON.stringify(starts))

if (options.out) {
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: import.meta.dirname }).toString().trim()
  const machine = { cpu: cpus()[0].model, cores: cpus().length }
  const report = { commit, browser, machine, frame_ms: rounded(FRAME_MS), scrub: outcomes, start: starts }
  writeFileSync(resolve(options.out), `${JSON.stringify(report, null, 1)}\n`)
}
