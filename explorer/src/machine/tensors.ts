// Weights as they come out of a page, and the linear maps that are made of them.

import type { TensorData, WeightsData } from '../data.ts'

export type Numbers = Float32Array | Float64Array
export type Vector = Float64Array

export interface Tensor {
  shape: number[]
  data: Numbers
}

const BYTES = { int8: 1, float16: 2, float32: 4, float64: 8 }

/** All tensors of a page's weights, by name. */
export function unpack(weights: WeightsData): Record<string, Tensor> {
  const numbers = decode(weights.data, weights.precision)
  const tensors: Record<string, Tensor> = weights.rest ? unpack(weights.rest) : {}
  for (const [name, tensor] of Object.entries(weights.tensors)) {
    tensors[name] = { shape: tensor.shape, data: slice(numbers, tensor, name) }
  }
  return tensors
}

function slice(numbers: Numbers, tensor: TensorData, name: string): Numbers {
  const size = tensor.shape.reduce((product, axis) => product * axis, 1)
  if (tensor.fill !== undefined) return new Float64Array(size).fill(tensor.fill)
  const start = tensor.offset ?? 0
  if (start + size > numbers.length) {
    throw new Error(`The weights of this page are cut off at ${name}. Export it again.`)
  }
  const own = numbers.subarray(start, start + size)
  const { scales } = tensor
  return scales ? own.map((steps, place) => steps * scales[Math.floor((place * scales.length) / size)]) : own
}

/** Numbers from base64, little endian. */
export function decode(text: string, precision: keyof typeof BYTES): Numbers {
  const raw = atob(text)
  const bytes = new Uint8Array(raw.length)
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i)
  const count = Math.floor(bytes.length / BYTES[precision])
  const view = new DataView(bytes.buffer)
  if (precision === 'int8') return Float32Array.from({ length: count }, (_, i) => view.getInt8(i))
  if (precision === 'float64') {
    return Float64Array.from({ length: count }, (_, i) => view.getFloat64(8 * i, true))
  }
  if (precision === 'float32') {
    return Float32Array.from({ length: count }, (_, i) => view.getFloat32(4 * i, true))
  }
  const numbers = new Float32Array(count)
  for (let i = 0; i < count; i++) numbers[i] = half(view.getUint16(2 * i, true))
  return numbers
}

/** The number that 16 bits stand for: sign, 5 bits of exponent, 10 of fraction. */
export function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 31
  const fraction = bits & 1023
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

/** Add W x to `output`; W is [rows, columns]. Four rows at a time: most of a step is spent here. */
export function addProduct(output: Vector, weight: Tensor, x: Vector): void {
  const [rows, columns] = weight.shape
  const data = weight.data
  const fours = rows - (rows % 4)
  for (let row = 0; row < fours; row += 4) {
    const first = row * columns
    const [second, third, fourth] = [first + columns, first + 2 * columns, first + 3 * columns]
    let [a, b, c, d] = [0, 0, 0, 0]
    for (let column = 0; column < columns; column++) {
      const each = x[column]
      a += data[first + column] * each
      b += data[second + column] * each
      c += data[third + column] * each
      d += data[fourth + column] * each
    }
    output[row] += a
    output[row + 1] += b
    output[row + 2] += c
    output[row + 3] += d
  }
  for (let row = fours; row < rows; row++) {
    let sum = 0
    for (let column = 0; column < columns; column++) sum += data[row * columns + column] * x[column]
    output[row] += sum
  }
}

/** W x + b, where b may not be there. */
export function linear(weight: Tensor, bias: Tensor | undefined, x: Vector): Vector {
  const output = new Float64Array(weight.shape[0])
  if (bias) output.set(bias.data)
  addProduct(output, weight, x)
  return output
}

export function joined(...parts: Vector[]): Vector {
  const all = new Float64Array(parts.reduce((size, part) => size + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

export function vectorOf(tensor: Tensor): Vector {
  return Float64Array.from(tensor.data)
}
