// What Python hands over: sizes and row-major buffers. kernels/_library.py mirrors the order.
#pragma once

#include <cstdint>

struct UnboundedCall {
  int64_t steps, batch, hidden, width, initial_rows;
  int64_t capacity;    // steps that the values have room for
  int64_t first_step;  // steps that came before in the same session
  int64_t saves;    // forward: keep what the backward pass needs
  int64_t threads;  // at most so many
  int64_t division;  // of split.h; 0 lets its rule decide
  int64_t alone_after;  // of threads.h; 0 but in tests
  int64_t skips_memory;  // leaves the memory's part out and reads 0: to measure its share
  int64_t weight_ih_stride;
  int64_t inputs;  // of x
  // Superposition: structures, cells read of each, actions, most cells or 0, steps between the
  // states that are kept.
  int64_t count, depth, actions, limit, block;
  const int64_t* lengths;   // [B] or null
  const void* weight_ih;    // [blocks H, R], the reading's columns
  const void* weight_hh;    // [blocks H, H] or null
  const void* bias_ih;      // [blocks H] or null
  const void* bias_hh;      // [blocks H] or null
  const void* head_weight;  // [K, H]
  const void* head_bias;    // [K] or null
  const void* hidden0;      // [B, H]
  const void* cell0;        // [B, H]
  const void* reading0;     // [B, R]
  const void* strengths0;   // [B, N0]

  void* gates;       // [T, B, lanes H]: activations out; the x part on the way
  void* outputs;     // [T, B, H]
  void* cells;       // [T or 2, B, H], for an LSTM
  void* tanh_cells;  // [T, B, H]
  void* readings;    // [T or 2, B, R]
  void* values;      // [B, N, M], the initial rows in place
  void* strengths;   // [B, N]
  void* hidden_last; // [B, H]
  void* cell_last;   // [B, H]
  void* reading_last;  // [B, R]
  void* instructions;  // [T or 1, B, 2 parts]: push and pop; unroll: [B, T, 2 parts]
  int32_t* deaths;     // [B, T, parts], when saving
  void* kept;          // [B, T, parts]
  int32_t* grave_rows; // [B, N]
  void* grave_strengths;  // [B, N]
  int32_t* live_range;    // [B, 3]: lowest and highest position in use, graves

  // Superposition; S is padded to whole registers in planes and checkpoints.
  const void* memory0;  // [B, S, N0]
  void* memory_last;    // [B, S, N]
  void* planes;         // [T or 1, B, actions + 1, S]: weights of the actions, then values
  void* checkpoints;    // [B, blocks, rows, S], when saving
  int32_t* overflow;    // [B]: 1, 2 where a cell was lost at the first, the second end; or null

  const void* grad_outputs;  // [T, B, H] or null; unroll: of the readings [B, T, R]
  const void* grad_hidden_last;
  const void* grad_cell_last;
  const void* grad_reading_last;
  const void* grad_strengths_last;  // [B, N] or null
  const void* grad_values_last;     // [B, N, M] or null; not of unroll
  void* grad_values0;       // [B, N0, M]; not of unroll
  void* grad_values;        // unroll: [B, N, M], of the final values in, complete out
  void* grad_instructions;  // unroll: [B, T, 2 parts] or [B, T, K]
  void* grad_hidden0;
  void* grad_cell0;
  void* grad_reading0;
  void* grad_strengths0;  // [B, N0]
  const void* x;           // [T, B, I]
  void* grad_x;            // [T, B, I] or null
  // Gradients of the weights, all of them or none.
  void* grad_weight_ih;    // [blocks H, I + R]
  void* grad_weight_hh;    // [blocks H, H] or null
  void* grad_bias_ih;      // [blocks H]
  void* grad_bias_hh;      // [blocks H], or null where it is that of bias_ih
  void* grad_head_weight;  // [K, H]
  void* grad_head_bias;    // [K]
  const void* grad_memory_last;  // [B, S, N] or null
  void* grad_memory0;            // [B, S, N0] or null
};
