// The superposition stack: cell 0 is the top. Joulin & Mikolov 2015, eq. 3-6.

import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'
import { emptyOf, mixed } from './superposition.ts'

const PUSH = 0
const POP = 1

export const superpositionStack: MemoryMaker = (data) => {
  const count = optionOf(data, 'count')
  const depth = optionOf(data, 'depth')
  const capacity = (data.options.capacity as number | null) ?? Number.POSITIVE_INFINITY
  const empty = emptyOf(data)
  const actions = data.heads[0].shape[1]
  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array() }),
    step(state, instruction, step) {
      const before = {
        cells: state.fields.cells,
        origins: state.origins,
        size: state.fields.cells.length / count,
      }
      const size = Math.min(before.size + 1, capacity)
      const { cells, origins } = mixed(
        before, count, actions, instruction.action, instruction.value, size, empty,
        (action, i) => {
          if (action === PUSH) return i === 0 ? { fresh: true } : { place: i - 1 }
          return { place: action === POP ? i + 1 : i }
        },
        step,
      )
      const readVector = new Float64Array(count * depth)
      for (let s = 0; s < count; s++) {
        for (let k = 0; k < depth; k++) {
          readVector[s * depth + k] = k < size ? cells[s * size + k] : empty
        }
      }
      return { readVector, state: { fields: { cells }, origins } }
    },
    weights: () => ({}),
  }
}
