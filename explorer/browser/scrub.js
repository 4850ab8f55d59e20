// How fast a page follows a scrub over 500 steps: `npm run scrub -- PAGE.html INPUT`. The numbers are
// the browser's own, of its performance trace: the main thread's time for each step that is shown.

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { launch, openFile } from './browser.js'

const [file, input] = process.argv.slice(2)
const url = `${pathToFileURL(resolve(file)).href}#${new URLSearchParams({ input, step: '0' })}`
const browser = await launch()
const { page } = await openFile(browser, url, { reducedMotion: 'reduce' })
const client = await page.context().newCDPSession(page)
const events = []
client.on('Tracing.dataCollected', ({ value }) => events.push(...value))
const finished = new Promise((done) => client.once('Tracing.tracingComplete', done))
await client.send('Tracing.start', { categories: 'devtools.timeline,disabled-by-default-devtools.timeline,toplevel', transferMode: 'ReportEvents' })
const { frames, steps } = await page.evaluate(async () => {
  const range = document.querySelector('.player input[type=range]')
  const steps = Math.min(500, Number(range.max))
  const frames = []
  let last = performance.now()
  for (let step = 1; step <= steps; step++) {
    range.value = String(step)
    range.dispatchEvent(new Event('input'))
    await new Promise(requestAnimationFrame)
    const now = performance.now()
    frames.push(now - last)
    last = now
  }
  return { frames, steps }
})
await client.send('Tracing.end')
await finished
await browser.close()
const main = events.filter((event) => event.name === 'CrRendererMain' || event.args?.name === 'CrRendererMain').map((event) => event.tid)
// tdur is the thread's own time: what other processes take of the core is not in it.
const own = (name) =>
  events.filter((event) => event.name === name && main.includes(event.tid)).reduce((sum, { tdur, dur }) => sum + (tdur ?? dur ?? 0) / 1000, 0)
const parts = ['FunctionCall', 'UpdateLayoutTree', 'Layout', 'PrePaint', 'Paint', 'Layerize', 'Commit']
const sorted = [...frames].sort((a, b) => a - b)
const at = (share) => sorted[Math.floor(share * (sorted.length - 1))].toFixed(1)
console.log(`${steps} steps; frames: median ${at(0.5)} ms, 95 % below ${at(0.95)} ms, longest ${at(1)} ms`)
console.log(`main thread: ${(own('RunTask') / steps).toFixed(2)} ms a step (60 frames a second have 16.67 ms); of these`)
for (const name of parts) console.log(`  ${name.padEnd(16)} ${(own(name) / steps).toFixed(2)}`)
