// What Python hands over: sizes and row-major buffers. kernels/_call.py mirrors the order.
//
// A memory adds no field of its own: its options, heads, fields of state and saved buffers stand in
// arrays, in the order of its declaration in kernels/structures/.
#pragma once

#include <cstdint>

constexpr int most_options = 16, most_heads = 24, most_fields = 8, most_saved = 12;

// `count` groups of `size` rows of the heads' linear map; `activation` is one of heads.h.
struct UnboundedHead {
  int64_t count, size, activation;
};

// What tests and measurements ask for; all 0 otherwise.
struct UnboundedSwitches {
  int64_t division;      // of split.h; 0 lets its rule decide
  int64_t alone_after;   // of threads.h
  int64_t skips_memory;  // leaves the memory's part out and reads 0: to measure its share
};

struct UnboundedCall {
  int64_t steps, batch, inputs, hidden, reading, head_count;
  int64_t rows;             // of the initial state's fields that have rows
  int64_t room;             // steps that the state's buffers have room for
  int64_t first_step;       // steps that came before in the same session
  int64_t saves;            // forward: keep what the backward pass needs
  int64_t threads;          // at most so many
  int64_t block;            // steps between checkpoints
  int64_t checkpoint_size;  // values of a checkpoint of one batch entry; 0 without checkpoints
  int64_t precision;        // of products in float32: one of tiles.h
  UnboundedSwitches switches;
  int64_t options[most_options];
  UnboundedHead heads[most_heads];

  const int64_t* lengths;   // [B] or null
  const void* x;            // [T, B, I]
  const void* weight_ih;    // [blocks H, I + R]
  const void* weight_hh;    // [blocks H, H] or null
  const void* bias_ih;      // [blocks H] or null
  const void* bias_hh;      // [blocks H] or null
  const void* head_weight;  // [K, H]
  const void* head_bias;    // [K] or null
  const void* hidden0;      // [B, H]
  const void* cell0;        // [B, H], for an LSTM
  const void* reading0;     // [B, R]
  const void* state0[most_fields];
  const void* instruction[most_heads];  // unroll: [B, T, rows of the head]

  void* gates;         // [T, B, lanes H]: activations out; the x part on the way
  void* outputs;       // [T, B, H]
  void* cells;         // [T or 2, B, H], for an LSTM
  void* tanh_cells;    // [T, B, H]
  void* readings;      // [T, B, R], 0 beyond a length; unroll: [B, T, R]
  void* hidden_last;   // [B, H]
  void* cell_last;     // [B, H]
  void* reading_last;  // [B, R]
  void* state_last[most_fields];
  void* checkpoints;   // [B, blocks, checkpoint size], when saving
  void* saved[most_saved];  // when saving
  int32_t* fault;      // [B]: what the memory's header says, 0 where all is well; or null

  const void* grad_outputs;   // [T, B, H] or null
  const void* grad_readings;  // [T, B, R] or null; unroll: [B, T, R]
  const void* grad_hidden_last;
  const void* grad_cell_last;
  const void* grad_reading_last;
  const void* grad_state_last[most_fields];  // or null
  void* grad_x;                              // [T, B, I] or null
  // Gradients of the weights, all of them or none.
  void* grad_weight_ih;    // [blocks H, I + R]
  void* grad_weight_hh;    // [blocks H, H] or null
  void* grad_bias_ih;      // [blocks H]
  void* grad_bias_hh;      // [blocks H], or null where it is that of bias_ih
  void* grad_head_weight;  // [K, H]
  void* grad_head_bias;    // [K]
  void* grad_hidden0;
  void* grad_cell0;
  void* grad_reading0;
  void* grad_state0[most_fields];  // all or none
  void* grad_instruction[most_heads];  // unroll: [B, T, rows of the head]
};

// Of csrc/output_loss.h; kernels/_output.py mirrors it. Strides are those of a sequence and of a step.
struct UnboundedOutput {
  int64_t steps, batch, hidden, symbols;
  int64_t target_strides[2], mask_strides[2];
  double scale;            // of the gradients
  const void* outputs;     // [T, B, H]
  const void* weight;      // [V, H]
  const void* bias;        // [V] or null
  const int64_t* targets;  // [B, T]
  const uint8_t* mask;     // [B, T]: what counts
  void* nats;              // one number
  void* logits;            // [T, B, V]
  void* grad_outputs;      // [T, B, H]
  void* grad_weight;       // [V, H]
  void* grad_bias;         // [V] or null
};
