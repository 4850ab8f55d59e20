// What superposition stacks and lists share: cells that are mixed by the weights of actions.
// Joulin & Mikolov 2015, arXiv:1503.01007, section 3.

import type { MemoryData } from '../../data.ts'
import type { Vector } from '../tensors.ts'

/** What an empty cell holds, unless a memory says otherwise. */
const EMPTY = -1

/** What an empty cell of that memory holds. */
export function emptyOf(data: MemoryData): number {
  const { empty } = data.options
  return typeof empty === 'number' ? empty : EMPTY
}

/** Numbers in a cell. */
export function widthOf(data: MemoryData): number {
  const { width } = data.options
  return typeof width === 'number' ? width : 1
}

export interface Cells {
  /** [count, size, width], structure by structure. */
  cells: Vector
  origins: Int32Array
  size: number
}

/** Where each action takes what a cell holds from: a place before, or the new value. */
export type Source = { place: number } | { fresh: true }

/**
 * Mix what the actions would leave, in empty cells `empty`: `sources(action, i)` says what each puts into cell i.
 * A cell's origin is that of the part that weighs most.
 */
export function mixed(
  before: Cells,
  count: number,
  actions: number,
  action: Vector,
  value: Vector,
  size: number,
  width: number,
  empty: number,
  sources: (action: number, i: number) => Source,
  step: number,
): Cells {
  const cells = new Float64Array(count * size * width)
  const origins = new Int32Array(count * size)
  for (let s = 0; s < count; s++) {
    for (let i = 0; i < size; i++) {
      let most = -1
      let origin = -1
      for (let a = 0; a < actions; a++) {
        const weight = action[s * actions + a]
        const source = sources(a, i)
        const inside = 'place' in source && source.place >= 0 && source.place < before.size
        const place = 'place' in source ? s * before.size + source.place : 0
        for (let k = 0; k < width; k++) {
          const held = 'fresh' in source ? value[s * width + k] : inside ? before.cells[place * width + k] : empty
          cells[(s * size + i) * width + k] += weight * held
        }
        if (weight > most) {
          most = weight
          origin = 'fresh' in source ? step : inside ? before.origins[place] : -1
        }
      }
      origins[s * size + i] = origin
    }
  }
  return { cells, origins, size }
}

/** The cells at `places` of each structure, side by side; empty ones where there are none. */
export function readAt({ cells, size }: Cells, count: number, width: number, empty: number, places: number[]): Vector {
  const readVector = new Float64Array(count * places.length * width).fill(empty)
  for (let s = 0; s < count; s++) {
    places.forEach((place, k) => {
      if (place < 0 || place >= size) return
      const start = (s * size + place) * width
      readVector.set(cells.subarray(start, start + width), (s * places.length + k) * width)
    })
  }
  return readVector
}
