// Rows that only grow, shared by all states of a run: a step adds to the end of what is there, and
// copies nothing. A state that is not the last one, as after an edit, gets a copy of its own.

import type { Vector } from './tensors.ts'

/** How much of each buffer is in use, from and to. */
const used = new WeakMap<ArrayBufferLike, [number, number]>()
const BYTES = Float64Array.BYTES_PER_ELEMENT

/** The numbers `before`, then `held`, then `after`; `held` stays as it is. */
export function grown(before: Vector, held: Vector, after: Vector): Vector {
  let first = held.byteOffset / BYTES
  let all = new Float64Array(held.buffer)
  const own = used.get(held.buffer)
  const isLast = own !== undefined && own[0] === first && own[1] === first + held.length
  if (!isLast || first < before.length || first + held.length + after.length > all.length) {
    // Room for as much again, on each side that grows.
    const size = before.length + held.length + after.length
    const [front, back] = [before.length ? size : 0, after.length ? size : 0]
    all = new Float64Array(front + size + back)
    first = front + before.length
    all.set(held, first)
  }
  const start = first - before.length
  const end = first + held.length + after.length
  all.set(before, start)
  all.set(after, first + held.length)
  used.set(all.buffer, [start, end])
  return all.subarray(start, end)
}
