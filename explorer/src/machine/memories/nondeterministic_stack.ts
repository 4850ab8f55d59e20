// The nondeterministic stack: sums over all runs of a weighted pushdown automaton, in logs. DuSell &
// Chiang 2020, arXiv:2010.04674; 2022, arXiv:2109.01982; 2023, arXiv:2210.01343.
//
// A row is a time, the last row the present. Tops are pairs of a state and a symbol, Q S in all. A block
// sums the runs from row i to row j, [top at i, top at j, 1 + W], where the symbol that was pushed on row
// i is on top at j. Its channel 0 has their weights, channel 1 + m these times element m of the vector.

import { type Vector, joined } from '../tensors.ts'
import { type MemoryMaker, type MemoryState, fieldsOf, optionOf } from './memory.ts'

/** A term of a sum that is smaller by this factor, as a log, does not change it. */
const NEGLIGIBLE = -40

/** The transitions in the order of an action's weights. */
export const TRANSITIONS = ['push', 'replace', 'pop'] as const

/** Logs of sums, to which terms are added one by one. */
class LogSums {
  private readonly most: Vector
  private readonly sums: Vector

  constructor(size: number) {
    this.most = new Float64Array(size).fill(Number.NEGATIVE_INFINITY)
    this.sums = new Float64Array(size)
  }

  add(place: number, log: number): void {
    const below = log - this.most[place]
    if (below > 0) {
      this.sums[place] = this.sums[place] * Math.exp(-below) + 1
      this.most[place] = log
    } else if (below > NEGLIGIBLE) this.sums[place] += Math.exp(below)
  }

  get logs(): Vector {
    return this.most.map((most, place) => most + Math.log(this.sums[place]))
  }
}

function logSumExp(logs: Vector): number {
  const sum = new LogSums(1)
  for (const log of logs) sum.add(0, log)
  return sum.logs[0]
}

const logSigmoid = (x: number): number => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x)))

interface RunsState extends MemoryState {
  /** By row j the blocks from each row i < j; shared by all states of a run. */
  blocks: Vector[][]
  /** By row and top, log of the weight of all runs times their number of symbols on the stack, plus 1. */
  heights: Vector
}

export const nondeterministicStack: MemoryMaker = (data) => {
  const states = optionOf(data, 'states')
  const tops = states * optionOf(data, 'symbols')
  const width = optionOf(data, 'width')
  const window = data.options.window as number | null
  const channels = 1 + width
  const size = tops * tops * channels
  const transitions = 2 * tops + states

  /** Of each top the log weights of its transitions, flat. */
  const weighed = (action: Vector): Vector => {
    if (data.options.normalized !== true) return action
    const logs = new Float64Array(action.length)
    for (let at = 0; at < action.length; at += transitions) {
      const own = action.subarray(at, at + transitions)
      const total = logSumExp(own)
      logs.set(own.map((log) => log - total), at)
    }
    return logs
  }

  /** The blocks to the new row, but for that of a push; those of replacements alone, and of pops alone. */
  const reached = (blocks: Vector[][], action: Vector): { replaced: Vector[]; popped: Vector[] } => {
    const present = blocks.at(-1)!
    // p[k][top -> state], log weights of the runs that pop at this step what was pushed on row k.
    const pops = present.map((block) => {
      const sums = new LogSums(tops * states)
      for (let from = 0; from < tops; from++) {
        for (let top = 0; top < tops; top++) {
          const log = block[(from * tops + top) * channels]
          for (let state = 0; state < states; state++) sums.add(from * states + state, log + action[top * transitions + 2 * tops + state])
        }
      }
      return sums.logs
    })
    const replaced = present.map((block) => {
      const sums = new LogSums(size)
      for (let from = 0; from < tops; from++) {
        for (let top = 0; top < tops; top++) {
          for (let channel = 0; channel < channels; channel++) {
            const log = block[(from * tops + top) * channels + channel]
            for (let to = 0; to < tops; to++) sums.add((from * tops + to) * channels + channel, log + action[top * transitions + tops + to])
          }
        }
      }
      return sums.logs
    })
    const symbols = tops / states
    const popped = present.map((_, row) => {
      const sums = new LogSums(size)
      for (let k = row + 1; k < blocks.length - 1; k++) {
        const block = blocks[k][row]
        for (let from = 0; from < tops; from++) {
          for (let under = 0; under < tops; under++) {
            const symbol = under % symbols
            for (let channel = 0; channel < channels; channel++) {
              const log = block[(from * tops + under) * channels + channel]
              for (let state = 0; state < states; state++) {
                const to = (from * tops + state * symbols + symbol) * channels + channel
                sums.add(to, log + pops[k][under * states + state])
              }
            }
          }
        }
      }
      return sums.logs
    })
    return { replaced, popped }
  }

  /** The block of a push on the present row: D[q,x -> push r,y], with the vector sigmoid(value). */
  const pushed = (action: Vector, value: Vector): Vector => {
    const block = new Float64Array(size)
    for (let from = 0; from < tops; from++) {
      for (let to = 0; to < tops; to++) {
        for (let channel = 0; channel < channels; channel++) {
          const vector = channel > 0 ? logSigmoid(value[channel - 1]) : 0
          block[(from * tops + to) * channels + channel] = action[from * transitions + to] + vector
        }
      }
    }
    return block
  }

  /** What was pushed at the start is the bottom symbol, whatever has replaced it. */
  const withBottom = (block: Vector, bottom: Vector): Vector => block.map((log, at) => {
    const channel = at % channels
    return channel > 0 ? block[at - channel] + logSigmoid(bottom[channel - 1]) : log
  })

  /** Add the runs of a block, of which `before` has the log weights at its first row, to sums by top. */
  const addRuns = (sums: LogSums, before: Vector, block: Vector, most = channels): void => {
    for (let from = 0; from < tops; from++) {
      for (let to = 0; to < tops; to++) {
        for (let channel = 0; channel < most; channel++) {
          sums.add(to * most + channel, before[from] + block[(from * tops + to) * channels + channel])
        }
      }
    }
  }

  const runWeight = (before: Vector, block: Vector): number => {
    const sums = new LogSums(tops)
    addRuns(sums, before, block, 1)
    return logSumExp(sums.logs)
  }

  const rowOf = (flat: Vector, row: number): Vector => flat.subarray(row * tops, (row + 1) * tops)

  return {
    begin(initial) {
      const { runs, weights, start, bottom } = fieldsOf(initial)
      const rows = start.length
      const blocks = Array.from({ length: rows }, (_, to) => Array.from({ length: to }, (__, from) => runs.slice((from * rows + to) * size, (from * rows + to + 1) * size)))
      // Below the bottom symbol there is nothing, and above it nothing yet.
      const heights = weights.map((log, at) => log + Math.log(1 + Math.floor(at / tops)))
      return stateOf({ blocks, weights, start, bottom, heights }, Int32Array.of(-1), Float64Array.of(1), { height: Float64Array.of(0), transitions: new Float64Array(3) })
    },
    step(before, instruction, step) {
      const state = before as RunsState
      const { weights, start, bottom } = state.fields
      const action = weighed(instruction.action)
      const { replaced, popped } = reached(state.blocks, action)
      const both = replaced.map((block, row) => {
        const sums = new LogSums(size)
        for (const part of [block, popped[row]]) part.forEach((log, at) => sums.add(at, log))
        return sums.logs
      })
      const column = [...both, pushed(action, instruction.value)].map((block, row) => (start[row] > 0 ? withBottom(block, bottom) : block))
      const sums = new LogSums(tops * channels)
      column.forEach((block, row) => addRuns(sums, rowOf(weights, row), block))
      const logs = sums.logs
      const now = logs.filter((_, at) => at % channels === 0)
      const total = logSumExp(now)
      const readVector = logs.filter((_, at) => width === 0 || at % channels > 0).map((log) => Math.exp(log - total))
      const heights = new LogSums(tops)
      column.forEach((block, row) => addRuns(heights, rowOf(state.heights, row), block, 1))
      const share = (parts: Vector[]): number => Math.exp(logSumExp(Float64Array.from(parts, (block, row) => runWeight(rowOf(weights, row), block))) - total)
      const height = Math.exp(logSumExp(heights.logs) - total) - 1
      const ofTransitions = [Math.exp(runWeight(rowOf(weights, column.length - 1), column.at(-1)!) - total), share(replaced), share(popped)]
      now.forEach((log, top) => heights.add(top, log))
      const next = {
        blocks: [...state.blocks, column],
        weights: joined(weights, now), start: joined(start, Float64Array.of(0)), bottom,
        heights: joined(state.heights, heights.logs),
      }
      const pushes = column.map((block, row) => Math.exp(runWeight(rowOf(weights, row), block) - total))
      const origins = Int32Array.from([...state.origins, step])
      const isFull = window !== null && next.start.length > window
      return {
        readVector,
        state: stateOf(
          isFull ? shortened(next) : next,
          isFull ? origins.slice(1) : origins, Float64Array.from(isFull ? pushes.slice(1) : pushes),
          { height: Float64Array.of(height), transitions: Float64Array.from(ofTransitions) },
        ),
      }
    },
    weights: (state) => state.weights ?? {},
  }

  /** `pushes` has the share of the runs whose top symbol was pushed on each row. */
  function stateOf(
    { blocks, weights, start, bottom, heights }: { blocks: Vector[][]; weights: Vector; start: Vector; bottom: Vector; heights: Vector },
    origins: Int32Array, pushes: Vector, shown: Record<string, Vector>,
  ): RunsState {
    const fields = {
      weights, start, bottom,
      /** Laid out only where somebody asks: it has the square of the rows. */
      get runs(): Vector {
        const rows = blocks.length
        const all = new Float64Array(rows * rows * size).fill(Number.NEGATIVE_INFINITY)
        blocks.forEach((column, to) => column.forEach((block, from) => all.set(block, (from * rows + to) * size)))
        return all
      },
    }
    return { fields, origins, weights: { top: pushes }, shown, blocks, heights }
  }

  /** Without the oldest row. */
  function shortened<S extends { blocks: Vector[][]; weights: Vector; start: Vector; heights: Vector }>(state: S): S {
    return {
      ...state,
      blocks: state.blocks.slice(1).map((column) => column.slice(1)),
      weights: state.weights.slice(tops), start: state.start.slice(1), heights: state.heights.slice(tops),
    }
  }
}
