// How a head of a tape finds its locations. Graves et al. 2014, arXiv:1410.5401, section 3.3.

import { softmax } from '../activations.ts'
import type { Vector } from '../tensors.ts'

/** Added under the root of a cosine similarity. */
const COSINE_FLOOR = 1e-6

export interface HeadTold {
  key: Vector
  strength: number
  gate: number
  shift: Vector
  sharpening: number
}

/** The weights of a head, [N]: content, gate, shift, sharpening                       (5)-(9) */
export function addressed(
  instruction: HeadTold, cells: Vector, before: Vector, tape: { circular: boolean; floor: number },
): Vector {
  const content = contentWeights(instruction.key, instruction.strength, cells)
  const gated = content.map((weight, i) => instruction.gate * weight + (1 - instruction.gate) * before[i])
  const moved = shifted(gated, instruction.shift, tape.circular)
  return softmax(moved.map((weight) => instruction.sharpening * Math.log(weight + tape.floor)))
}

/** Proportional to exp(beta K[k, M(i)]), with K the cosine of the angle               (5), (6) */
export function contentWeights(key: Vector, strength: number, cells: Vector): Vector {
  const width = key.length
  const keySquare = key.reduce((sum, number) => sum + number * number, 0)
  const scores = new Float64Array(cells.length / width)
  for (let i = 0; i < scores.length; i++) {
    let product = 0
    let square = 0
    for (let k = 0; k < width; k++) {
      const held = cells[i * width + k]
      product += key[k] * held
      square += held * held
    }
    scores[i] = (strength * product) / Math.sqrt(keySquare * square + COSINE_FLOOR)
  }
  return softmax(scores)
}

/** w(i) = sum_j w(i - j) s(j) for j from -s to s                                           (8) */
function shifted(weights: Vector, shift: Vector, circular: boolean): Vector {
  const count = weights.length
  const reach = (shift.length - 1) / 2
  return weights.map((_, i) => {
    let sum = 0
    for (let j = -reach; j <= reach; j++) {
      const from = circular ? (i - j + count) % count : i - j
      if (from >= 0 && from < count) sum += weights[from] * shift[j + reach]
    }
    return sum
  })
}
