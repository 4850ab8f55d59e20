// The neural queue: pop, push, then read. Grefenstette et al. 2015, eq. 1, 4, 5.

import { grown } from '../grown.ts'
import { joined } from '../tensors.ts'
import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'
import { popped, readRows, readWeights, withOrigins } from './strengths.ts'

export const queue: MemoryMaker = (data) => {
  const width = optionOf(data, 'width')
  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array() }),
    step(state, instruction, step) {
      const strengths = joined(popped(state.fields.strengths, instruction.pop[0], 'bottom'), instruction.push)
      const values = grown(new Float64Array(), state.fields.values, instruction.value)
      const readVector = readRows(readWeights(strengths, 'bottom'), values, width)
      const origins = withOrigins([], state.origins, [step])
      return { readVector, state: { fields: { values, strengths }, origins } }
    },
    weights: (state) => ({ bottom: readWeights(state.fields.strengths, 'bottom') }),
  }
}
