// A stored trace (version 3): it holds inputs and outputs; the memory is replayed.

import type { BlockData, RunData } from '../data.ts'
import type { Instruction } from './heads.ts'
import { MEMORIES } from './memories/index.ts'
import type { Memory, MemoryState } from './memories/memory.ts'
import type { Step } from './run.ts'
import { type Numbers, type Tensor, decode } from './tensors.ts'

const VERSION = 3

/** The steps of a trace, in the form in which a model's own run comes. */
export class Replay {
  readonly memory: Memory
  readonly steps: Step[] = []
  private readonly first: MemoryState

  constructor(run: RunData, place: number) {
    const trace = run.traces?.[place]
    if (!trace) throw new Error('There is no such trace in this page; choose a sample.')
    if (trace.format !== 'unbounded-trace' || trace.version !== VERSION) {
      throw new Error(
        `Expected a trace of version ${VERSION}, got ${String(trace.format)} version ${String(trace.version)}. ` +
          'Export the page again with the version of unbounded you use.',
      )
    }
    const make = MEMORIES[trace.memory.kind]
    if (!make) throw new Error(`This page does not know the memory ${trace.memory.kind}.`)
    this.memory = make(trace.memory)
    const initial: Record<string, Tensor> = {}
    for (const [name, block] of Object.entries(trace.initial)) {
      initial[name] = { shape: block.shape, data: numbersOf(block) }
    }
    this.first = this.memory.begin(initial)
    const fields = Object.entries(trace.instructions).map(([name, block]) => ({ name, numbers: numbersOf(block), size: block.shape.slice(1).reduce((a, b) => a * b, 1) }))
    const probabilities = trace.distribution && numbersOf(trace.distribution)
    const outputs = trace.distribution?.shape[1] ?? 0
    let memory = this.first
    trace.symbols.forEach((symbol, step) => {
      const instruction: Instruction = {}
      for (const { name, numbers, size } of fields) {
        instruction[name] = Float64Array.from(numbers.subarray(step * size, (step + 1) * size))
      }
      const outcome = this.memory.step(memory, instruction, step)
      memory = outcome.state
      const target = trace.target[step]
      this.steps.push({
        token: run.task.inputs.indexOf(symbol),
        instruction,
        state: { controller: [], readVector: outcome.readVector, memory, silent: false, step: step + 1 },
        predicted: run.task.outputs.indexOf(trace.predicted[step]),
        probability: trace.probability[step],
        distribution: probabilities ? Float64Array.from(probabilities.subarray(step * outputs, (step + 1) * outputs)) : null,
        target: target === null ? null : run.task.outputs.indexOf(target),
        answers: target !== null,
      })
    })
  }

  begin(): { memory: MemoryState } {
    return { memory: this.first }
  }
}

function numbersOf(block: BlockData): Numbers {
  const numbers = decode(block.data, block.encoding)
  return block.scale === undefined ? numbers : numbers.map((each) => each * block.scale!)
}
