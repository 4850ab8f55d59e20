// The tape: where its heads are over time, what its cells hold, and the path of a Dyck word.

import { heightsOf } from '../../machine/rules/index.ts'
import { shade } from '../colours.ts'
import { el, resized, short, svg, write } from '../dom.ts'
import { StepMap, heightOf, rowLabels } from './map.ts'
import type { View, ViewMaker } from './view.ts'

/** Slots that no head was ever at with more weight are not drawn at the ends of the tape. */
const SEEN = 0.02
/** A head is at a slot, for the list, from this weight on. */
const THERE = 0.05

export const tapeView: ViewMaker = (session, inspect, seek): View => {
  const memory = session.run.model.memory!
  const width = Number(memory.options.width)
  const slots = Number(memory.options.slots)
  const names = Object.keys(session.model.memory!.weights(session.model.begin().memory!))
  const maps = names.map(() => new StepMap(session, inspect, seek))
  const path = el('div', { class: 'path' })
  const canvas = el('canvas', { role: 'img', 'aria-label': 'what each slot holds' })
  const context = canvas.getContext('2d')
  const list = el('ol', { class: 'rows heads', 'aria-label': 'slots where a head is' })
  const caption = el('figcaption')
  const labels = el('div', { class: 'labels' })
  const element = el(
    'div', { class: 'memory' },
    el('div', { class: 'column' }, list, el('figure', { class: 'cells-map' }, caption, el('div', { class: 'axes' }, labels, canvas))),
    el('div', {}, path, ...maps.map((map) => map.element)),
  )
  let [first, last] = [0, slots - 1]
  let most = 1
  const mark = el('div', { class: 'cursor' })
  let image: ImageData | null = null
  const items: { element: HTMLElement; symbol: HTMLElement; heads: HTMLElement; textOf: string }[] = []

  canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect()
    const slot = first + Math.floor(((event.clientY - box.top) / box.height) * (last - first + 1))
    const k = Math.floor(((event.clientX - box.left) / box.width) * width)
    const state = session.steps[current]?.state.memory
    if (!state || slot > last || k >= width) return
    inspect(`Slot ${slot}, number ${k + 1}: ${short(state.fields.cells[slot * width + k])}; ${writtenText(slot, current)}`)
  })

  const writtenText = (slot: number, step: number): string => {
    const origin = session.steps[step].state.memory!.origins[slot]
    return origin < 0 ? 'hardly written so far' : `written at step ${origin + 1} (input ${session.symbolAt(origin)})`
  }

  const itemAt = (place: number): (typeof items)[number] => {
    if (!items[place]) {
      const parts = { symbol: el('span', { class: 'symbol' }), heads: el('span') }
      const tell = (): void => {
        item.element.setAttribute('aria-label', item.textOf)
        inspect(item.textOf)
      }
      const item = { element: el('li', { tabindex: 0, pointerenter: tell, focus: tell }, parts.symbol, parts.heads), ...parts, textOf: '' }
      items[place] = item
    }
    return items[place]
  }

  let current = 0
  const show = (step: number): void => {
    current = step
    const state = session.steps[step]?.state.memory
    if (!state) return
    for (const map of maps) map.show(step)
    mark.style.transform = `translateX(${100 * step}%)`
    if (context && image) {
      for (let i = 0; i < image.width * image.height; i++) {
        const value = state.fields.cells[first * width + i]
        image.data.set(shade(Math.abs(value) / most, value < 0 ? 'orange' : 'blue'), 4 * i)
      }
      context.putImageData(image, 0, 0)
    }
    const weights = session.model.memory!.weights(state)
    let shown = 0
    for (let slot = 0; slot < slots; slot++) {
      const there = names.filter((name) => weights[name][slot] >= THERE)
      if (there.length === 0) continue
      const item = itemAt(shown++)
      item.textOf = `Slot ${slot}: ${there.map((name) => `${name} ${short(weights[name][slot])}`).join(', ')}; ${writtenText(slot, step)}`
      const origin = state.origins[slot]
      write(item.symbol, `${slot}: ${origin < 0 ? '' : session.symbolAt(origin)}`)
      write(item.heads, there.map((name) => `${name.startsWith('read') ? '◀' : '✎'} ${name} ${short(weights[name][slot])}`).join('  '))
    }
    resized(list, items.slice(0, shown).map((item) => item.element))
  }

  const changed = (): void => {
    const { steps, task } = session
    const all = steps.map((step) => session.model.memory!.weights(step.state.memory!))
    const seen = (slot: number): boolean => all.some((weights) => names.some((name) => weights[name][slot] > SEEN))
    const used = Array.from({ length: slots }, (_, slot) => slot).filter(seen)
    first = used[0] ?? 0
    last = used.at(-1) ?? slots - 1
    most = Math.max(1e-6, ...steps.map((step) => step.state.memory!.fields.cells.reduce((top, each) => Math.max(top, Math.abs(each)), 0)))
    canvas.width = width
    canvas.height = last - first + 1
    image = context?.createImageData(width, canvas.height) ?? null
    caption.textContent = `Slots ${first} to ${last}, ${width} numbers each: blue above 0, orange below`
    const height = heightOf(last - first + 1)
    canvas.style.height = `${height}px`
    labels.replaceChildren(...rowLabels(last - first + 1, height, (row) => `slot ${first + row}`))
    names.forEach((name, place) => {
      maps[place].draw({
        title: `Weight of the ${name} at each slot over time`,
        steps: steps.length,
        rows: last - first + 1,
        hue: name.startsWith('read') ? 'blue' : 'orange',
        legend: ['weight 0', '1', ''],
        label: (row) => `slot ${first + row}`,
        value: (step, row) => all[step][name][first + row],
        textOf: (step, row) => `After step ${step + 1}: ${name} at slot ${first + row} with weight ${short(all[step][name][first + row])}`,
      })
    })
    const heights = heightsOf(task, steps.map((step) => step.token))
    path.replaceChildren()
    if (heights) {
      const [low, high] = [Math.min(0, ...heights), Math.max(1, ...heights)]
      const y = (height: number): number => 2 + (36 * (high - height)) / (high - low)
      const points = [`0,${y(0)}`, ...heights.map((height, step) => `${step + 1},${y(height)}`)].join(' ')
      mark.style.width = `${100 / steps.length}%`
      path.append(
        el('figcaption', {}, `Height of the path, at most ${high}`),
        el('div', { class: 'frame' }, svg(
          'svg', { viewBox: `0 0 ${steps.length} 40`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `path of heights ${heights.join(' ')}` },
          svg('path', { class: 'axis', d: `M0 ${y(0)}H${steps.length}` }), svg('polyline', { class: 'curve', points }),
        ), mark),
      )
    }
  }
  const words = (step: number): [string, string][] => {
    const weights = session.model.memory!.weights(session.steps[step].state.memory!)
    return names.map((name) => {
      const places = [...weights[name]].map((weight, slot) => ({ weight, slot })).filter(({ weight }) => weight >= THERE)
      return [`${name} at`, places.map(({ weight, slot }) => `slot ${slot} (${short(weight)})`).join(', ') || 'no slot in particular']
    })
  }
  changed()
  return { element, show, changed, words }
}
