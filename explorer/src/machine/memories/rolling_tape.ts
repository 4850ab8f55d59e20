// Tapes that roll under a fixed head. Delétang et al. 2023, arXiv:2207.02098, appendix A.

import type { Vector } from '../tensors.ts'
import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'

/** The moves of a tape in the order of an action's weights, and whether each is a jump. */
const MOVES = [
  { by: 0, jumps: false }, { by: 1, jumps: false }, { by: -1, jumps: false },
  { by: 1, jumps: true }, { by: -1, jumps: true },
]

export const rollingTape: MemoryMaker = (data) => {
  const slots = optionOf(data, 'slots')
  const width = optionOf(data, 'width')
  const tapes = optionOf(data, 'tapes')
  const jumpsWrite = data.options.variant === 'code'
  const place = (slot: number): number => ((slot % slots) + slots) % slots

  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array(tapes * slots).fill(-1) }),
    step(state, instruction, step) {
      const { cells, jump } = state.fields
      const after = new Float64Array(cells.length)
      const origins = new Int32Array(state.origins.length)
      const readVector = new Float64Array(tapes * width)
      for (let tape = 0; tape < tapes; tape++) {
        const start = tape * slots
        const weights = instruction.action.subarray(tape * MOVES.length, (tape + 1) * MOVES.length)
        const best = weights.indexOf(Math.max(...weights))
        MOVES.forEach(({ by, jumps }, move) => {
          const distance = jumps ? by * Math.round(jump[0]) : by
          const writes = !jumps || jumpsWrite
          for (let slot = 0; slot < slots; slot++) {
            const from = place(slot + distance)
            const isNew = writes && from === 0
            if (move === best) origins[start + slot] = isNew ? step : state.origins[start + from]
            for (let k = 0; k < width; k++) {
              const value = isNew ? instruction.value[tape * width + k] : cells[(start + from) * width + k]
              after[(start + slot) * width + k] += weights[move] * value
            }
          }
        })
        readVector.set(after.subarray(start * width, (start + 1) * width), tape * width)
      }
      const fields: Record<string, Vector> = { cells: after, jump }
      return { readVector, state: { fields, origins } }
    },
    // The head is at the first cell of each tape, and reads that alone.
    weights() {
      const named: Record<string, Vector> = {}
      for (let tape = 0; tape < tapes; tape++) {
        const weights = new Float64Array(tapes * slots)
        weights[tape * slots] = 1
        named[tapes > 1 ? `head ${tape + 1}` : 'head'] = weights
      }
      return named
    },
  }
}
