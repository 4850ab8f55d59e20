// Tokens in, logits out: embedding or one-hot, controller, heads, memory, readout. One step at a
// time, from a state to the next; nothing is changed in place, so every state can be kept.

import type { ModelData, RunData } from '../data.ts'
import { CONTROLLERS, type Controller, type ControllerState } from './controllers.ts'
import { type Instruction, instructionOf } from './heads.ts'
import { MEMORIES } from './memories/index.ts'
import type { Memory, MemoryState } from './memories/memory.ts'
import { type Tensor, type Vector, joined, linear, unpack, vectorOf } from './tensors.ts'

export interface ModelState {
  controller: ControllerState
  readVector: Vector
  memory: MemoryState | null
  /** Whether an answer has begun, in which nothing is written. */
  silent: boolean
  step: number
}

export interface Outcome {
  state: ModelState
  logits: Vector
  instruction: Instruction | null
}

/** Numbers of an instruction that a reader has changed, by the name of the head and the place. */
export type Changes = Record<string, Record<number, number>>

export class Model {
  readonly data: ModelData
  readonly memory: Memory | null
  private readonly tensors: Record<string, Tensor>
  private readonly controller: Controller

  constructor(run: Pick<RunData, 'model' | 'weights'>) {
    if (!run.weights) throw new Error('There are no weights in this page, only traces.')
    this.data = run.model
    this.tensors = unpack(run.weights)
    const { controller, memory } = run.model
    const makeController = CONTROLLERS[controller.kind]
    if (!makeController) throw new Error(`This page does not know the controller ${controller.kind}.`)
    this.controller = makeController(this.tensors, controller)
    const makeMemory = memory === null ? null : MEMORIES[memory.kind]
    if (makeMemory === undefined) throw new Error(`This page does not know the memory ${memory?.kind}.`)
    this.memory = makeMemory === null || memory === null ? null : makeMemory(memory)
  }

  /** The state before the first step; `given` are the tokens that are known then. */
  begin(given: readonly number[] = []): ModelState {
    const controller = this.initial('initial.controller.')
    const fields = this.initial('initial.memory.')
    if ('jump' in fields) fields.jump = { shape: [], data: Float64Array.of(this.lengthOf(given)) }
    const readVector = this.tensors['initial.reading']
    return {
      controller: Object.values(controller).map(vectorOf),
      readVector: readVector ? vectorOf(readVector) : new Float64Array(),
      memory: this.memory ? this.memory.begin(fields) : null,
      silent: false,
      step: 0,
    }
  }

  step(state: ModelState, token: number, changes?: Changes): Outcome {
    const x = this.seen(token)
    const controller = this.controller.step(joined(x, state.readVector), state.controller)
    const hidden = controller[0]
    const silent = state.silent || token === this.data.read_only_token
    const next = { ...state, controller, silent, step: state.step + 1 }
    if (!this.memory || !this.data.memory || !state.memory) {
      return { state: next, logits: this.logits(hidden), instruction: null }
    }
    const { heads, write_strengths } = this.data.memory
    const { 'heads.weight': weight, 'heads.bias': bias } = this.tensors
    const instruction = instructionOf(heads, weight, bias, hidden)
    if (silent) for (const name of write_strengths) instruction[name].fill(0)
    for (const [name, places] of Object.entries(changes ?? {})) {
      for (const [place, value] of Object.entries(places)) instruction[name][Number(place)] = value
    }
    const { readVector, state: memory } = this.memory.step(state.memory, instruction, state.step)
    const seen = this.data.output_read_vector ? joined(hidden, readVector) : hidden
    return { state: { ...next, readVector, memory }, logits: this.logits(seen), instruction }
  }

  private lengthOf(given: readonly number[]): number {
    const end = given.indexOf(this.data.length_token ?? -1)
    return end < 0 ? given.length : end
  }

  private logits(seen: Vector): Vector {
    const readout = this.tensors['readout.weight']
    const output = readout ? linear(readout, this.tensors['readout.bias'], seen).map(Math.tanh) : seen
    return linear(this.tensors['output.weight'], this.tensors['output.bias'], output)
  }

  /** What the controller sees of a token. */
  private seen(token: number): Vector {
    const { input, inputs, input_bits: bits } = this.data
    if (token < 0 || token >= inputs) throw new Error(`There is no input ${token} among ${inputs}.`)
    if (input === 'embedding') {
      const { shape, data } = this.tensors.embedding
      return Float64Array.from(data.subarray(token * shape[1], (token + 1) * shape[1]))
    }
    if (input === 'one_hot') {
      const x = new Float64Array(inputs)
      x[token] = 1
      return x
    }
    const places = Array.from({ length: bits }, (_, place) => (token >> place) & 1)
    if (bits > 0 && inputs <= 2 ** bits) return Float64Array.from(places)
    const half = (((inputs - 1) >> bits) + 1) / 2
    const above = token >> bits
    const fraction = (above < half ? above : above - 2 * half) / half
    return Float64Array.from([...places, this.data.input_number === 'fraction' ? fraction : above])
  }

  private initial(prefix: string): Record<string, Tensor> {
    const own = Object.entries(this.tensors).filter(([name]) => name.startsWith(prefix))
    return Object.fromEntries(own.map(([name, tensor]) => [name.slice(prefix.length), tensor]))
  }
}
