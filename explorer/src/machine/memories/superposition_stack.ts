// The superposition stack: cell 0 is the top. Joulin & Mikolov 2015, eq. 3-6.

import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'
import { emptyOf, mixed, readAt, widthOf } from './superposition.ts'

const PUSH = 0
const POP = 1

export const superpositionStack: MemoryMaker = (data) => {
  const count = optionOf(data, 'count')
  const depth = optionOf(data, 'depth')
  const capacity = (data.options.capacity as number | null) ?? Number.POSITIVE_INFINITY
  const [width, empty] = [widthOf(data), emptyOf(data)]
  const actions = data.heads[0].shape[1]
  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array() }),
    step(state, instruction, step) {
      const before = {
        cells: state.fields.cells,
        origins: state.origins,
        size: state.fields.cells.length / count / width,
      }
      const size = Math.min(before.size + 1, capacity)
      const after = mixed(
        before, count, actions, instruction.action, instruction.value, size, width, empty,
        (action, i) => {
          if (action === PUSH) return i === 0 ? { fresh: true } : { place: i - 1 }
          return { place: action === POP ? i + 1 : i }
        },
        step,
      )
      const readVector = readAt(after, count, width, empty, Array.from({ length: depth }, (_, k) => k))
      return { readVector, state: { fields: { cells: after.cells }, origins: after.origins } }
    },
    weights: () => ({}),
  }
}
