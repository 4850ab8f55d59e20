// What a memory is: a pure step from a state and an instruction to a read vector and the next state.

import type { MemoryData } from '../../data.ts'
import type { Instruction } from '../heads.ts'
import type { Tensor, Vector } from '../tensors.ts'

/** A state by the names of its fields, each flat, with what a view shows beside it. */
export interface MemoryState {
  /** Flat, as Python lays them out. */
  fields: Record<string, Vector>
  /** The step that each row or cell came from, -1 where it was there before the first. */
  origins: Int32Array
  /** What was read of each row, where the state alone does not tell. */
  weights?: Record<string, Vector>
  /** What else a view shows that the fields do not tell. */
  shown?: Record<string, Vector>
}

export interface Memory {
  begin(initial: Record<string, Tensor>): MemoryState
  /** `step` is the number of the step, from 0. */
  step(state: MemoryState, instruction: Instruction, step: number): { readVector: Vector; state: MemoryState }
  /** What is read of each row, by the name of the head or end; empty where a memory has no rows. */
  weights(state: MemoryState): Record<string, Vector>
}

export type MemoryMaker = (data: MemoryData) => Memory

export function optionOf(data: MemoryData, name: string): number {
  const value = data.options[name]
  if (typeof value !== 'number') throw new Error(`memory ${data.kind}: the option ${name} is missing`)
  return value
}

export function fieldsOf(initial: Record<string, Tensor>): Record<string, Vector> {
  const fields: Record<string, Vector> = {}
  for (const [name, tensor] of Object.entries(initial)) fields[name] = Float64Array.from(tensor.data)
  return fields
}

/** The names of the heads of all layers, in their order. */
export function layerHeads(data: MemoryData): string[] {
  const [layers, heads] = [optionOf(data, 'layers'), optionOf(data, 'num_heads')]
  return Array.from({ length: layers * heads }, (_, k) => `layer ${Math.floor(k / heads) + 1} head ${(k % heads) + 1}`)
}

/** The names of the heads of one kind, with numbers where there are several. */
export function headNames(who: 'read' | 'write', count: number): string[] {
  return Array.from({ length: count }, (_, head) => (count > 1 ? `${who} head ${head + 1}` : `${who} head`))
}
