import { describe, expect, test } from 'vitest'
import { type MemoryCase, type ModelCase, memoryDifference, modelDifference } from './compare.ts'
import memories from './vectors/memories.json' with { type: 'json' }
import models from './vectors/models.json' with { type: 'json' }

// The issue asks for 1e-5; both sides are float64, so that only the order of sums differs.
const TOLERANCE = 1e-9

describe('memories', () => {
  test.each(memories as unknown as MemoryCase[])('$name', (data) => {
    expect(memoryDifference(data)).toBeLessThan(TOLERANCE)
  })
})

describe('models', () => {
  test.each(models as unknown as ModelCase[])('$name', (data) => {
    expect(modelDifference(data)).toBeLessThan(TOLERANCE)
  })
})
