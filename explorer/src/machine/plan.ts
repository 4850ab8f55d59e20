// What a model is given to read, and its targets: from a typed source or a stored sample.

import type { MemoryData, RunData, SampleData, TaskData } from '../data.ts'
import { targetsOf } from './rules/index.ts'

export interface Plan {
  /** Tokens that are given, the first of them read at step 0. */
  given: number[]
  /** What happens when these are read: nothing more, the predicted output is fed back, or one token. */
  then: 'stop' | 'feed back' | 'answer'
  /** The target at each step, null where none is known or none counts. */
  targets: (number | null)[]
  /** Most steps. */
  most: number
  /** Steps before the answer; all of them where there is no answer. */
  prompt: number
  /** Why no target is known. */
  why: string
}

/** Symbols of a source beyond which a page would be slow, and hard to read. */
export const MOST_SYMBOLS = 500
/** The same of a memory whose time grows with the cube of the steps. */
const MOST_OF_CUBIC = 100

/** Symbols of a source at most, by the memory that reads them. */
export function mostSymbols(memory: MemoryData | null): number {
  const isCubic = memory?.kind === 'nondeterministic_stack' && memory.options.window === null
  return isCubic ? MOST_OF_CUBIC : MOST_SYMBOLS
}

/** The symbols of a typed text; throws an Error that says what to do. */
export function readSymbols(task: TaskData, text: string, most = MOST_SYMBOLS): number[] {
  const [first, count] = task.source
  const names = task.inputs.slice(first, first + count)
  const single = names.every((name) => [...name].length === 1)
  // Blanks only make single letters easier to read, unless a blank is one of them.
  const letters = names.includes(' ') ? text : text.replace(/\s+/g, '')
  const words = single ? [...letters] : text.split(/\s+/).filter((word) => word)
  if (words.length === 0) throw new Error(`Type at least one symbol, such as ${names.slice(0, 3).join(' ')}.`)
  if (words.length > most) throw new Error(`Type at most ${most} symbols; these are ${words.length}.`)
  return words.map((word, place) => {
    const found = names.indexOf(word)
    if (found < 0) {
      const some = names.length > 12 ? `${names.slice(0, 6).join(' ')} … ${names.at(-1)}` : names.join(' ')
      const between = single ? '' : ', with blanks between them'
      throw new Error(`Symbol ${place + 1}, “${word.slice(0, 40)}”, is unknown here. Symbols: ${some}${between}.`)
    }
    return first + found
  })
}

/** Symbols of source tokens as a person would type them. */
export function writeSymbols(task: TaskData, tokens: number[]): string {
  const names = tokens.map((token) => task.inputs[token])
  return names.join(names.every((name) => [...name].length === 1) ? '' : ' ')
}

/** What to run for a typed source. */
export function planOf(task: TaskData, source: number[]): Plan {
  const given = [...task.before, ...source, ...task.after]
  const { targets: known, why } = targetsOf(task, source)
  if (task.layout === 'pairs' || task.layout === 'answer') {
    const prompt = given.length
    const answer = known ?? []
    const targets = [...new Array<null>(prompt - 1).fill(null), ...answer]
    const room = known === null ? 4 * source.length + 40 : answer.length + 4
    const then = task.layout === 'pairs' ? 'feed back' : 'answer'
    return { given, then, targets, most: prompt - 1 + room, prompt, why }
  }
  const targets = known ?? new Array<null>(given.length).fill(null)
  return { given, then: 'stop', targets, most: given.length, prompt: given.length, why }
}

/** What to run for a stored sample. */
export function planOfSample(run: RunData, sample: SampleData): Plan {
  const { task } = run
  const targets = sample.targets.map((target, step) => (sample.mask[step] ? target : null))
  const prompt = sample.prompt
  const why = sample.mask.some((counts) => counts) ? '' : task.no_rule
  if (task.layout === 'stream' || task.layout === 'labels') {
    return { given: sample.inputs, then: 'stop', targets, most: targets.length, prompt: targets.length, why }
  }
  if (task.objective === 'bits') {
    return { given: sample.inputs, then: 'stop', targets, most: targets.length, prompt, why: '' }
  }
  const then = task.layout === 'pairs' ? 'feed back' : 'answer'
  return { given: sample.inputs.slice(0, prompt), then, targets, most: targets.length + 4, prompt, why: '' }
}

/** The source tokens of a sample; null where a person could not type it. */
export function sourceOf(task: TaskData, sample: SampleData): number[] | null {
  if (!task.typed) return null
  if (task.layout === 'stream') return sample.targets
  if (task.layout === 'labels') return sample.inputs
  return sample.inputs.slice(task.before.length, sample.prompt - task.after.length)
}
