// The arguments from Python: sizes and row-major buffers. kernels/_call.py mirrors the order.
//
// A memory adds no member: its options, heads, state fields and saved buffers are in arrays, in the
// order of its declaration (kernel.py in its folder of memories/).
#pragma once

#include <cstdint>

constexpr int most_options = 16, most_heads = 24, most_fields = 8, most_saved = 12;

// `count` groups of `size` rows of the heads' linear map; `activation` is one of heads.h.
struct UnboundedHead {
  int64_t count, size, activation;
};

// Settings for tests and measurements; all 0 otherwise.
struct UnboundedSwitches {
  int64_t division;      // of split.h; 0 uses its rule
  int64_t alone_after;   // of threads.h
  int64_t skips_memory;  // omits the memory and reads 0, to measure its share
};

struct UnboundedCall {
  int64_t steps, batch, inputs, hidden, read_vector, head_count;
  int64_t rows;             // of the initial state's fields that have rows
  int64_t room;             // steps that the state's buffers have room for
  int64_t first_step;       // earlier steps of the session
  int64_t saves;            // forward: save for the backward pass
  int64_t threads;          // at most
  int64_t block;            // steps between checkpoints
  int64_t checkpoint_size;  // values of a checkpoint of one batch entry; 0 without checkpoints
  int64_t precision;        // of float32 products, see tiles.h
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
  const void* read_vector0;     // [B, R]
  const void* state0[most_fields];
  const void* instruction[most_heads];  // unroll: [B, T, rows of the head]

  void* gates;         // [T, B, lanes H]: first the x part, then activations
  void* outputs;       // [T, B, H]
  void* cells;         // [T or 2, B, H], for an LSTM
  void* tanh_cells;    // [T, B, H]
  void* read_vectors;      // [T, B, R], 0 beyond a length; unroll: [B, T, R]
  void* hidden_last;   // [B, H]
  void* cell_last;     // [B, H]
  void* read_vector_last;  // [B, R]
  void* state_last[most_fields];
  void* checkpoints;   // [B, blocks, checkpoint size], when saving
  void* saved[most_saved];  // when saving
  int32_t* error;      // [B]: error numbers of the memory's header, 0 for none; or null

  const void* grad_outputs;   // [T, B, H] or null
  const void* grad_read_vectors;  // [T, B, R] or null; unroll: [B, T, R]
  const void* grad_hidden_last;
  const void* grad_cell_last;
  const void* grad_read_vector_last;
  const void* grad_state_last[most_fields];  // or null
  void* grad_x;                              // [T, B, I] or null
  // Gradients of the weights, all or none.
  void* grad_weight_ih;    // [blocks H, I + R]
  void* grad_weight_hh;    // [blocks H, H] or null
  void* grad_bias_ih;      // [blocks H]
  void* grad_bias_hh;      // [blocks H], or null if equal to that of bias_ih
  void* grad_head_weight;  // [K, H]
  void* grad_head_bias;    // [K]
  void* grad_hidden0;
  void* grad_cell0;
  void* grad_read_vector0;
  void* grad_state0[most_fields];  // all or none
  void* grad_instruction[most_heads];  // unroll: [B, T, rows of the head]
};

// For csrc/delta_rule.h; kernels/_delta_rule.py mirrors it. D is the size of a head, n the steps of
// a token, C = (1 + 2 n) heads D: the queries of all heads, then the keys and the values of each step.
struct UnboundedDelta {
  int64_t batch, tokens, heads, size, steps;
  int64_t taps;            // of the convolution; 0 without one
  int64_t threads;
  const void* projected;   // [B, T, C]
  const void* recent;      // [B, taps - 1, C]: the inputs before the first token
  const void* weights;     // [taps, C] or null
  const void* strengths;   // [B, T, n, heads]
  const void* state;       // [B, heads, D, D]
  void* read;              // [B, T, heads, D]
  void* state_last;        // [B, heads, D, D]
  void* differences;       // [B, heads, T, n, D]: v - H^T k; null unless saving
  void* checkpoints;       // [B, heads, T / block, D, D]; null unless saving
  const void* grad_read;
  const void* grad_state_last;  // or null
  void* grad_projected;
  void* grad_recent;
  void* grad_weights;      // [B, taps, C]: of each sequence
  void* grad_strengths;
  void* grad_state;
};

// For csrc/output_loss.h; kernels/_static.py mirrors it. Strides are per sequence and per step.
struct UnboundedOutput {
  int64_t steps, batch, hidden, symbols;
  int64_t target_strides[2], mask_strides[2];
  double scale;            // of the gradients
  const void* outputs;     // [T, B, H]
  const void* weight;      // [V, H]
  const void* bias;        // [V] or null
  const int64_t* targets;  // [B, T]
  const uint8_t* mask;     // [B, T]: the steps that count
  void* nats;              // one number
  void* logits;            // [T, B, V]
  void* grad_outputs;      // [T, B, H]
  void* grad_weight;       // [V, H]
  void* grad_bias;         // [V] or null
};
