// What the views of the nondeterministic stack and of Lie access show, and the marks of a map.

import { describe, expect, test } from 'vitest'
import type { MemoryData, RunData } from '../src/data.ts'
import { groupOf } from '../src/machine/memories/groups.ts'
import { headNames } from '../src/machine/memories/memory.ts'
import { nondeterministicStack } from '../src/machine/memories/nondeterministic_stack.ts'
import { Model } from '../src/machine/model.ts'
import { mostSymbols, planOfSample } from '../src/machine/plan.ts'
import { eventsOf } from '../src/page/events.ts'
import { cellsOf, gatesOf } from '../src/page/flow.ts'
import { tourOf } from '../src/page/lessons.ts'
import { Session } from '../src/page/session.ts'
import { likeliest, sizesOf, topName, topPushes, topShares } from '../src/page/views/automaton.ts'
import { groupedRows } from '../src/page/views/map.ts'
import { axesOf, keyText, keysOf } from '../src/page/views/plane.ts'
import cases from './vectors/tasks.json' with { type: 'json' }

const stackOf = (window: number | null): MemoryData => ({
  kind: 'nondeterministic_stack', options: { states: 1, symbols: 2, width: 0, window, normalized: false }, heads: [], write_strengths: [],
})
const INITIAL = (): Parameters<ReturnType<typeof nondeterministicStack>['begin']>[0] => {
  const runs = new Float64Array(16).fill(Number.NEGATIVE_INFINITY)
  runs[4] = 0
  const weights = Float64Array.of(0, Number.NEGATIVE_INFINITY, 0, Number.NEGATIVE_INFINITY)
  return {
    runs: { shape: [2, 2, 1, 2, 1, 2, 1], data: runs }, weights: { shape: [2, 1, 2], data: weights },
    start: { shape: [2], data: Float64Array.of(1, 0) }, bottom: { shape: [0], data: new Float64Array() },
  }
}
/** Of both tops the log weights: pushes of x0 and x1, replacements by x0 and x1, a pop. */
const only = (transition: number): Float64Array => Float64Array.from({ length: 10 }, (_, at) => (at % 5 === transition ? 0 : -1000))
const [PUSH, REPLACE, POP] = [1, 2, 4]

function played(transitions: Float64Array[], window: number | null = null) {
  const memory = nondeterministicStack(stackOf(window))
  let state = memory.begin(INITIAL())
  return transitions.map((action, step) => {
    state = memory.step(state, { action, value: new Float64Array() }, step).state
    return state
  })
}

describe('a nondeterministic stack', () => {
  test('with one run is a stack', () => {
    const states = played([only(PUSH), only(PUSH), only(REPLACE), only(POP), only(PUSH)])
    const sizes = sizesOf(stackOf(null))
    expect(states.map(({ shown }) => shown!.height[0]).map((height) => height.toFixed(6))).toEqual(['1.000000', '2.000000', '2.000000', '1.000000', '2.000000'])
    expect(states.map((state) => topPushes(state).map(({ origin }) => origin))).toEqual([[0], [1], [1], [0], [4]])
    expect(states.map((state) => topShares(state, sizes).indexOf(Math.max(...topShares(state, sizes))))).toEqual([1, 1, 0, 1, 1])
    expect(states.map(({ shown }) => shown!.transitions.indexOf(Math.max(...shown!.transitions)))).toEqual([0, 0, 1, 2, 0])
  })
  test('has shares that sum to 1', () => {
    const actions = Array.from({ length: 6 }, (_, step) => Float64Array.from({ length: 10 }, (__, at) => Math.sin(7 * step + 3 * at)))
    for (const state of played(actions)) {
      for (const shares of [state.weights!.top, state.shown!.transitions, topShares(state, sizesOf(stackOf(null)))]) {
        expect(shares.reduce((sum, share) => sum + share, 0)).toBeCloseTo(1, 9)
      }
    }
  })
  test('loses what left its window', () => {
    const last = played([only(PUSH), only(PUSH), only(PUSH), only(PUSH)], 3).at(-1)!
    expect([...last.origins]).toEqual([2, 3])
    expect(last.fields.runs).toHaveLength(3 * 3 * 4)
  })
  test('reads fewer symbols where its time is cubic', () => {
    expect(mostSymbols(stackOf(null))).toBe(100)
    expect(mostSymbols(stackOf(20))).toBe(500)
    expect(mostSymbols(null)).toBe(500)
  })
  test('names tops and transitions', () => {
    const sizes = { states: 2, symbols: 3, width: 0 }
    expect(topName(sizes, 4)).toBe('q1 x1')
    const action = (at: number): Float64Array => Float64Array.from({ length: 6 * 14 }, (_, place) => (place === 14 + at ? 20 : 0))
    expect([5, 6, 13].map((at) => likeliest(action(at), sizes, 1).text)).toEqual(['push x2, to q1', 'replace by x0, to q0', 'pop, to q1'])
    expect(likeliest(action(5), sizes, 1).share).toBeCloseTo(1)
  })
})

const sessionOf = (name: string): Session => {
  const run = cases.find((each) => each.name === name)!.run as unknown as RunData
  return new Session(run, planOfSample(run, run.samples[0]), new Model(run))
}

test('the page shows what the runs of an automaton do', () => {
  const session = sessionOf('reversal')
  expect(gatesOf(session, 1).map(({ name }) => name)).toEqual(['push', 'replace', 'pop'])
  const events = eventsOf(session, 1)
  expect(events.at(-1)!.text).toMatch(/^read: q\d x\d with share 0\.\d+; on top is mostly /)
  expect(cellsOf(session, 1, events).map(({ name }) => name)).toEqual(['on top', 'pushed at'])
  expect(tourOf(session).at(-1)).toMatchObject({ part: 'outputs', text: expect.stringContaining('no gates that could be changed by hand') })
})

test('several heads are named and shown each', () => {
  const session = sessionOf('answer_copy')
  expect(headNames('read', 2)).toEqual(['read head 1', 'read head 2'])
  expect(headNames('write', 1)).toEqual(['write head'])
  expect(gatesOf(session, 0).map(({ name }) => name)).toContain('strength 2')
  const texts = eventsOf(session, 2).map(({ text }) => text)
  expect(texts.filter((text) => text.startsWith('read head'))).toHaveLength(2)
  expect(texts.filter((text) => text.startsWith('write head'))).toHaveLength(2)
  const { origins, shown } = session.steps[2].state.memory!
  expect([...origins]).toEqual([0, 0, 1, 1, 2, 2])
  expect([...shown!.writers]).toEqual([0, 1, 0, 1, 0, 1])
  session.edit(1, 'strength', 1, 0)
  expect([...session.steps[1].state.memory!.fields.strengths].at(-1)).toBe(0)
})

test('the input of an answer that is fed one symbol is known before it is played', () => {
  const session = sessionOf('answer_copy')
  expect(session.isGiven(session.plan.given.length)).toBe(true)
  const pairs = sessionOf('reversal')
  expect(pairs.isGiven(pairs.plan.given.length)).toBe(false)
})

describe('keys', () => {
  test('are drawn by the two numbers that vary most', () => {
    const keys = keysOf(Float64Array.of(0, 5, 1, 0, 1, 9), 3)
    expect(axesOf(keys, 3)).toEqual([{ axis: 1, least: 1, most: 5 }, { axis: 2, least: 1, most: 9 }])
    expect(axesOf([Float64Array.of(2)], 1)).toEqual([{ axis: 0, least: 2, most: 2 }])
  })
  test('are told by their first numbers', () => {
    expect(keyText(Float64Array.of(1, 0.5))).toBe('(1, 0.50)')
    expect(keyText(new Float64Array(6))).toBe('(0, 0, 0, 0, …)')
  })
  test('turn by any angle and keep their length', () => {
    const turn = groupOf('rotation', 3)
    const turned = turn.act(Float64Array.of(Math.PI / 2 + 200 * Math.PI, 0, 0), Float64Array.of(1, 0, 0))
    expect([...turned].map((each) => Number(each.toFixed(9)) + 0)).toEqual([0, -1, 0])
    expect(() => groupOf('shear', 2)).toThrow('This page does not know the group shear.')
  })
  test('of a disk stay inside, at hyperbolic distances', () => {
    const disk = groupOf('poincare_disk', 2)
    const origin = new Float64Array(2)
    const moved = disk.act(Float64Array.of(3, 0, 1), origin)
    expect(Math.sqrt(disk.distance(moved, origin))).toBeCloseTo(3, 9)
    expect(Math.hypot(...disk.act(Float64Array.of(90, 0, 0), origin))).toBeLessThan(1)
  })
})

test('rows of a map stand in groups', () => {
  const rows = groupedRows(2, 3)
  expect(rows.count).toBe(7)
  expect(Array.from({ length: 7 }, (_, row) => rows.at(row, '-', (group, place) => `${group}${place}`))).toEqual(['00', '01', '02', '-', '10', '11', '12'])
})
