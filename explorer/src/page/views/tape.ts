// The tape: where its heads are over time, what its cells hold, and the path of a Dyck word.

import { heightsOf } from '../../machine/rules/index.ts'
import type { MemoryState } from '../../machine/memories/memory.ts'
import type { Session } from '../session.ts'
import { el, short, svg } from '../dom.ts'
import { Lines } from './lines.ts'
import { StepMap } from './map.ts'
import { NumberMap } from './numbers.ts'
import type { View, ViewMaker } from './view.ts'

/** Slots that no head was ever at with more weight are not drawn at the ends of the tape. */
const SEEN = 0.02
/** A head is at a slot, for the list, from this weight on. */
const THERE = 0.05
/** The same for an attention, which often reads a little of every step. */
const ATTENDS = 0.2

/** The name of a slot; to an attention, each step of the input is one. */
export function slotName(session: Session, slot: number): string {
  return session.run.model.memory!.kind === 'attention_weights' ? `step ${slot + 1}` : `slot ${slot}`
}

/** The name of a head without its kind, which is the same of all heads of an attention. */
export const headName = (name: string): string => name.replace('read head, ', '')

/** The numbers in the slots; of an attention, the weights of the heads. */
const cellsOf = (state: MemoryState): Float64Array => state.shown?.cells ?? state.fields.cells

export const tapeView: ViewMaker = (session, inspect, seek): View => {
  const begun = session.model.begin().memory!
  const heads = session.model.memory!.weights(begun)
  const names = Object.keys(heads)
  const slots = heads[names[0]].length
  const width = cellsOf(begun).length / slots
  const isAttention = session.run.model.memory!.kind === 'attention_weights'
  const there = isAttention ? ATTENDS : THERE
  const nameOf = (slot: number): string => slotName(session, slot)
  const maps = names.map(() => new StepMap(session, inspect, seek))
  const path = el('div', { class: 'path' })
  const cells = new NumberMap(inspect, 'what each slot holds', (row, k) => {
    const slot = first + row
    const value = short(cellsOf(session.steps[current].state.memory!)[slot * width + k])
    if (isAttention) return `At step ${current + 1}, ${names[k]} at ${nameOf(slot)}${slot > current ? '' : ` (input ${session.symbolAt(slot)})`} with weight ${value}`
    return `Slot ${slot}, number ${k + 1}: ${value}; ${writtenText(slot, current)}`
  })
  const list = new Lines(inspect, 'slots where a head is', false)
  const element = el(
    'div', { class: 'memory' },
    el('div', { class: 'column' }, ...(isAttention ? [cells.element, list.element] : [list.element, cells.element])),
    el('div', {}, path, ...maps.map((map) => map.element)),
  )
  let [first, last] = [0, slots - 1]
  const mark = el('div', { class: 'cursor' })
  const writtenText = (slot: number, step: number): string => {
    const origin = session.steps[step].state.memory!.origins[slot]
    return origin < 0 ? 'hardly written so far' : `written at step ${origin + 1} (input ${session.symbolAt(origin)})`
  }

  let current = 0
  const show = (step: number): void => {
    current = step
    const state = session.steps[step]?.state.memory
    if (!state) return
    for (const map of maps) map.show(step)
    mark.style.transform = `translateX(${100 * step}%)`
    cells.show(cellsOf(state).subarray(first * width, (last + 1) * width))
    const weights = session.model.memory!.weights(state)
    const heads = (slot: number): string[] => names.filter((name) => weights[name][slot] >= there)
    const slotsOfHeads = Array.from({ length: slots }, (_, slot) => slot).filter((slot) => heads(slot).length > 0)
    list.show(slotsOfHeads.map((slot) => {
      const origin = state.origins[slot]
      const texts = heads(slot).map((name) => `${headName(name)} ${short(weights[name][slot])}`)
      return {
        symbol: `${isAttention ? slot + 1 : slot}: ${origin < 0 ? '' : session.symbolAt(origin)}`,
        text: texts.map((text) => `${text.startsWith('write') ? '✎' : '◀'} ${text}`).join('  '),
        textOf: () => (isAttention ? `Step ${slot + 1}, input ${session.symbolAt(slot)}: ${texts.join(', ')}` : `Slot ${slot}: ${texts.join(', ')}; ${writtenText(slot, step)}`),
      }
    }))
  }

  const changed = (): void => {
    const { steps, task } = session
    const all = steps.map((step) => session.model.memory!.weights(step.state.memory!))
    const seen = (slot: number): boolean => all.some((weights) => names.some((name) => weights[name][slot] > SEEN))
    const used = Array.from({ length: slots }, (_, slot) => slot).filter(seen)
    first = used[0] ?? 0
    last = used.at(-1) ?? slots - 1
    const most = Math.max(...steps.map((step) => cellsOf(step.state.memory!).reduce((top, each) => Math.max(top, Math.abs(each)), 0)))
    const title = isAttention
      ? `Attention weights of this step: ${nameOf(first)} to ${last + 1}, a column for each of ${width} heads`
      : `Slots ${first} to ${last}, ${width} numbers each: blue above 0, orange below`
    cells.draw(title, last - first + 1, width, most, (row) => nameOf(first + row))
    names.forEach((name, place) => {
      maps[place].draw({
        title: `Weight of the ${name} at each ${isAttention ? 'step' : 'slot'} over time`,
        steps: steps.length,
        rows: last - first + 1,
        hue: name.startsWith('read') ? 'blue' : 'orange',
        legend: ['weight 0', '1', ''],
        label: (row) => nameOf(first + row),
        value: (step, row) => all[step][name][first + row],
        textOf: (step, row) => `After step ${step + 1}: ${name} at ${nameOf(first + row)} with weight ${short(all[step][name][first + row])}`,
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
    return names.map((name): [string, string] => {
      const places = [...weights[name]].map((weight, slot) => ({ weight, slot })).filter(({ weight }) => weight >= there)
      return [`${headName(name)} at`, places.map(({ weight, slot }) => `${nameOf(slot)} (${short(weight)})`).join(', ') || `no ${isAttention ? 'step' : 'slot'} in particular`]
    })
  }
  changed()
  return { element, show, changed, words }
}
