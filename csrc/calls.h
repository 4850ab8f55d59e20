// Sessions, and the entry points for one type of values (float or double).
#pragma once

#include "call.h"
#include "threads.h"

namespace unbounded {

// A resumable forward pass: it packs the weights once and keeps the memory, so that a step of
// generation token by token costs no more than a step of a whole sequence.
class Session {
 public:
  virtual ~Session() = default;
  // Runs call.steps steps from the state hidden0, cell0 and read_vector0 to that in *_last.
  virtual bool run(const UnboundedCall& call, ParallelFor parallel_for) = 0;
  // Writes the last state of the memory and its part for the backward pass.
  virtual void finish(const UnboundedCall& call) = 0;
};

enum Status { done = 0, unknown_choice = 1, no_memory = 2, unknown_symbol = 3 };

// Each returns a Status.
template <class T>
struct Calls {
  static int open(const char* memory, const char* controller, const UnboundedCall& call,
                  ParallelFor parallel_for, Session** session);
  static int backward(const char* memory, const char* controller, const UnboundedCall& call,
                      ParallelFor parallel_for);
  static int unroll(const char* memory, bool is_backward, const UnboundedCall& call,
                    ParallelFor parallel_for);
};

}  // namespace unbounded
