// The page as a reader uses it, in Debian's Chromium, from disk and without a network. Screenshots
// go to explorer/shots/. Skipped where there is no Chromium.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { build } from 'vite'
import { CHROMIUM, launch, openFile } from './browser.js'
import { machines, pageOf, written } from './pages.js'

const skip = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}: apt-get install chromium, or its path in CHROMIUM`
const SHOTS = resolve(import.meta.dirname, '../shots')
const GALLERY = resolve(import.meta.dirname, '../../docs/gallery')
// Before it the page asks for nothing; axe comes into it from here, after all else was looked at.
const AXE = readFileSync(resolve(import.meta.dirname, '../node_modules/axe-core/axe.min.js'), 'utf8')
const DOCS = resolve(import.meta.dirname, '../../docs/explorer')
const SHOWN = new Set([
  'queue_copy_light', 'stack_reversal_dark', 'deque_reversal_narrow', 'stacks_anbn_light', 'list_anbn_dark', 'tape_dyck_light',
  'keys_reverse_narrow', 'two runs side by side', 'a strength is changed by hand and the rest of the run follows', 'training has a tab',
])
const INTRODUCED = 'queue_copy_light'
const REDUCED = { reducedMotion: 'reduce' }

let browser
before(async () => {
  if (skip) return
  mkdirSync(SHOTS, { recursive: true })
  browser = await launch()
})
after(async () => browser?.close())

/** A picture to be looked at; those of SHOWN go to docs/explorer/ where they are asked for. */
async function kept(page, name) {
  const file = `${name.replaceAll(/\W+/g, '_')}.png`
  await page.screenshot({ path: join(SHOTS, file), fullPage: true })
  if (process.env.SHOTS !== 'docs' || !SHOWN.has(name)) return
  // Small, since they lie in the repository; one of them has the introduction.
  if (name !== INTRODUCED) await page.locator('.introduction').evaluate((each) => { each.open = false })
  const { width } = page.viewportSize()
  const client = await page.context().newCDPSession(page)
  const clip = { x: 0, y: 0, width, height: width < 500 ? 1300 : 1080, scale: Math.min(1, 660 / width) }
  const { data } = await client.send('Page.captureScreenshot', { format: 'png', clip, captureBeyondViewport: true })
  writeFileSync(join(DOCS, file), Buffer.from(data, 'base64'))
}

/** What axe finds that would stop somebody. */
async function hindrances(page) {
  await page.evaluate(AXE)
  const { violations } = await page.evaluate(() => globalThis.axe.run())
  const grave = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
  return grave.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(' and ')}`)
}

/** Open a page, do something, and see that nothing was asked for, went wrong or would hinder a reader. */
function inPage(name, act, { runs = byHand, hash = '', options = REDUCED, title } = {}) {
  test(name, { skip }, async () => {
    const { page, context, faults } = await openFile(browser, pageOf(runs(), title) + hash, options)
    await act(page)
    await kept(page, name)
    assert.deepEqual(faults, [])
    assert.deepEqual(await hindrances(page), [])
    await context.close()
  })
}

/** The machines of the package that are set by hand; before them stand the trained ones. */
const byHand = () => machines().slice(3)

const counter = (page) => page.locator('.counter').textContent()
/** Wait for a text: the table of the step follows when steps have come to rest. */
async function until(locator, pattern) {
  for (let wait = 0; wait < 40 && !pattern.test(await locator.textContent()); wait++) await locator.page().waitForTimeout(50)
  assert.match(await locator.textContent(), pattern)
}
/** The verdict on the whole run: the future is shown for it. */
async function verdicts(page) {
  await page.getByLabel('Show the future').check()
  return page.locator('.verdict').allTextContents()
}

inPage('it waits to be played, plays and pauses', async (page) => {
  await page.waitForTimeout(700)
  assert.match(await counter(page), /^1 \//)
  await page.getByRole('button', { name: 'Play' }).click()
  await page.waitForFunction(() => !document.querySelector('.counter').textContent.startsWith('1 /'))
  await page.getByRole('button', { name: 'Pause' }).click()
  const at = await counter(page)
  await page.waitForTimeout(700)
  assert.equal(await counter(page), at)
}, { options: {} })

inPage('with reduced motion it plays', async (page) => {
  await page.getByRole('button', { name: 'Play' }).click()
  await page.waitForFunction(() => document.querySelector('.counter').textContent.startsWith('3 /'))
})

inPage('a typed input is answered', async (page) => {
  await page.getByRole('textbox', { name: 'Input' }).fill('s1 s2 s3')
  await page.getByRole('button', { name: 'Use this input' }).click()
  assert.deepEqual(await verdicts(page), ['All 4 outputs that count are correct.'])
  assert.equal(await counter(page), '1 / 8')
  await page.getByRole('slider', { name: 'step', exact: true }).fill('4')
  await until(page.locator('table.step'), /Step 5 of 8.*predicted.*s1/)
  await page.waitForFunction(() => location.hash.includes('input=s1+s2+s3') && location.hash.includes('step=4'))
})

inPage('an input is drawn at a length', async (page) => {
  await page.getByLabel('Length').fill('12')
  await page.getByRole('button', { name: 'Draw' }).click()
  assert.equal((await page.getByRole('textbox', { name: 'Input' }).inputValue()).split(' ').length, 12)
  assert.deepEqual(await verdicts(page), ['All 13 outputs that count are correct.'])
})

inPage('a moment is linked', async (page) => {
  assert.equal(await counter(page), '6 / 6')
  assert.match((await verdicts(page))[0], /First error at step 5.*run was changed by hand/)
}, { hash: '#input=s1+s2+s3&step=5&edits=1.push.0=0,2.push.0=0' })

inPage('a strength is changed by hand and the rest of the run follows', async (page) => {
  await page.getByRole('textbox', { name: 'Input' }).fill('s1 s2 s3')
  await page.keyboard.press('Enter')
  await page.getByRole('slider', { name: 'step', exact: true }).fill('2')
  await page.getByRole('slider', { name: /push/ }).fill('0')
  assert.match((await verdicts(page))[0], /First error at step 6: predicted s3, target s2/)
  assert.equal(await page.locator('.first.error').count(), 1)
  await page.getByRole('button', { name: 'Undo the changes' }).click()
  assert.deepEqual(await verdicts(page), ['All 4 outputs that count are correct.'])
})

inPage('the first error can be gone to from afar', async (page) => {
  const jump = page.getByRole('button', { name: 'Go to the first error' })
  assert.equal(await jump.count(), 0)
  await page.getByRole('button', { name: 'to the end' }).click()
  await jump.click()
  assert.match(await counter(page), /^6 \//)
  assert.ok(await page.locator('.first.error').isVisible())
  assert.equal(await jump.count(), 0)
}, { hash: '#input=s1+s2+s3&step=2&edits=2.push.0=0' })

inPage('popped items look different from items not pushed', async (page) => {
  const legend = page.locator('.map .scale')
  assert.match(await legend.textContent(), /popped.*not pushed/)
  const shown = await page.locator('.map canvas').evaluate((canvas) => {
    const { width, height } = canvas
    const { data } = canvas.getContext('2d').getImageData(0, 0, width, height)
    const at = (step, row) => [...data.subarray(4 * (row * width + step), 4 * (row * width + step) + 4)]
    // The second row is s1: not pushed at step 1, in the queue at step 2, popped at the end.
    return { before: at(0, 1), there: at(1, 1), after: at(width - 1, 1), never: at(width - 1, height - 1) }
  })
  assert.equal(shown.before[3], 0)
  assert.equal(shown.never[3], 0)
  assert.equal(shown.after[3], 255)
  assert.notDeepEqual(shown.after, shown.there)
}, { hash: '#input=s1+s2' })

inPage('an action is changed by hand', async (page) => {
  await page.getByRole('textbox', { name: 'Input' }).fill('aabbaabb')
  await page.keyboard.press('Enter')
  assert.match((await verdicts(page))[0], /^All 4 outputs/)
  await page.getByRole('slider', { name: 'step', exact: true }).fill('1')
  await page.getByLabel('action').selectOption('POP')
  assert.match((await verdicts(page))[0], /^First error/)
}, { hash: '#run=2' })

inPage('two runs side by side', async (page) => {
  await page.getByLabel('Compare with').selectOption({ label: 'Reversal with a stack, set by hand' })
  await page.getByRole('textbox', { name: 'Input' }).fill('s1 s2')
  await page.keyboard.press('Enter')
  assert.equal(await page.locator('.stage').count(), 2)
  await page.getByRole('slider', { name: 'step', exact: true }).fill('3')
  await until(page.locator('table.step').first(), /predicteds1/)
  await until(page.locator('table.step').last(), /predicteds2/)
})

inPage('two runs open side by side', async (page) => {
  assert.equal(await page.locator('.stage').count(), 2)
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it is too wide')
  await page.getByLabel('Compare with').selectOption('')
  await page.waitForFunction(() => location.hash.includes('input=') && !location.hash.includes('second='))
  await page.reload()
  assert.equal(await page.locator('.stage').count(), 1)
}, { runs: () => byHand().slice(0, 2) })

inPage('the future is hidden until it is played', async (page) => {
  const seen = () => page.locator('.ribbon [data-step] span:visible').evaluateAll((spans) => spans.filter((span) => getComputedStyle(span).visibility === 'visible').map((span) => span.textContent).join(' ').trim())
  // The source is known, the answer is not.
  assert.equal(await page.locator('.ribbon [data-step]:not(.future)').count(), 2)
  assert.match(await page.locator('.ribbon .future:not(.given)').first().getAttribute('title'), /^Not played yet: in the answer/)
  assert.match(await page.locator('.terms').textContent(), /\?an input that is not played yet/)
  assert.match(await seen(), /^<s> \S+ +s1 \S+ +s2 \|\|\|$/)
  assert.match(await page.locator('.verdict').textContent(), /Play on/)
  await page.locator('.map .frame').hover({ position: { x: 600, y: 5 } })
  assert.match(await page.locator('.inspect').textContent(), /^Step \d is not played yet/)
  await page.getByLabel('Show the future').check()
  assert.equal(await page.locator('.ribbon .future').count(), 0)
  await page.waitForFunction(() => location.hash.includes('future=1'))
  await page.getByLabel('Show the future').uncheck()
  await page.getByRole('button', { name: 'to the end' }).click()
  assert.match(await page.locator('.verdict').textContent(), /^All 3 outputs that count are correct/)
}, { hash: '#run=0&input=s1+s2&step=1' })

inPage('the tour stops five times and points at parts of the page', async (page) => {
  await page.getByRole('button', { name: 'Tour in five stops' }).click()
  const parts = []
  for (let stop = 1; stop <= 5; stop++) {
    assert.match(await page.locator('.tour h2').textContent(), new RegExp(`^${stop} of 5`))
    parts.push(await page.locator('.spot').getAttribute('data-part'))
    assert.ok(await page.locator('.spot').isVisible())
    if (stop === 3) assert.deepEqual(await hindrances(page), [])
    await page.keyboard.press('Enter')
  }
  assert.deepEqual(parts, ['ribbon', 'flow', 'memory', 'flow', 'edit'])
  assert.ok(await page.locator('.tour').isHidden())
  assert.equal(await page.locator('.spot').count(), 0)
}, { runs: () => byHand().slice(0, 1) })

inPage('a link opens its moment', async (page) => {
  await page.getByRole('button', { name: 'a step on' }).click()
  const hash = await page.getByText('Link to this step').getAttribute('href')
  assert.match(hash, /input=s0\+s1\+s2\+s3/)
  const other = await page.context().newPage()
  await other.goto(page.url().split('#')[0] + hash)
  assert.equal(await counter(other), '2 / 10')
  await page.getByText('Link to this step').click()
  await until(page.locator('.options [role=status]'), /^(Link copied|Copy the link)/)
})

inPage('touch targets have 44 pixels', async (page) => {
  const small = await page.locator('button:visible, select:visible, input:visible, summary:visible, .ribbon [data-step], a.button, .rows li').evaluateAll((all) => all
    .map((each) => ({ box: (each.type === 'checkbox' ? each.closest('label') : each).getBoundingClientRect(), html: each.outerHTML.slice(0, 60) }))
    .filter(({ box }) => box.height < 43.5 || box.width < 43.5).map(({ html }) => html))
  assert.deepEqual(small, [])
}, { options: { ...REDUCED, viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }, hash: '#step=3' })

inPage('by keyboard alone', async (page) => {
  await page.getByRole('textbox', { name: 'Input' }).focus()
  await page.keyboard.type('')
  await page.keyboard.press('Tab')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('ArrowRight')
  assert.match(await counter(page), /^3 \//)
  await page.keyboard.press('ArrowLeft')
  assert.match(await counter(page), /^2 \//)
  await page.keyboard.press('End')
  assert.match(await counter(page), /^(\d+) \/ \1$/)
  await page.keyboard.press('Home')
  assert.match(await counter(page), /^1 \//)
  await page.keyboard.press('ArrowRight')
  // Every control and every item can be reached, and an item says what it is.
  for (let tab = 0; tab < 40; tab++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(() => document.activeElement.matches('.rows li'))) break
  }
  assert.match(await page.locator('.inspect').textContent(), /s\d, pushed at step 2, strength 1, read with weight 1/)
  await page.evaluate(() => document.activeElement.blur())
  await page.keyboard.press(' ')
  assert.equal(await page.locator('.play').textContent(), 'Pause')
})

inPage('a cell shows its value, its symbol and its step', async (page) => {
  await page.getByRole('textbox', { name: 'Input' }).fill('s5 s2')
  await page.keyboard.press('Enter')
  await page.getByRole('slider', { name: 'step', exact: true }).fill('2')
  await page.locator('.rows li').nth(1).hover()
  assert.match(await page.locator('.inspect').textContent(), /^s2, pushed at step 3, strength 1/)
  const map = page.locator('.map .frame')
  await map.hover({ position: { x: 3, y: 3 } })
  assert.match(await page.locator('.inspect').textContent(), /^After step 1: <s>/)
})

const BAD = {
  '': /Type at least one symbol, such as s0 s1 s2/,
  's1 nothing s2': /Symbol 2, “nothing”, is unknown here. Symbols: s0 s1/,
  [Array.from({ length: 501 }, () => 's1').join(' ')]: /Type at most 500 symbols; these are 501/,
}
for (const [text, message] of Object.entries(BAD)) {
  inPage(`bad input ${text.slice(0, 12)}`, async (page) => {
    await page.getByRole('textbox', { name: 'Input' }).fill(text)
    await page.getByRole('button', { name: 'Use this input' }).click()
    assert.match(await page.getByRole('alert').textContent(), message)
    assert.match((await verdicts(page))[0], /correct/)
    await page.getByRole('textbox', { name: 'Input' }).fill('s1')
    await page.keyboard.press('Enter')
    assert.equal(await page.getByRole('alert').count(), 0)
  })
}

inPage('texts of a run are shown as text', async (page) => {
  assert.equal(await page.evaluate(() => globalThis.attacked), undefined)
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.match(await page.locator('.ribbon').textContent(), /<script>attacked=1<\/script>/)
}, {
  title: '<img src=x onerror="attacked=1">',
  runs: () => {
    const runs = byHand()
    const names = runs[0].task
    for (const list of [names.inputs, names.outputs]) list[list.indexOf('s3')] = '<script>attacked=1</script>'
    runs[0].title = '"><script>attacked=1</script>'
    return runs
  },
})

inPage('on a narrow screen', async (page) => {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  assert.ok(wide <= 0, `it is ${wide} pixels too wide`)
}, { options: { ...REDUCED, viewport: { width: 360, height: 740 } }, hash: '#second=1&step=8' })

inPage('in the dark', async (page) => {
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  assert.equal(ground, 'rgb(20, 22, 27)')
}, { options: { ...REDUCED, colorScheme: 'dark' }, hash: '#run=1&step=9' })

// Every memory in its view, in the midst of a sample, as it is seen in light, in the dark and on a phone.
const LOOKS = {
  light: (page) => page.emulateMedia({ colorScheme: 'light' }),
  dark: (page) => page.emulateMedia({ colorScheme: 'dark' }),
  narrow: (page) => page.setViewportSize({ width: 360, height: 740 }),
}
for (const file of readdirSync(GALLERY).filter((name) => name.endsWith('.html'))) {
  test(`${file} in every look`, { skip }, async () => {
    const { page, context, faults } = await openFile(browser, `${pathToFileURL(join(GALLERY, file)).href}#step=4`, REDUCED)
    await until(page.locator('.counter'), /^5 \//)
    for (const [look, as] of Object.entries(LOOKS)) {
      await as(page)
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
      assert.ok(wide <= 0, `${look}: it is ${wide} pixels too wide`)
      assert.deepEqual(await hindrances(page), [], look)
      await kept(page, `${file.replace('.html', '')}_${look}`)
    }
    await page.getByRole('button', { name: 'Training' }).click()
    assert.deepEqual(await hindrances(page), [], 'curves')
    assert.deepEqual(faults, [])
    await context.close()
  })
}

test('what hinders a reader is found', { skip }, async () => {
  const { page, context } = await openFile(browser, pageOf(byHand()), REDUCED)
  await page.evaluate(() => document.querySelector('.player input').removeAttribute('aria-label'))
  await page.evaluate(() => { document.querySelector('.verdict').style.color = '#aaa' })
  assert.match((await hindrances(page)).join(), /^color-contrast: .*label: <input type="range"/)
  await context.close()
})

inPage('the trained machines work', async (page) => {
  for (const [place, input] of [['0', 's0 s3 s2 s1 s1'], ['1', 's2 s2 s0 s1'], ['2', 'aaaaabbbbbaabb']]) {
    await page.locator('.runs select').first().selectOption(place)
    await page.getByRole('textbox', { name: 'Input' }).fill(input)
    await page.keyboard.press('Enter')
    assert.match((await verdicts(page))[0], /^All \d+ outputs that count are correct\.$/)
    assert.match(await page.locator('.stage').textContent(), /Trained on lengths/)
  }
  await page.locator('.runs select').first().selectOption('4')
  assert.match(await page.locator('.stage').textContent(), /Not trained: its weights are set by hand/)
}, { runs: machines })

inPage('without a target the page gives the reason', async (page) => {
  assert.equal((await verdicts(page))[0], 'There is no target for this input: this task has sources with an even number of symbols.')
  await page.getByRole('textbox', { name: 'Input' }).fill('s1 s2')
  await page.keyboard.press('Enter')
  assert.match((await verdicts(page))[0], /First error|are correct/)
}, {
  hash: '#input=s1+s2+s3',
  runs: () => {
    const [run] = byHand()
    run.task.rule = { kind: 'order', name: 'bigram_flip' }
    return [run]
  },
})

inPage('training has a tab', async (page) => {
  await page.getByRole('button', { name: 'Training' }).click()
  assert.match(await page.locator('.training figcaption').textContent(), /loss/)
  assert.ok(await page.locator('.player').isHidden())
}, {
  runs: () => {
    const runs = byHand()
    runs[0].curves = [{ name: 'loss', unit: 'share', batches: [1, 100, 200], values: [0.1, 0.8, 1] }]
    return runs
  },
})

inPage('the memory over the course of training', async (page) => {
  await page.getByRole('button', { name: 'Training' }).click()
  const captions = page.locator('.moment > figcaption')
  assert.deepEqual(await captions.allTextContents(), [
    'After 10 batches: First error at step 4: predicted s2, target s1.', 'After 20 batches: All 3 outputs that count are correct.',
  ])
  assert.equal(await page.locator('.moment .map').count(), 2)
  assert.ok(await page.locator('.moment .rows').first().isHidden())
  // It is of the input that is watched.
  await page.getByRole('button', { name: 'Watch' }).click()
  await page.getByRole('textbox', { name: 'Input' }).fill('s3')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Training' }).click()
  assert.match((await captions.allTextContents())[0], /^After 10 batches: All 2 outputs/)
}, {
  hash: '#input=s1+s2',
  runs: () => {
    const [queue, stack] = byHand()
    return [{ ...stack, task: queue.task, after_batches: 10 }, { ...queue, after_batches: 20 }]
  },
})

const baselines = () => Object.values(JSON.parse(readFileSync(resolve(import.meta.dirname, '../tests/vectors/baselines.json'), 'utf8')))
for (const [place, canvases] of [[0, 5], [2, 5]]) {
  inPage(`a ${['DeltaNet', '', 'Transformer'][place]} shows what each head holds`, async (page) => {
    await page.getByRole('button', { name: 'to the end' }).click()
    await until(page.locator('table.step'), /layer 2 head 2/)
    assert.equal(await page.locator('.memory canvas').count(), canvases)
    await page.locator('.cells-map canvas').first().hover()
    await until(page.locator('.inspect'), /layer 1 head [12].*: -?\d|layer \d head \d at step/)
    await page.getByRole('button', { name: 'Tour in five stops' }).click()
    for (let stop = 0; stop < 5; stop++) await page.locator('.tour .next').click()
    assert.ok(await page.locator('.tour').isHidden())
  }, { runs: () => [baselines()[place]] })
}

const traced = () => JSON.parse(readFileSync(resolve(import.meta.dirname, '../tests/vectors/traces.json'), 'utf8'))
inPage('where there are only traces they are replayed', async (page) => {
  await page.getByRole('slider', { name: 'step', exact: true }).fill('7')
  await until(page.locator('table.step'), /Step 8 of 60.*predicted/)
  assert.ok(await page.locator('.edit').isHidden())
  await page.getByLabel('Sample').selectOption('1')
  await until(page.locator('.counter'), /^1 \/ 60/)
}, { runs: () => [traced()] })

inPage('a trace of another version has a message', async (page) => {
  assert.match(await page.getByRole('alert').textContent(), /Expected a trace of version 3, got unbounded-trace version 1\. Export the page again/)
}, {
  runs: () => {
    const run = traced()
    for (const trace of run.traces) trace.version = 1
    return [run]
  },
})

// What the command writes, where there is one: `pip install -e .` puts it on the PATH.
const UNBOUNDED = process.env.UNBOUNDED ?? 'unbounded'
const noCommand = spawnSync(UNBOUNDED, ['--version']).status === 0 ? false : `there is no command ${UNBOUNDED}; its path in UNBOUNDED`
test('from an empty folder to a machine that plays', { skip: skip || noCommand }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'unbounded-'))
  execFileSync(UNBOUNDED, ['explore', '--no-open', '--export', 'sent.html'], { cwd: folder })
  const { page, context, faults } = await openFile(browser, pathToFileURL(join(folder, 'sent.html')).href)
  await page.getByRole('button', { name: 'Play' }).click()
  await page.waitForFunction(() => document.querySelector('.counter').textContent.startsWith('3 /'))
  await page.getByRole('button', { name: 'Pause' }).click()
  assert.match((await verdicts(page))[0], /correct/)
  assert.deepEqual(faults, [])
  await context.close()
})

const DAMAGED = {
  'no JSON': ['{', /data in this page is damaged.*Export it again/],
  'another version': ['{"format": "unbounded-page", "version": 7, "runs": []}', /version 1, got unbounded-page version 7/],
  'no run': ['{"format": "unbounded-page", "version": 1, "runs": []}', /There is no run in this page/],
}
for (const [name, [text, message]] of Object.entries(DAMAGED)) {
  test(`a page with ${name}`, { skip }, async () => {
    const { page, context } = await openFile(browser, written(text))
    assert.match(await page.getByRole('alert').textContent(), message)
    await context.close()
  })
}

test('the policy of the page forbids every request', { skip }, async () => {
  const { page, context, faults } = await openFile(browser, pageOf(byHand()), REDUCED)
  const failed = await page.evaluate(() => fetch('https://example.org').then(() => false, () => true))
  assert.ok(failed)
  assert.match(faults.join(), /Content Security Policy/)
  assert.ok(!faults.join().includes('request:'), 'the policy stops it before it is made')
  await context.close()
})

test('the numbers of Python are those of the browser', { skip }, async () => {
  const outcome = await build({
    configFile: false,
    logLevel: 'silent',
    build: {
      write: false,
      lib: { entry: resolve(import.meta.dirname, '../tests/compare.ts'), formats: ['iife'], name: 'compare' },
    },
  })
  const script = (Array.isArray(outcome) ? outcome[0] : outcome).output[0].code
  const page = await browser.newPage()
  await page.addScriptTag({ content: script })
  for (const [file, check] of [['memories', 'memoryDifference'], ['models', 'modelDifference']]) {
    const cases = JSON.parse(readFileSync(resolve(import.meta.dirname, `../tests/vectors/${file}.json`), 'utf8'))
    for (const data of cases) {
      const apart = await page.evaluate(([name, each]) => compare[name](each), [check, data])
      assert.ok(apart < 1e-5, `${data.name}: ${apart}`)
    }
  }
  for (const data of JSON.parse(readFileSync(resolve(import.meta.dirname, '../tests/vectors/tasks.json'), 'utf8'))) {
    assert.deepEqual(await page.evaluate((each) => compare.taskDifferences(each), data), [], data.name)
  }
  await page.close()
})

test('in a notebook the page runs in its iframe, and takes the picture away', { skip }, async () => {
  const shown = pageOf(byHand())
  const html = readFileSync(new URL(shown), 'utf8').replaceAll('&', '&amp;').replaceAll('"', '&quot;')
  const page = await browser.newPage({ reducedMotion: 'reduce' })
  const faults = []
  page.on('pageerror', (error) => faults.push(error.message))
  // As explorer/notebook.py lays it out.
  await page.setContent(
    `<div><iframe srcdoc="${html}" sandbox="allow-scripts" width="100%" height="860"></iframe>` +
      '<img alt="at work" src="data:,"><script>document.currentScript.previousElementSibling.remove()</script></div>',
  )
  const frame = page.frameLocator('iframe')
  await frame.getByLabel('Show the future').check()
  assert.match(await frame.locator('.verdict').textContent(), /are correct/)
  assert.ok(await frame.getByText('Link to this step').isHidden())
  await frame.getByRole('button', { name: 'to the start' }).click()
  await frame.getByRole('button', { name: 'a step on' }).click()
  assert.match(await frame.locator('.counter').textContent(), /^2 \//)
  assert.equal(await page.locator('img').count(), 0)
  await page.waitForTimeout(500)
  assert.deepEqual(faults, [])
  await page.close()
})
