import { describe, expect, test } from 'vitest'
import type { RunData, TaskData } from '../src/data.ts'
import { readAddress, writeAddress } from '../src/page/address.ts'
import { MOST_SYMBOLS, readSymbols, writeSymbols } from '../src/machine/plan.ts'
import { drawn, targetsOf } from '../src/machine/rules/index.ts'
import { outputText } from '../src/machine/run.ts'
import { grown } from '../src/machine/grown.ts'
import { decode, half } from '../src/machine/tensors.ts'
import { Replay } from '../src/machine/replay.ts'
import traced from './vectors/traces.json' with { type: 'json' }
import cases from './vectors/tasks.json' with { type: 'json' }

const taskOf = (name: string): TaskData =>
  cases.find((each) => each.name === name)!.run.task as unknown as TaskData

describe('typed symbols', () => {
  test('words stand between blanks, letters need none', () => {
    expect(readSymbols(taskOf('copy'), '  s1  s0 ')).toEqual([3, 2])
    expect(readSymbols(taskOf('anbn'), 'aa bb')).toEqual([0, 0, 1, 1])
    expect(readSymbols(taskOf('dyck'), 'u1 d2')).toEqual([0, 3])
  })
  test('a blank is a symbol where it is one', () => {
    const task = taskOf('programs')
    const text = 'print((7 if 3<4 else 5))'
    expect(writeSymbols(task, readSymbols(task, text))).toBe(text)
  })
  test('an unknown symbol has a message', () => {
    expect(() => readSymbols(taskOf('copy'), ' ')).toThrow('Type at least one symbol, such as s0 s1 s2.')
    expect(() => readSymbols(taskOf('copy'), 's1 s9')).toThrow('Symbol 2, “s9”, is unknown here. Symbols: s0 s1 s2, with blanks between them.')
    expect(() => readSymbols(taskOf('anbn'), 'a'.repeat(MOST_SYMBOLS + 1))).toThrow('Type at most 500 symbols; these are 501.')
    expect(() => readSymbols(taskOf('anbn'), 'aab', 2)).toThrow('Type at most 2 symbols; these are 3.')
  })
})

describe('targets and draws', () => {
  const drawable = cases.filter(({ name, run }) => run.task.rule && !['svo_sov', 'gender'].includes(name)).map(({ name }) => name)
  test.each(drawable)('%s', (name) => {
    const task = taskOf(name)
    for (let n = 2; n < 12; n++) {
      const source = drawn(task, n)!
      expect(source.every((token) => token >= task.source[0] && token < task.source[0] + task.source[1])).toBe(true)
      const truth = targetsOf(task, source).targets!
      expect(truth.some((targets) => targets !== null)).toBe(true)
      if (name === 'copy') expect(truth).toEqual([...source.map((token) => token - 1), 0])
      if (name === 'dyck') expect(truth.at(-1)).toBe(1)
    }
  })
  test('memorization says backwards what came before', () => {
    // 1 2 = 2 1, then a word of which nothing is known
    expect(targetsOf(taskOf('memorization'), [1, 2, 0, 2, 1, 1]).targets).toEqual([null, null, null, 2, 1, null, null])
  })
  test('there is none where no rule is known', () => {
    expect(drawn(taskOf('programs'), 5)).toBeNull()
    expect(targetsOf(taskOf('programs'), [1])).toEqual({ targets: null, why: 'the page runs no programs; the samples have targets.' })
  })
  const typed = (name: string, text: string) => {
    const task = taskOf(name)
    const { targets, why } = targetsOf(task, readSymbols(task, text))
    return why || targets!.map((each) => (each === null ? '.' : outputText(task, each))).join(' ')
  }
  test.each([
    ['copy', 's1 s2', 's1 s2 </s>'],
    ['answer_double', '507', '0 1 4 1 </s>'],
    ['answer_addition', '9951', '8 7 0 </s>'],
    ['answer_repeat_copy', 'mark mark s1 s0', 's1 s0 s1 s0 </s>'],
    ['answer_priority_sort', 'mark s1 s0', 's0 s1 </s>'],
    ['svo_sov', 'si1 rpi si2 vi3 vi1 oi2', 'so1 rpo so2 vo3 oo2 vo1 </s>'],
    ['gender', 'the me1 and a fe2 or a ne1 and the fe1 we3', 'der mg1 und eine fg2 oder ein ng1 und die fg1 wg3 </s>'],
    ['anbn', 'aabba', '. . . b a .'],
    ['anb2n', 'abba', '. . b a .'],
    ['anbmc_sum', 'aabccca', '. . . . c c a .'],
    ['anbmcndm', 'aabccda', '. . . . c d a .'],
    ['binary_addition', '1+11=001.1', '. . . . . 0 0 1 . . .'],
  ])('of %s for %s it is %s', (name, text, right) => expect(typed(name, text)).toBe(right))
  test.each([
    ['answer_addition', '995', 'this task has sources with an even number of symbols.'],
    ['answer_repeat_copy', 's1 mark', 'this task has sources of marks, and then symbols.'],
    ['answer_priority_sort', 's1 s0', 'two symbols have 0 marks before them; here each number of marks comes once.'],
    ['answer_priority_sort', 's1 mark mark s0', 'this task has sources of k symbols with 0 to k - 1 marks before them, each number once.'],
    ['svo_sov', 'si1 vi1', 'the grammar of this task does not derive it as a sentence.'],
    ['gender', 'me1 the', 'the grammar of this task does not derive it as a sentence.'],
  ])('%s has none for %s', (name, text, why) => expect(typed(name, text)).toBe(why))
  test('where an input leaves the rule nothing is determined any more', () => {
    expect(typed('anbn', 'aabbbab')).toBe('. . . b a . . .')
    expect(typed('anbmc_sum', 'aca')).toBe('. . . .')
    expect(typed('binary_addition', '1=1')).toBe('. . . .')
    expect(typed('binary_addition', '1+1=1')).toBe('. . . . 0 .')
  })
  test('of a Dyck word without labels of its beginnings the last one counts', () => {
    expect(typed('dyck of words', 'u1 u2 d2 d1')).toBe('. . . yes')
    expect(typed('dyck of words', 'u1 d2')).toBe('. no')
  })
  test('a sentence of the longest length is parsed at once', () => {
    const task = taskOf('svo_sov')
    const clauses = Array.from({ length: 120 }, () => 'rpi si2 vi3').join(' ')
    const begun = performance.now()
    expect(targetsOf(task, readSymbols(task, `si1 ${clauses} vi1 oi2`)).targets).toHaveLength(364)
    expect(performance.now() - begun).toBeLessThan(5000)
  })
})

describe('a stored trace', () => {
  const run = (): RunData => structuredClone(traced) as unknown as RunData
  test('is replayed', () => {
    const { steps } = new Replay(run(), 0)
    expect(steps).toHaveLength(60)
    expect(steps[1].state.memory!.fields.cells).toHaveLength(2 * 2)
    expect(steps.every(({ probability }) => probability > 0 && probability <= 1)).toBe(true)
    expect(steps.map(({ token }) => traced.task.inputs[token])).toEqual(traced.traces[0].symbols)
  })
  test('of another version, another memory, or not there, has a message', () => {
    const old = run()
    old.traces![0].version = 1
    expect(() => new Replay(old, 0)).toThrow('Expected a trace of version 3, got unbounded-trace version 1. Export the page again')
    const other = run()
    other.traces![0].memory.kind = 'heap'
    expect(() => new Replay(other, 0)).toThrow('This page does not know the memory heap.')
    expect(() => new Replay(run(), 9)).toThrow('There is no such trace in this page; choose a sample.')
  })
})

test('an address comes back', () => {
  const moment = {
    run: 1, second: 0, typed: 's1 <b>&#=', sample: 0, step: 7, future: true,
    edits: { 3: { push: { 0: 0.25 } }, 4: { action: { 2: 1, 3: 0 } } },
  }
  expect(readAddress(writeAddress(moment))).toEqual(moment)
  expect(readAddress('#edits=x,1.push.0=nothing&step=-3&run=a')).toEqual({
    run: 0, second: null, typed: null, sample: 0, step: null, edits: {}, future: false,
  })
})

test('numbers of 16 bits', () => {
  expect([0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000, 0x7c00].map(half)).toEqual([
    1, -2, 65504, 2 ** -24, -0, Number.POSITIVE_INFINITY,
  ])
  expect(half(0x7e00)).toBeNaN()
  expect([...decode(btoa('\x00\xff\x7f'), 'int8')]).toEqual([0, -1, 127])
})

test('rows that grow are shared by the states of a run, and copied after an edit', () => {
  const none = new Float64Array()
  const one = grown(none, none, Float64Array.of(1, 2))
  const two = grown(none, one, Float64Array.of(3, 4))
  const other = grown(none, one, Float64Array.of(5, 6))
  expect([[...one], [...two], [...other]]).toEqual([[1, 2], [1, 2, 3, 4], [1, 2, 5, 6]])
  let both = grown(Float64Array.of(-1), none, Float64Array.of(1))
  const states = [both]
  for (let n = 2; n < 40; n++) states.push((both = grown(Float64Array.of(-n), both, Float64Array.of(n))))
  states.forEach((state, n) => {
    expect(state.length).toBe(2 * n + 2)
    expect([state[0], state.at(-1)]).toEqual([-n - 1, n + 1])
  })
  expect(new Set(states.map((state) => state.buffer)).size).toBeLessThan(8)
})
