// A forward pass that can be continued: what library.cpp hands out, whatever its template arguments.
#pragma once

#include "call.h"
#include "threads.h"

namespace unbounded {

class Session {
 public:
  virtual ~Session() = default;
  virtual bool run(const UnboundedCall& call, ParallelFor parallel_for) = 0;
  // Writes the strengths and what the backward pass needs of the live rows.
  virtual void finish(const UnboundedCall& call) = 0;
};

}  // namespace unbounded
