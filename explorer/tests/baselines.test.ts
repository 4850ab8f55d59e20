// Pages of a DeltaNet and of a Transformer: traces of samples, with matrices and attention weights.

import { describe, expect, test } from 'vitest'
import type { RunData } from '../src/data.ts'
import { Replay } from '../src/machine/replay.ts'
import { eventsOf } from '../src/page/events.ts'
import { cellsOf, gatesOf } from '../src/page/flow.ts'
import { termsOf, tourOf } from '../src/page/lessons.ts'
import { barsOf } from '../src/page/outputs.ts'
import { Session } from '../src/page/session.ts'
import { VIEWS } from '../src/page/views/index.ts'
import { headName, slotName } from '../src/page/views/tape.ts'
import baselines from './vectors/baselines.json' with { type: 'json' }

const runs = baselines as unknown as Record<string, RunData>
const sessionOf = (name: string): Session => {
  const replay = new Replay(runs[name], 0)
  const targets = replay.steps.map((step) => step.target)
  return new Session(runs[name], { given: [], then: 'stop', targets, most: targets.length, prompt: targets.length, why: '' }, replay)
}

describe.each(Object.keys(runs))('the page of a %s', (name) => {
  const session = sessionOf(name)
  const kind = session.run.model.memory!.kind

  test('has a view, a tour of five stops and terms', () => {
    expect(VIEWS[kind]).toBeDefined()
    const stops = tourOf(session)
    expect(stops).toHaveLength(5)
    for (const { title, text, step } of stops) {
      expect(`${title} ${text}`).not.toMatch(/undefined|NaN/)
      expect(step).toBeLessThan(session.steps.length)
    }
    expect(termsOf(session.task, kind).at(-1)![1]).not.toContain('controller')
  })
  test('tells of each step what happens, and cannot be changed', () => {
    expect(session.isLive).toBe(false)
    session.steps.forEach((_, step) => {
      const events = eventsOf(session, step)
      expect(events).toHaveLength(Number(session.run.model.memory!.options.layers) * 2)
      const cells = cellsOf(session, step, events).flatMap((row) => row.cells)
      const texts = [...events.map(({ text, weight }) => `${text}${weight}`), ...cells.map(({ text, strength }) => `${text}${strength}`)]
      for (const text of texts) expect(text).not.toMatch(/undefined|NaN/)
    })
  })
  test('has the distribution of each step', () => {
    for (const step of session.steps) {
      expect([...step.distribution!].reduce((sum, each) => sum + each, 0)).toBeCloseTo(1, 2)
      expect(barsOf(session.task, step).filter(({ predicted }) => predicted)).toHaveLength(1)
      expect(step.distribution![step.predicted]).toBeCloseTo(step.probability, 2)
    }
  })
})

test('the gates of a DeltaNet are the strengths of its writes', () => {
  const session = sessionOf('deltaproduct')
  const gates = gatesOf(session, 2)
  // One layer, two heads, two steps of the delta rule.
  expect(gates.map(({ name }) => name)).toEqual(['layer 1 head 1', 'layer 1 head 1', 'layer 1 head 2', 'layer 1 head 2'])
  expect(gates.every(({ value }) => value > 0 && value < 2)).toBe(true)
  expect(eventsOf(session, 2)[1].text).toMatch(/^layer 1 head 2 replaces what it holds for its key, with strength \d/)
})

test('a causal attention reads no later step, a bidirectional one does', () => {
  const later = (name: string): number => {
    const session = sessionOf(name)
    const { memory } = session.model
    return Math.max(...session.steps.map(({ state }, step) => Math.max(0, ...Object.values(memory!.weights(state.memory!)).flatMap((each) => [...each.subarray(step + 1)]))))
  }
  expect(later('transformer')).toBe(0)
  expect(later('bidirectional')).toBeGreaterThan(0.01)
})

test('each step of the input is a row of the picture, and each head a column', () => {
  const session = sessionOf('transformer')
  const { memory } = session.model
  const state = session.steps[3].state.memory!
  const weights = memory!.weights(state)
  const names = Object.keys(weights)
  expect(names).toEqual(['read head, layer 1 head 1', 'read head, layer 1 head 2', 'read head, layer 2 head 1', 'read head, layer 2 head 2'])
  for (const step of [0, 2]) {
    const row = [...state.shown!.cells.subarray(step * names.length, (step + 1) * names.length)]
    expect(row).toEqual(names.map((name) => weights[name][step]))
  }
  expect(slotName(session, 2)).toBe('step 3')
  const gates = gatesOf(session, 0).map(({ name, text, value }) => `${name}: ${text}, ${value}`)
  expect(gates).toEqual(names.map((name) => `${headName(name)}: step 1, 1`))
  expect(eventsOf(session, 3)[0].text).toMatch(/^read head, layer 1 head 1 reads at step \d/)
})
