// Groups that move the keys of a Lie-access memory. Yang 2016, arXiv:1602.08671; the sphere: Yang &
// Rush 2017, arXiv:1611.02854.

import type { Vector } from '../tensors.ts'

const LENGTH_FLOOR = 1e-12

/** x / sqrt(|x|^2 + floor) */
export function shortened(vector: Vector, floor = LENGTH_FLOOR): Vector {
  const square = vector.reduce((sum, number) => sum + number * number, 0)
  return vector.map((number) => number / Math.sqrt(square + floor))
}

export interface Group {
  hasLength: boolean
  act(action: Vector, key: Vector): Vector
  normalise(action: Vector): Vector
  place(key: Vector): Vector
}

const same = (vector: Vector): Vector => vector

/** (a x - b y, b x + a y) */
function complexProduct([a, b]: Vector, [x, y]: Vector): Vector {
  return Float64Array.of(a * x - b * y, b * x + a * y)
}

/** q cos + (axis x q) sin + axis <axis, q> (1 - cos), of length 1 again */
function turned(action: Vector, key: Vector): Vector {
  const [u, v, w, cos, sin] = action
  const [x, y, z] = key
  const along = (u * x + v * y + w * z) * (1 - cos)
  return shortened(
    Float64Array.of(
      x * cos + (v * z - w * y) * sin + u * along,
      y * cos + (w * x - u * z) * sin + v * along,
      z * cos + (u * y - v * x) * sin + w * along,
    ),
  )
}

export const GROUPS: Record<string, Group> = {
  translation: {
    hasLength: true,
    act: (action, key) => key.map((number, i) => number + action[i]),
    normalise: same,
    place: same,
  },
  scaling_rotation: { hasLength: true, act: complexProduct, normalise: same, place: same },
  rotation: { hasLength: false, act: complexProduct, normalise: (a) => shortened(a), place: same },
  sphere: {
    hasLength: false,
    act: turned,
    normalise: (a) => Float64Array.of(...shortened(a.slice(0, 3)), ...shortened(a.slice(3))),
    place: (key) => shortened(key),
  },
}
