// Heads: one linear map from the controller's output to a whole instruction.

import type { Head } from '../data.ts'
import { activated } from './activations.ts'
import { type Tensor, type Vector, linear } from './tensors.ts'

/** An instruction's fields by name, each laid out flat. */
export type Instruction = Record<string, Vector>

export function sizeOf(head: Head): number {
  return head.shape.reduce((product, axis) => product * axis, 1)
}

/** Whether each number of a head is a gate in 0..1 of its own: of one head, or of each of several. */
export function isPlainGate(head: Head): boolean {
  return head.gate && head.shape.length <= 1 && head.activation !== 'softmax'
}

/** The instruction that a hidden state gives. */
export function instructionOf(
  heads: Head[],
  weight: Tensor,
  bias: Tensor | undefined,
  hidden: Vector,
): Instruction {
  const products = linear(weight, bias, hidden)
  const instruction: Instruction = {}
  let at = 0
  for (const head of heads) {
    const size = sizeOf(head)
    const part = products.slice(at, at + size)
    instruction[head.name] = activated(head.activation, part, head.shape.at(-1) ?? 1)
    at += size
  }
  return instruction
}
