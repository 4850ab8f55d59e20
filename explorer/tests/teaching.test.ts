// What a first-time reader is shown: introductions, tours, events, the future, the distribution.

import { describe, expect, test } from 'vitest'
import type { RunData, TaskData } from '../src/data.ts'
import { Model } from '../src/machine/model.ts'
import { planOf, planOfSample, readSymbols } from '../src/machine/plan.ts'
import { Replay } from '../src/machine/replay.ts'
import { instructive, targetsOf } from '../src/machine/rules/index.ts'
import { firstError } from '../src/machine/run.ts'
import { eventsOf } from '../src/page/events.ts'
import { exampleOf } from '../src/page/examples.ts'
import { cellsOf, gatesOf } from '../src/page/flow.ts'
import { INTRODUCTIONS, taskText, termsOf, tourOf } from '../src/page/lessons.ts'
import { MOST, barsOf } from '../src/page/outputs.ts'
import { Session } from '../src/page/session.ts'
import { fewText, whyNone } from '../src/page/training.ts'
import { verdictOf } from '../src/page/verdict.ts'
import { heightOf, strideOf } from '../src/page/views/map.ts'
import { originText } from '../src/page/views/rows.ts'
import machines from '../../src/unbounded/explorer/machines.json' with { type: 'json' }
import traced from './vectors/traces.json' with { type: 'json' }
import cases from './vectors/tasks.json' with { type: 'json' }

const built = machines as unknown as RunData[]
const runs = cases.map(({ run }) => run as unknown as RunData)
const withMemory = runs.filter((run) => run.model.memory)
const titled = (title: string): RunData => built.find((run) => run.title === title)!

function typed(run: RunData, text: string): Session {
  return new Session(run, planOf(run.task, readSymbols(run.task, text)), new Model(run))
}
const sampled = (run: RunData): Session => new Session(run, planOfSample(run, run.samples[0]), new Model(run))
const queue = (): Session => typed(titled('Copy with a queue, set by hand'), 's1 s2')

test('every memory has an introduction of three sentences, of at most 25 words each', () => {
  const kinds = ['stack', 'queue', 'deque', 'superposition_stack', 'superposition_list', 'turing_tape', 'rolling_tape', 'dnc', 'nondeterministic_stack', 'lie_access', 'random_access', 'delta_matrices', 'attention_weights', 'none']
  expect(Object.keys(INTRODUCTIONS)).toEqual(kinds)
  const lengths = Object.values(INTRODUCTIONS).flatMap(([, ...sentences]) => {
    expect(sentences).toHaveLength(3)
    return sentences.map((sentence) => sentence.split(' ').length)
  })
  expect(Math.max(...lengths)).toBeLessThanOrEqual(25)
  expect(lengths.reduce((sum, each) => sum + each, 0) / lengths.length).toBeLessThanOrEqual(18)
})

test('the symbols that a task has are explained, and no others', () => {
  const { task } = titled('Copy with a queue, set by hand')
  expect(termsOf(task, 'queue').map(([term]) => term)).toEqual(['<s>', '|||', '?', '</s>', 'push', 'pop', 'gate', 'read vector'])
  expect(taskText(task)).toBe('The task: repeat the source.')
  const stream = titled('a^n b^n with a superposition stack, set by hand').task
  expect(termsOf(stream, 'superposition_stack').map(([term]) => term)).toEqual(['gate', 'read vector'])
})

describe('events', () => {
  test('of a queue: a push at the back, a pop at the front, a read', () => {
    const session = queue()
    const texts = (step: number): string[] => eventsOf(session, step).map(({ text }) => text)
    expect(texts(1)).toEqual(['push 1: s1 enters at the back', 'read: s1 with weight 1'])
    // <s> s1 s2 |||: the answer starts at |||.
    expect(texts(3).join('; ')).toMatch(/^pop 1: s1 leaves the front/)
  })
  test('of a stack the last item leaves first', () => {
    const session = typed(titled('Reversal with a stack, set by hand'), 's1 s2')
    const pops = session.steps.flatMap((_, step) => eventsOf(session, step).filter(({ kind, origins }) => kind === 'pop' && origins.length > 0))
    expect(pops[0].text).toBe('pop 1: s2 leaves the top')
  })
  test('of a superposition stack the strongest action', () => {
    const session = typed(titled('a^n b^n with a superposition stack, set by hand'), 'aabb')
    expect(session.steps.map((_, step) => eventsOf(session, step)[0].kind).slice(1)).toEqual(['push', 'push', 'pop', 'pop'])
  })
  test.each(withMemory.map((run) => [run.model.memory!.kind, run] as const))('of a %s name steps, slots and weights', (_, run) => {
    const session = sampled(run)
    session.steps.forEach((__, step) => {
      const events = eventsOf(session, step)
      expect(events.length).toBeGreaterThan(0)
      for (const { text, weight } of events) {
        expect(text).not.toMatch(/undefined|NaN/)
        expect(weight).toBeGreaterThanOrEqual(0)
      }
      for (const { value, name, text } of gatesOf(session, step)) expect(`${name}${text}${value}`).not.toMatch(/undefined|NaN/)
      for (const { cells } of cellsOf(session, step, events)) {
        for (const cell of cells) expect(`${cell.text}${cell.strength}`).not.toMatch(/undefined|NaN/)
      }
    })
  })
})

test('the drawing shows what enters, what leaves and what is read', () => {
  const session = queue()
  const states = (step: number): string[] => cellsOf(session, step, eventsOf(session, step))[0].cells.map(({ text, state }) => `${text} ${state}`)
  expect(states(1)).toEqual(['s1 in'])
  expect(states(2)).toEqual(['s1 read', 's2 in'])
  expect(states(3)).toEqual(['s1 out', 's2 read'])
})

test('an empty cell is told apart from a written number', () => {
  const session = typed(titled('a^n b^n with a superposition stack, set by hand'), 'ab')
  const [row] = cellsOf(session, 0, [])
  expect(row.cells.every(({ state, text }) => state === 'empty' && text === '')).toBe(true)
  expect(cellsOf(session, 1, [])[0].cells[0]).toMatchObject({ state: 'in', text: expect.stringMatching(/\d/) })
})

describe('a tour', () => {
  const toured = [...built.map((run) => [run.title, run] as const), ...withMemory.map((run) => [`${run.task.name}, ${run.model.memory!.kind}`, run] as const)]
  test.each(toured)('of %s has five stops on the run', (_, run) => {
    const session = sampled(run)
    const stops = tourOf(session)
    expect(stops).toHaveLength(5)
    for (const { step, text, title } of stops) {
      expect(step).toBeGreaterThanOrEqual(0)
      expect(step).toBeLessThan(session.steps.length)
      expect(`${title} ${text}`).not.toMatch(/undefined|NaN/)
    }
    expect(new Set(stops.map(({ part }) => part)).size).toBeGreaterThanOrEqual(4)
  })
  test('of a queue stops at the first push and at a pop', () => {
    const session = queue()
    const [, push, items, pop, last] = tourOf(session)
    expect(session.steps[push.step].instruction!.push[0]).toBe(1)
    expect(push.text).toContain('s1 enters at the back')
    expect(session.symbolAt(items.step)).toBe('|||')
    expect(pop.text).toContain('s1 leaves the front')
    expect(last.part).toBe('edit')
  })
  test('of a trace ends at the distribution', () => {
    const run = traced as unknown as RunData
    const replay = new Replay(run, 0)
    const targets = replay.steps.map((step) => step.target)
    const session = new Session(run, { given: [], then: 'stop', targets, most: targets.length, prompt: targets.length, why: '' }, replay)
    expect(tourOf(session).map(({ part }) => part).at(-1)).toBe('outputs')
    expect(barsOf(run.task, session.steps[1])).toHaveLength(run.task.outputs.length)
    expect(barsOf(run.task, { ...session.steps[1], distribution: null })).toHaveLength(1)
  })
  test('of a network without a memory has no stop', () => {
    expect(tourOf(sampled(runs.find((run) => !run.model.memory)!))).toEqual([])
  })
})

describe('the first input', () => {
  test.each(built.map((run) => [run.title, run] as const))('of %s is short and answered without an error', (_, run) => {
    const { typed: text } = exampleOf(run, new Model(run))
    const session = typed(run, text!)
    expect(session.steps.length).toBeLessThanOrEqual(12)
    expect(firstError(session.steps)).toBeNull()
    expect(verdictOf(session).correct).toBe(true)
  })
  test('is a stored sample where the page has no rule, and a correct one where there is one', () => {
    for (const run of runs) {
      const model = new Model(run)
      const { typed: text, sample } = exampleOf(run, model)
      const fails = run.samples.map((each) => firstError(new Session(run, planOfSample(run, each), model).steps) !== null)
      if (text === null) expect(fails[sample]).toBe(!fails.includes(false))
      else expect(instructive(run.task)).not.toBeNull()
    }
    expect(exampleOf(traced as unknown as RunData, null).typed).toBeNull()
  })
  test.each(['copy', 'anbn', 'anb2n', 'anbmc_sum', 'anbmc_product', 'anbmcndm', 'dyck', 'dyck of words'])('of %s has targets', (name) => {
    const task = cases.find((each) => each.name === name)!.run.task as unknown as TaskData
    const source = instructive(task)!
    expect(targetsOf(task, source).targets!.some((target) => target !== null)).toBe(true)
  })
})

describe('the future', () => {
  test('is no part of the verdict before it is played', () => {
    const session = queue()
    session.edit(1, 'push', 0, 0)
    const error = firstError(session.steps)!
    expect(verdictOf(session, 1).text).toMatch(/^No output with a target so far/)
    expect(verdictOf(session, error - 1).correct).toBeNull()
    expect(verdictOf(session, error).text).toMatch(/^First error/)
    expect(verdictOf(session).correct).toBe(false)
  })
  test('has no symbols in the labels of a map', () => {
    const session = queue()
    expect([0, 3, 4].map((step) => originText(session, step))).toEqual(['1 <s>', '4 |||', '5'])
    expect(originText(session, -1)).toBe('initial')
  })
})

describe('the distribution', () => {
  test('adds up to 1 and marks predicted output and target', () => {
    const session = queue()
    for (const step of session.steps) {
      expect([...step.distribution!].reduce((sum, each) => sum + each, 0)).toBeCloseTo(1)
      const bars = barsOf(session.task, step)
      expect(bars.length).toBeLessThanOrEqual(MOST)
      expect(bars.filter(({ predicted }) => predicted)).toHaveLength(1)
      if (step.target !== null) expect(bars.some(({ target }) => target)).toBe(true)
    }
  })
  test('keeps the target in sight where it is unlikely', () => {
    const session = queue()
    const step = session.steps.find(({ target }) => target !== null)!
    const unlikely = [...step.distribution!.keys()].sort((a, b) => step.distribution![a] - step.distribution![b])[0]
    expect(barsOf(session.task, { ...step, target: unlikely }).some(({ target }) => target)).toBe(true)
  })
  test('of yes and no has two bars, of bits one for each', () => {
    const dyck = sampled(runs.find((run) => run.task.objective === 'binary')!)
    expect(barsOf(dyck.task, dyck.steps[0]).map(({ name }) => name)).toEqual(['no', 'yes'])
    const bits = sampled(runs.find((run) => run.task.objective === 'bits')!)
    expect(barsOf(bits.task, bits.steps[0]).length).toBe(bits.task.outputs.length)
  })
})

test('labels of a map have room', () => {
  expect([5, 8, 9, 20, 60, 500].map(strideOf)).toEqual([1, 1, 2, 5, 10, 100])
  expect(heightOf(1)).toBeGreaterThan(40)
  expect(heightOf(1000)).toBeLessThan(300)
})

test('a curve of one value is put in words, and a run without curves has a reason', () => {
  expect(fewText({ name: 'loss', unit: 'share', batches: [500], values: [0.457] })).toBe('Measured once: exact match 0.46 at batch 500.')
  expect(fewText({ name: 'loss', unit: 'share', batches: [], values: [] })).toBe('Not measured in this training.')
  expect(fewText({ name: 'loss', unit: 'share', batches: [1, 2, 3], values: [0, 1, 1] })).toBe('')
  expect(whyNone(titled('Copy with a queue, set by hand'))).toMatch(/no training, so no curve\.$/)
})
