// The neural deque: pop the top, pop the bottom, push both, read both. Grefenstette et al. 2015,
// eq. 6-11.

import { joined } from '../tensors.ts'
import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'
import { popped, readRows, readWeights, withOrigins } from './strengths.ts'

export const deque: MemoryMaker = (data) => {
  const width = optionOf(data, 'width')
  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array() }),
    step(state, told, step) {
      const without = popped(state.fields.strengths, told.top_pop[0], 'top')
      const left = popped(without, told.bottom_pop[0], 'bottom')
      const strengths = joined(told.bottom_push, left, told.top_push)
      const values = joined(told.bottom_value, state.fields.values, told.top_value)
      const reading = joined(
        readRows(readWeights(strengths, 'top'), values, width),
        readRows(readWeights(strengths, 'bottom'), values, width),
      )
      const origins = withOrigins([step], state.origins, [step])
      return { reading, state: { fields: { values, strengths }, origins } }
    },
    weights: (state) => ({
      top: readWeights(state.fields.strengths, 'top'),
      bottom: readWeights(state.fields.strengths, 'bottom'),
    }),
  }
}
