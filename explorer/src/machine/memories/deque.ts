// The neural deque: pop the top, pop the bottom, push both, read both. Grefenstette et al. 2015,
// eq. 6-11.

import { grown } from '../grown.ts'
import { joined } from '../tensors.ts'
import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'
import { popped, readRows, readWeights, withOrigins } from './strengths.ts'

export const deque: MemoryMaker = (data) => {
  const width = optionOf(data, 'width')
  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array() }),
    step(state, instruction, step) {
      const without = popped(state.fields.strengths, instruction.top_pop[0], 'top')
      const left = popped(without, instruction.bottom_pop[0], 'bottom')
      const strengths = joined(instruction.bottom_push, left, instruction.top_push)
      const values = grown(instruction.bottom_value, state.fields.values, instruction.top_value)
      const readVector = joined(
        readRows(readWeights(strengths, 'top'), values, width),
        readRows(readWeights(strengths, 'bottom'), values, width),
      )
      const origins = withOrigins([step], state.origins, [step])
      return { readVector, state: { fields: { values, strengths }, origins } }
    },
    weights: (state) => ({
      top: readWeights(state.fields.strengths, 'top'),
      bottom: readWeights(state.fields.strengths, 'bottom'),
    }),
  }
}
