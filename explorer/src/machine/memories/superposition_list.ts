// The superposition list: HEAD is in the middle and the list moves under it. Joulin & Mikolov 2015
// (NIPS), section 3; what is left open is chosen as in memories/superposition/reference.py.

import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'
import { emptyOf, mixed, readAt, widthOf } from './superposition.ts'

const RIGHT = 0
const LEFT = 1
const INSERT = 2

export const superpositionList: MemoryMaker = (data) => {
  const count = optionOf(data, 'count')
  const depth = optionOf(data, 'depth')
  const capacity = data.options.capacity as number | null
  const most = capacity === null || capacity === undefined ? Number.POSITIVE_INFINITY : 2 * capacity - 1
  const [width, empty] = [widthOf(data), emptyOf(data)]
  const actions = data.heads[0].shape[1]
  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array(count).fill(-1) }),
    step(state, instruction, step) {
      const before = {
        cells: state.fields.cells,
        origins: state.origins,
        size: state.fields.cells.length / count / width,
      }
      const size = Math.min(before.size + 2, most)
      const head = (size - 1) / 2
      // A list that grows has one more cell on its left.
      const shift = (size - before.size) / 2
      const after = mixed(
        before, count, actions, instruction.action, instruction.value, size, width, empty,
        (action, i) => {
          const place = i - shift
          if (action === RIGHT) return { place: place + 1 }
          if (action === LEFT) return { place: place - 1 }
          if (action !== INSERT || i > head) return { place }
          return i === head ? { fresh: true } : { place: place + 1 }
        },
        step,
      )
      const readVector = readAt(after, count, width, empty, Array.from({ length: depth }, (_, k) => head - k))
      return { readVector, state: { fields: { cells: after.cells }, origins: after.origins } }
    },
    weights: () => ({}),
  }
}
