// What a memory's header gives to the frame: a step of one batch entry, forward and backward.
//
// A memory says `template <class T> using Forward` and `Backward`, classes made from a frame. The
// frame owns what all memories share: lengths, readings and their gradients, activations, threads,
// checkpoints, and both ways to be told what to do, by heads and by given instructions.
#pragma once

#include "heads.h"
#include "workspace.h"

namespace unbounded {

template <class T>
class MemoryForward {
 public:
  virtual ~MemoryForward() = default;
  virtual void take_scratch(Workspace& space) = 0;
  // From the initial state.
  virtual void begin(int64_t b) = 0;
  virtual void take(int64_t t, int64_t b, const Instruction<T>& instruction) = 0;
  virtual void step(int64_t t, int64_t b, T* reading) = 0;
  // A step beyond the length of its sequence.
  virtual void skip(int64_t, int64_t) {}
  // Writes a checkpoint, of the size that the declaration says.
  virtual void keep(int64_t, T*) {}
  // Into the last state; once more after further steps of a session.
  virtual void finish(int64_t b) = 0;
};

template <class T>
class MemoryBackward {
 public:
  virtual ~MemoryBackward() = default;
  virtual void take_scratch(Workspace& space) = 0;
  // From the gradients of the last state.
  virtual void begin(int64_t b) = 0;
  // From the gradient of a reading to that of the instruction, which `give` then hands over.
  virtual void step(int64_t t, int64_t b, const T* grad_reading) = 0;
  virtual void give(int64_t t, int64_t b, const InstructionGradient<T>& gradient) = 0;
  // Into the gradients of the initial state, if they are wanted.
  virtual void end(int64_t b) = 0;
};

template <class T>
void carry_out(const Frame<T>& f, MemoryForward<T>& memory, int64_t t, int64_t b,
               const Instruction<T>& instruction, T* reading) {
  memory.take(t, b, instruction);
  memory.step(t, b, reading);
  if (f.is_kept(t)) memory.keep(b, f.checkpoint(b, (t + 1) / f.c.block));
}

}  // namespace unbounded
