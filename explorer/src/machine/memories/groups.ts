// Groups that move the keys of a Lie-access memory, and their distances. Yang 2016, arXiv:1602.08671;
// the sphere: Yang & Rush 2017, arXiv:1611.02854.

import { type Vector, joined } from '../tensors.ts'

const LENGTH_FLOOR = 1e-12
/** Keys of the Poincare disk stay this far from its edge. */
const EDGE = 1e-5
/** Below this, two terms of a series stand for the square of arsinh(sqrt x). */
const SMALL = 1e-6
/** Terms of the exponential of a matrix whose sums of rows are below 1/2. */
const TERMS = 16

const squareOf = (vector: Vector): number => vector.reduce((sum, number) => sum + number * number, 0)

/** x / sqrt(|x|^2 + floor) */
export function shortened(vector: Vector, floor = LENGTH_FLOOR): Vector {
  const square = squareOf(vector)
  return vector.map((number) => number / Math.sqrt(square + floor))
}

/** |q - k|^2 */
function squaredDistance(key: Vector, other: Vector): number {
  return key.reduce((sum, number, i) => sum + (number - other[i]) ** 2, 0)
}

export interface Group {
  /** The candidate action, from the controller's outputs and the action before. */
  candidate(outputs: Vector, before: Vector): Vector
  /** The candidate key, as it is interpolated. */
  candidateKey(key: Vector): Vector
  /** How many numbers of an action are interpolated; the others stay as they are. Undefined for all. */
  mixed?: number
  /** Bring an action to a length: a / sqrt(|a|^2 + floor); the action itself where it has none. */
  shorten(action: Vector, floor: number): Vector
  act(action: Vector, key: Vector): Vector
  normalise(action: Vector): Vector
  place(key: Vector): Vector
  /** The square of the distance of two keys. */
  distance(key: Vector, other: Vector): number
}

const same = (vector: Vector): Vector => vector

/** What most groups have: actions and keys are any numbers, and the distance is that of the plane. */
const PLAIN = {
  candidate: same, candidateKey: same, shorten: shortened, normalise: same, place: same, distance: squaredDistance,
}

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

/** The axis, (cos, sin) of the angle b tanh(x), and the bound b. */
function boundedTurn(outputs: Vector, before: Vector): Vector {
  const angle = before[5] * Math.tanh(outputs[3])
  return joined(shortened(outputs.slice(0, 3)), Float64Array.of(Math.cos(angle), Math.sin(angle), before[5]))
}

type Matrix = Vector[]

const product = (left: Matrix, right: Matrix): Matrix =>
  left.map((row) => right[0].map((_, j) => row.reduce((sum, number, k) => sum + number * right[k][j], 0)))

/** exp(X) = exp(X / 2^s)^(2^s), by the series of X / 2^s. */
function exponential(matrix: Matrix): Matrix {
  const norm = Math.max(...matrix.map((row) => row.reduce((sum, number) => sum + Math.abs(number), 0)))
  const halvings = Math.max(0, Math.ceil(Math.log2(2 * norm)))
  const small = matrix.map((row) => row.map((number) => number / 2 ** halvings))
  const one = matrix.map((row, i) => row.map((_, j) => (i === j ? 1 : 0)))
  let sum: Matrix = one
  // Horner's form: 1 + X (1 + X/2 (1 + X/3 ...)).
  for (let term = TERMS; term > 0; term--) {
    sum = product(small, sum).map((row, i) => row.map((number, j) => one[i][j] + number / term))
  }
  for (let k = 0; k < halvings; k++) sum = product(sum, sum)
  return sum
}

/** exp(X) k, of a skew-symmetric X whose numbers above the diagonal are given row by row. */
function rotated(skew: Vector, key: Vector): Vector {
  const size = key.length
  const matrix = Array.from({ length: size }, () => new Float64Array(size))
  let at = 0
  for (let i = 0; i < size; i++) {
    for (let j = i + 1; j < size; j++, at++) {
      matrix[i][j] = skew[at]
      matrix[j][i] = -skew[at]
    }
  }
  return Float64Array.from(exponential(matrix), (row) => row.reduce((sum, number, k) => sum + number * key[k], 0))
}

/** The nearest key that is not beyond the edge of the disk. */
function onDisk(key: Vector): Vector {
  const [most, square] = [1 - EDGE, squareOf(key)]
  return square > most ** 2 ? key.map((number) => (number * most) / Math.sqrt(square)) : key
}

/** (u z + a) / (1 + conj(a) u z), u = e^(i angle), |a| = tanh(length / 2) */
function movedOnDisk(action: Vector, key: Vector): Vector {
  const vector = action.subarray(0, 2)
  const length = Math.sqrt(squareOf(vector) + LENGTH_FLOOR)
  const [a, b] = onDisk(vector.map((number) => (number * Math.tanh(length / 2)) / length))
  const [x, y] = complexProduct(Float64Array.of(Math.cos(action[2]), Math.sin(action[2])), key)
  const below = Float64Array.of(1 + a * x + b * y, a * y - b * x)
  const moved = complexProduct(Float64Array.of(x + a, y + b), Float64Array.of(below[0], -below[1]))
  return onDisk(moved.map((number) => number / squareOf(below)))
}

/** 4 arsinh(sqrt x)^2, x = |q - k|^2 / (1 - |q|^2) / (1 - |k|^2) */
function hyperbolic(key: Vector, other: Vector): number {
  const [q, k] = [onDisk(key), onDisk(other)]
  const x = squaredDistance(q, k) / ((1 - squareOf(q)) * (1 - squareOf(k)))
  return x > SMALL ? 4 * Math.asinh(Math.sqrt(x)) ** 2 : 4 * x * (1 - x / 3)
}

const SPHERE: Group = {
  ...PLAIN,
  shorten: same,
  act: turned,
  normalise: (a) => joined(shortened(a.slice(0, 3)), shortened(a.slice(3, 5)), a.slice(5)),
  place: (key) => shortened(key),
}
const BOUNDED_SPHERE: Group = { ...SPHERE, candidate: boundedTurn, candidateKey: (key) => shortened(key), mixed: 5 }

const GROUPS: Record<string, Group> = {
  translation: { ...PLAIN, act: (action, key) => key.map((number, i) => number + action[i]) },
  scaling_rotation: { ...PLAIN, act: complexProduct },
  rotation: { ...PLAIN, shorten: same, act: complexProduct, normalise: (a) => shortened(a) },
  sphere: SPHERE,
  bounded_sphere: BOUNDED_SPHERE,
  learned_bound_sphere: BOUNDED_SPHERE,
  poincare_disk: {
    ...PLAIN,
    shorten: (action, floor) => joined(shortened(action.slice(0, 2), floor), action.slice(2)),
    act: movedOnDisk, place: onDisk, distance: hyperbolic,
  },
}

/** The groups whose keys have more than two numbers, by the names of those that have two. */
const LARGER: Record<string, Group> = {
  rotation: { ...PLAIN, shorten: same, act: rotated },
  scaling_rotation: {
    ...PLAIN,
    shorten: (action, floor) => joined(shortened(action.slice(0, 1), floor), action.slice(1)),
    act: (action, key) => rotated(action.subarray(1), key).map((number) => action[0] * number),
  },
}

export function groupOf(name: string, keySize: number): Group {
  const group = (keySize > 2 && LARGER[name]) || GROUPS[name]
  if (!group) throw new Error(`This page does not know the group ${name}.`)
  return group
}
