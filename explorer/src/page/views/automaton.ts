// The nondeterministic stack: which tops the runs of the automaton have, what they do, and where they
// pushed the symbol that is on top.

import type { MemoryData } from '../../data.ts'
import { softmax } from '../../machine/activations.ts'
import { TRANSITIONS } from '../../machine/memories/nondeterministic_stack.ts'
import type { MemoryState } from '../../machine/memories/memory.ts'
import { el, short } from '../dom.ts'
import type { Hue } from '../colours.ts'
import type { Session } from '../session.ts'
import { Lines } from './lines.ts'
import { GAP, StepMap, groupedRows } from './map.ts'
import { NumberMap } from './numbers.ts'
import { originText } from './rows.ts'
import type { View, ViewMaker } from './view.ts'

/** States with symbols that are listed, the likeliest of them. */
const MOST_TOPS = 12
/** Shares below this are not named in words. */
const LEAST = 0.05

const HUES: Record<(typeof TRANSITIONS)[number], Hue> = { push: 'blue', replace: 'grey', pop: 'orange' }

interface Sizes {
  states: number
  symbols: number
  width: number
}

export function sizesOf({ options }: MemoryData): Sizes {
  return { states: Number(options.states), symbols: Number(options.symbols), width: Number(options.width) }
}

/** A state and the symbol on top, by their place among all. */
export function topName({ symbols }: Sizes, top: number): string {
  return `q${Math.floor(top / symbols)} x${top % symbols}`
}

/** The share of the runs in each state with each symbol on top. */
export function topShares(state: MemoryState, { states, symbols }: Sizes): Float64Array {
  return softmax(state.fields.weights.slice(-states * symbols))
}

/** The tops with the largest shares, in their own order. */
function likeliestTops(shares: Float64Array): number[] {
  return [...shares.keys()].sort((a, b) => shares[b] - shares[a]).slice(0, MOST_TOPS).sort((a, b) => a - b)
}

/** The transition that has the largest weight from a state and a top symbol, with its share. */
export function likeliest(action: Float64Array, { states, symbols }: Sizes, top: number): { text: string; share: number } {
  const tops = states * symbols
  const size = 2 * tops + states
  const shares = softmax(action.subarray(top * size, (top + 1) * size))
  const best = shares.indexOf(Math.max(...shares))
  const [state, symbol] = [Math.floor((best % tops) / symbols), best % symbols]
  const text = best < tops ? `push x${symbol}, to q${state}` : best < 2 * tops ? `replace by x${symbol}, to q${state}` : `pop, to q${best - 2 * tops}`
  return { text, share: shares[best] }
}

/** Where the symbol on top was pushed: the steps with the largest shares, -1 for the bottom symbol. */
export function topPushes(state: MemoryState): { origin: number; share: number }[] {
  return [...state.weights!.top].map((share, place) => ({ origin: state.origins[place], share })).filter(({ share }) => share >= LEAST).sort((a, b) => b.share - a.share)
}

export function pushText(session: Session, origin: number): string {
  return origin < 0 ? 'the bottom symbol' : `pushed at step ${origin + 1} (input ${session.symbolAt(origin)})`
}

export const automatonView: ViewMaker = (session, inspect, seek): View => {
  const sizes = sizesOf(session.run.model.memory!)
  const { states, symbols, width } = sizes
  const tops = states * symbols
  const [places, shares, transitions] = [0, 1, 2].map(() => new StepMap(session, inspect, seek))
  const list = new Lines(inspect, 'share of the runs in each state (q) with each symbol (x) on top', true)
  const rules = new Lines(inspect, 'likeliest transition from each state (q) and top symbol (x)', false)
  let current = 0
  const vectors = new NumberMap(inspect, 'mean vector of each state and top symbol', (top, k) =>
    `${topName(sizes, top)}, number ${k + 1} of the mean vector on top, times the share: ${short(session.steps[current].state.readVector[top * width + k])}`)
  const element = el(
    'div', { class: 'memory' },
    el(
      'div', { class: 'column' },
      el('p', { class: 'rows-head', 'aria-hidden': 'true' }, el('span', {}, 'top'), el('span', {}, 'share of the runs'), el('span', {}, 'share')), list.element,
      el('p', { class: 'faint' }, `q0${states > 1 ? ` to q${states - 1}` : ''}: states of the automaton. x0${symbols > 1 ? ` to x${symbols - 1}` : ''}: symbols on its stack; x0 is at the bottom.`),
      el('figure', {}, el('figcaption', {}, 'Likeliest transition of this step, from each state and top symbol'), rules.element),
      width > 0 ? vectors.element : null,
    ),
    el('div', {}, places.element, shares.element, transitions.element),
  )

  const show = (step: number): void => {
    current = step
    const { instruction, state } = session.steps[step] ?? {}
    if (!instruction || !state?.memory) return
    const own = topShares(state.memory, sizes)
    list.show(likeliestTops(own).map((top) => ({
      symbol: topName(sizes, top), text: short(own[top]), bars: [own[top], 0],
      textOf: () => `After step ${step + 1}: state ${Math.floor(top / symbols)} with symbol ${top % symbols} on top has ${short(own[top])} of the weight of all runs`,
    })))
    rules.show(likeliestTops(topShares(session.before(step), sizes)).map((top) => {
      const { text, share } = likeliest(instruction.action, sizes, top)
      return {
        symbol: topName(sizes, top), text: `${text} (${short(share)})`,
        textOf: () => `Step ${step + 1}, in state ${Math.floor(top / symbols)} with symbol ${top % symbols} on top: ${text}, ${short(share)} of the weight of all transitions from there`,
      }
    }))
    if (width > 0) vectors.show(state.readVector)
    for (const map of [places, shares, transitions]) map.show(step)
  }

  const changed = (): void => {
    const { steps } = session
    const memories = steps.map(({ state }) => state.memory!)
    const topsAt = memories.map((memory) => topShares(memory, sizes))
    // The last step is on top, as the top of a stack is; below all steps is the bottom symbol.
    const originOf = (row: number): number => steps.length - 1 - row
    const shareAt = (step: number, row: number): number => {
      const { origins, weights } = memories[step]
      return weights!.top[originOf(row) - origins[0]] ?? Number.NaN
    }
    places.draw({
      title: 'Share of the runs by the step that pushed the symbol on top',
      steps: steps.length,
      rows: steps.length + 1,
      hue: 'blue',
      legend: ['share 0', '1', session.run.model.memory!.options.window === null ? 'not pushed yet' : 'not pushed yet, or left the window'],
      label: (row) => (originOf(row) < 0 ? 'bottom' : originText(session, originOf(row))),
      value: shareAt,
      textOf: (step, row) => {
        const share = shareAt(step, row)
        const what = originOf(row) < 0 ? 'the bottom symbol' : `what step ${originOf(row) + 1} pushed`
        if (Number.isNaN(share)) return `After step ${step + 1}: ${what} is not in the memory.`
        return `After step ${step + 1}: ${what} is on top in ${short(share)} of the runs`
      },
    })
    const topRows = groupedRows(states, symbols)
    const placeOf = (state: number, symbol: number): number => state * symbols + symbol
    shares.draw({
      title: 'Share of the runs in each state (q) with each symbol (x) on top',
      steps: steps.length,
      rows: topRows.count,
      hue: 'blue',
      legend: ['share 0', '1', ''],
      label: (row) => topRows.at(row, '', (state, symbol) => topName(sizes, placeOf(state, symbol))),
      value: (step, row) => topRows.at(row, GAP, (state, symbol) => topsAt[step][placeOf(state, symbol)]),
      textOf: (step, row) => topRows.at(row, '', (state, symbol) => `After step ${step + 1}: ${short(topsAt[step][placeOf(state, symbol)])} of the runs are in state ${state} with symbol ${symbol} on top`),
    })
    const shareOf = (step: number, row: number): number => memories[step].shown!.transitions[row]
    transitions.draw({
      title: 'Share of the runs that push, replace the top symbol, or pop',
      steps: steps.length,
      rows: TRANSITIONS.length,
      hue: (row) => HUES[TRANSITIONS[row]],
      legend: ['share 0', '1', ''],
      label: (row) => TRANSITIONS[row],
      value: shareOf,
      textOf: (step, row) => `Step ${step + 1}: ${TRANSITIONS[row]} in ${short(shareOf(step, row))} of the runs`,
    })
    if (width > 0) {
      const most = steps.reduce((top, { state }) => Math.max(top, ...state.readVector), 0)
      vectors.draw(`Mean vector on top, times the share of its state and symbol: ${width} numbers, at most ${short(most)}`, tops, width, most, (top) => topName(sizes, top))
    }
  }

  const words = (step: number): [string, string][] => {
    const state = session.steps[step].state.memory!
    const own = topShares(state, sizes)
    const likely = [...own.keys()].filter((top) => own[top] >= LEAST).map((top) => `${topName(sizes, top)} (${short(own[top])})`)
    return [
      ['state and top symbol', likely.join(', ')],
      ['symbol on top', topPushes(state).slice(0, 4).map(({ origin, share }) => `${pushText(session, origin)} (${short(share)})`).join(', ')],
      ['transition', TRANSITIONS.map((name, place) => `${name} ${short(state.shown!.transitions[place])}`).join(', ')],
      ['mean height', `${short(state.shown!.height[0])} symbols above the bottom`],
    ]
  }
  changed()
  return { element, show, changed, words }
}
