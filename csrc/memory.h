// The interface between a memory's header and the frame: a batch entry's step, forward and
// backward.
//
// A memory defines `template <class T> using Forward` and `Backward`, classes constructed from a
// frame. The frame owns what all memories share: lengths, read vectors and their gradients,
// activations, threads, checkpoints, and both sources of instructions, heads and given fields.
#pragma once

#include "heads.h"
#include "workspace.h"

namespace unbounded {

template <class T>
class MemoryForward {
 public:
  virtual ~MemoryForward() = default;
  virtual void take_scratch(Workspace& space) = 0;
  // The number of batch entries whose tables fit in a near cache (split.h).
  virtual int64_t entries_at_once() const { return UNBOUNDED_MAX_ROWS; }
  // From the initial state.
  virtual void begin(int64_t b) = 0;
  virtual void take(int64_t t, int64_t b, const Instruction<T>& instruction) = 0;
  virtual void step(int64_t t, int64_t b, T* read_vector) = 0;
  // A step beyond the length of its sequence.
  virtual void skip(int64_t, int64_t) {}
  // Writes a checkpoint of the declared size.
  virtual void keep(int64_t, T*) {}
  // Writes the last state; again after further steps of a session.
  virtual void finish(int64_t b) = 0;
};

template <class T>
class MemoryBackward {
 public:
  virtual ~MemoryBackward() = default;
  virtual void take_scratch(Workspace& space) = 0;
  // The number of batch entries whose tables fit in a near cache (split.h).
  virtual int64_t entries_at_once() const { return UNBOUNDED_MAX_ROWS; }
  // Starts from the gradients of the last state.
  virtual void begin(int64_t b) = 0;
  // Maps the gradient of a read vector to that of the instruction, which it passes to `give`.
  virtual void step(int64_t t, int64_t b, const T* grad_read_vector) = 0;
  virtual void give(int64_t t, int64_t b, const InstructionGradient<T>& gradient) = 0;
  // Writes the gradients of the initial state, if they are needed.
  virtual void end(int64_t b) = 0;
};

template <class T>
void carry_out(const Frame<T>& f, MemoryForward<T>& memory, int64_t t, int64_t b,
               const Instruction<T>& instruction, T* read_vector) {
  memory.take(t, b, instruction);
  memory.step(t, b, read_vector);
  if (f.is_kept(t)) memory.keep(b, f.checkpoint(b, (t + 1) / f.c.block));
}

}  // namespace unbounded
