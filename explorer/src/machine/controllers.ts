// The controllers: recurrent cells that see the input and the last read vector. A state is a list of
// vectors, the output h first.

import type { ControllerData } from '../data.ts'
import { ACTIVATIONS, sigmoid } from './activations.ts'
import { type Tensor, type Vector, addProduct, joined, linear } from './tensors.ts'

export type ControllerState = Vector[]
type Weights = Record<string, Tensor | undefined>

export interface Controller {
  step(x: Vector, state: ControllerState): ControllerState
}

/** Gates in the order i, f, g, o. */
function lstmCell(w: Weights, prefix: string, x: Vector, h: Vector, c: Vector): [Vector, Vector] {
  const sums = linear(w[`${prefix}weight_ih`]!, w[`${prefix}bias_ih`], x)
  addBias(sums, w[`${prefix}bias_hh`])
  addProduct(sums, w[`${prefix}weight_hh`]!, h)
  const size = h.length
  const cell = new Float64Array(size)
  const hidden = new Float64Array(size)
  for (let k = 0; k < size; k++) {
    const forget = sigmoid(sums[size + k])
    cell[k] = forget * c[k] + sigmoid(sums[k]) * Math.tanh(sums[2 * size + k])
    hidden[k] = sigmoid(sums[3 * size + k]) * Math.tanh(cell[k])
  }
  return [hidden, cell]
}

function lstm(w: Weights): Controller {
  return { step: (x, [h, c]) => lstmCell(w, 'controller.', x, h, c) }
}

/** Gates in the order r, z, n. */
function gru(w: Weights): Controller {
  return {
    step(x, [h]) {
      const size = h.length
      const fromInput = linear(w['controller.weight_ih']!, w['controller.bias_ih'], x)
      const fromHidden = linear(w['controller.weight_hh']!, w['controller.bias_hh'], h)
      const hidden = h.map((before, k) => {
        const reset = sigmoid(fromInput[k] + fromHidden[k])
        const update = sigmoid(fromInput[size + k] + fromHidden[size + k])
        const candidate = Math.tanh(fromInput[2 * size + k] + reset * fromHidden[2 * size + k])
        return candidate + update * (before - candidate)
      })
      return [hidden]
    },
  }
}

/** A simple recurrent network; without weight_hh it is a feed-forward controller. */
function elman(w: Weights, data: ControllerData): Controller {
  return {
    step(x, [h]) {
      const sums = linear(w['controller.weight_ih']!, w['controller.bias_ih'], x)
      addBias(sums, w['controller.bias_hh'])
      const recurrent = w['controller.weight_hh']
      if (recurrent) addProduct(sums, recurrent, h)
      return [sums.map(ACTIVATIONS[data.activation])]
    },
  }
}

/** LSTM layers on top of each other; a state has the h of the last layer first, then all h and c. */
function deepLstm(w: Weights, data: ControllerData): Controller {
  return {
    step(x, state) {
      const next: ControllerState = []
      let below = x
      for (let layer = 0; layer < data.layers; layer++) {
        const inputs = layer > 0 && data.skip_input ? joined(x, below) : below
        const [h, c] = [state[1 + 2 * layer], state[2 + 2 * layer]]
        const [hidden, cell] = lstmCell(w, `controller.${layer}.`, inputs, h, c)
        next.push(hidden, cell)
        below = hidden
      }
      return [below, ...next]
    },
  }
}

function addBias(sums: Vector, bias: Tensor | undefined): void {
  if (bias) for (let k = 0; k < sums.length; k++) sums[k] += bias.data[k]
}

/** By the name that a page gives. */
export const CONTROLLERS: Record<string, (w: Weights, data: ControllerData) => Controller> = {
  lstm,
  gru,
  elman,
  deep_lstm: deepLstm,
}
