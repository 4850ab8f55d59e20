// The memory and the controller of a call, selected by names, for one type of values.
//
// float32.cpp and float64.cpp instantiate this, so that a build compiles both at once.
#pragma once

#include <cstring>

#include "calls.h"
#include "dnc.h"
#include "lie_access.h"
#include "nondeterministic.h"
#include "push_pop.h"
#include "random_access.h"
#include "recurrence.h"
#include "register.h"
#include "rolling_tape.h"
#include "superposition.h"
#include "turing_tape.h"
#include "unroll.h"

namespace unbounded {
namespace {

bool is(const char* name, const char* other) { return std::strcmp(name, other) == 0; }

// Calls work.template go<T, Controller, Memory>() for the memory with a name.
template <class T, class Controller, class Work>
int with_memory(const char* memory, Work& work) {
  if (is(memory, "stack")) return work.template go<T, Controller, PushPop<Stack>>();
  if (is(memory, "queue")) return work.template go<T, Controller, PushPop<Queue>>();
  if (is(memory, "deque")) return work.template go<T, Controller, PushPop<Deque>>();
  if (is(memory, "superposition_stack"))
    return work.template go<T, Controller, Superposition<SuperpositionStack>>();
  if (is(memory, "superposition_list"))
    return work.template go<T, Controller, Superposition<SuperpositionList>>();
  if (is(memory, "register")) return work.template go<T, Controller, Register>();
  if (is(memory, "turing_tape")) return work.template go<T, Controller, TuringTape>();
  if (is(memory, "rolling_tape")) return work.template go<T, Controller, RollingTape>();
  if (is(memory, "nondeterministic")) return work.template go<T, Controller, Nondeterministic>();
  if (is(memory, "dnc")) return work.template go<T, Controller, Dnc>();
  if (is(memory, "lie_access")) return work.template go<T, Controller, LieAccess>();
  if (is(memory, "random_access")) return work.template go<T, Controller, RandomAccess>();
  return unknown_choice;
}

template <class T, class Work>
int with_controller(const char* memory, const char* controller, Work& work) {
  if (is(controller, "lstm")) return with_memory<T, Lstm>(memory, work);
  if (is(controller, "gru")) return with_memory<T, Gru>(memory, work);
  if (is(controller, "elman_tanh")) return with_memory<T, Elman<Tanh>>(memory, work);
  if (is(controller, "elman_sigmoid")) return with_memory<T, Elman<Sigmoid>>(memory, work);
  if (is(controller, "elman_relu")) return with_memory<T, Elman<Relu>>(memory, work);
  return unknown_choice;
}

struct OpenSession {
  const UnboundedCall& call;
  ParallelFor parallel_for;
  Session* session = nullptr;

  template <class T, class Controller, class Memory>
  int go() {
    auto* opened = Recurrence<T>::template make<Controller, Memory>(call);
    if (opened == nullptr) return no_memory;
    if (!opened->open(parallel_for)) {
      delete opened;
      return no_memory;
    }
    session = opened;
    return done;
  }
};

struct RunBackward {
  const UnboundedCall& call;
  ParallelFor parallel_for;

  template <class T, class Controller, class Memory>
  int go() {
    Frame<T> frame(call, Controller::lane_count);
    Workspace between;
    auto take_scratch = [&] {
      const int64_t rows = call.steps * call.batch;
      between.take(frame.grad_gates, rows * frame.inner());
      between.take(frame.grad_products, rows * frame.head_rows);
    };
    take_scratch();
    if (!between.allocate()) return no_memory;
    take_scratch();
    ControllerBackwardOf<T, Controller> controller(frame);
    typename Memory::template Backward<T> memory(frame);
    WeightGradients<T> weights;
    weights.template take<Controller>(frame);
    InputGradient<T> input;
    input.template take<Controller>(frame);
    RecurrenceBackward<T> pass(frame, controller, memory, weights, input);
    return pass.run(parallel_for) ? done : no_memory;
  }
};

struct RunUnroll {
  const UnboundedCall& call;
  ParallelFor parallel_for;
  bool is_backward;

  template <class T, class, class Memory>
  int go() {
    Unroll<T, Memory> unroll(call);
    const bool ok = is_backward ? unroll.backward(parallel_for) : unroll.forward(parallel_for);
    return ok ? done : no_memory;
  }
};

}  // namespace

template <class T>
int Calls<T>::open(const char* memory, const char* controller, const UnboundedCall& call,
                   ParallelFor parallel_for, Session** session) {
  OpenSession work{call, parallel_for};
  const int status = with_controller<T>(memory, controller, work);
  *session = work.session;
  return status;
}

template <class T>
int Calls<T>::backward(const char* memory, const char* controller, const UnboundedCall& call,
                       ParallelFor parallel_for) {
  RunBackward work{call, parallel_for};
  return with_controller<T>(memory, controller, work);
}

template <class T>
int Calls<T>::unroll(const char* memory, bool is_backward, const UnboundedCall& call,
                     ParallelFor parallel_for) {
  RunUnroll work{call, parallel_for, is_backward};
  return with_memory<T, void>(memory, work);
}

}  // namespace unbounded
