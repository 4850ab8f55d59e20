// What stands in a page: runs with their vocabularies, weights and samples. Written by
// src/unbounded/explorer/ and described in docs/explorer.md.

export const FORMAT = 'unbounded-page'
export const VERSION = 1

export interface Head {
  name: string
  shape: number[]
  activation: string
  /** Whether it is a choice that is made wholly or not at all, such as to push. */
  gate: boolean
}

export interface MemoryData {
  kind: string
  options: Record<string, number | string | boolean | null>
  heads: Head[]
  /** Heads that are 0 while nothing may be written. */
  write_strengths: string[]
}

export interface ControllerData {
  kind: string
  activation: string
  /** Layers of a deep LSTM, and whether each sees the input. */
  layers: number
  skip_input: boolean
}

export interface ModelData {
  inputs: number
  outputs: number
  input: 'embedding' | 'one_hot' | 'bits'
  input_bits: number
  /** What is above the bits as a fraction in [-1, 1); without it as the number that it is. */
  input_number?: 'fraction'
  read_only_token: number | null
  /** Of a memory that uses the length of its input: the token that ends it, null for the whole input. */
  length_token?: number | null
  output_read_vector: boolean
  controller: ControllerData
  memory: MemoryData | null
}

export interface TensorData {
  shape: number[]
  /** Where it begins among the weights, in numbers; or the one number that it is full of. */
  offset?: number
  fill?: number
  /** Of int8, the size of a step in each row. */
  scales?: number[]
}

export interface WeightsData {
  precision: 'int8' | 'float16' | 'float32' | 'float64'
  /** Of int8, all tensors that are no linear maps. */
  rest?: WeightsData
  data: string
  tensors: Record<string, TensorData>
}

/** How the page finds the target of an input that no sample has, and draws one. */
export interface RuleData {
  kind: 'order' | 'digits' | 'marks' | 'grammar' | 'counting' | 'sum' | 'backwards' | 'dyck'
  name: string
  /** Of brackets: how many kinds, and whether the whole word alone has a label. */
  kinds?: number
  last?: boolean
  /** Of counting: letters of the alphabet, and how many times longer the second run is. */
  letters?: number
  repeats?: number
  /** Of marks: number of symbols that the answer repeats, for drawing. */
  sequence_length?: number
  grammar?: GrammarData
}

/** Rules as they are written in Python: left, source, target; and classes: name, prefixes, count. */
export interface GrammarData {
  root: string
  rules: [string, string, string][]
  classes: [string, string, string, number][]
}

export interface TaskData {
  name: string
  layout: 'pairs' | 'answer' | 'stream' | 'labels'
  objective: 'cross_entropy' | 'binary' | 'bits'
  inputs: string[]
  outputs: string[]
  /** Tokens before a typed source, and after it. */
  before: number[]
  after: number[]
  /** The first input token of a source symbol, and how many there are. */
  source: [number, number]
  end_token: number | null
  /** The input that feeds an output back; null where nothing is fed back. */
  output_to_input: number[] | null
  answer_token: number | null
  lengths: [number, number]
  typed: boolean
  rule: RuleData | null
  /** Why there is none, as the end of a sentence. */
  no_rule: string
}

/** Numbers in base64; an int8 is a number of `scale`s. */
export interface BlockData {
  shape: number[]
  encoding: 'float32' | 'float16' | 'int8'
  data: string
  scale?: number
}

/** A trace of version 3, as docs/formats.md has it. */
export interface TraceData {
  format: string
  version: number
  symbols: string[]
  predicted: string[]
  probability: number[]
  target: (string | null)[]
  memory: MemoryData
  initial: Record<string, BlockData>
  instructions: Record<string, BlockData>
  /** The probability of each output at each step, where it was recorded. */
  distribution?: BlockData
}

export interface SampleData {
  inputs: number[]
  targets: number[]
  /** From which steps count, 1 or 0 each. */
  mask: number[]
  /** Steps before the answer, of layouts with an answer. */
  prompt: number
}

export interface CurveData {
  name: string
  unit: string
  batches: number[]
  values: number[]
}

export interface RunData {
  name: string
  title: string
  note: string
  task: TaskData
  model: ModelData
  /** Null where there are only traces. */
  weights: WeightsData | null
  traces?: TraceData[]
  samples: SampleData[]
  curves: CurveData[]
  /** Of a moment of training that was kept. */
  after_batches?: number
}

export interface PageData {
  format: string
  version: number
  title: string
  runs: RunData[]
}

/** Read what a page holds; throws an Error with a message for the reader. */
export function readPage(text: string): PageData {
  let data: PageData
  try {
    data = JSON.parse(text) as PageData
  } catch (error) {
    throw new Error(`The data in this page is damaged (${String(error)}). Export it again.`)
  }
  if (data?.format !== FORMAT || data.version !== VERSION) {
    throw new Error(
      `Expected data of format ${FORMAT} version ${VERSION}, got ${String(data?.format)} version ` +
        `${String(data?.version)}. Export the page again with the version of unbounded you use.`,
    )
  }
  if (!Array.isArray(data.runs) || data.runs.length === 0) {
    throw new Error('There is no run in this page. Export it again with `unbounded explore RUN`.')
  }
  return data
}
