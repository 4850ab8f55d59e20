// The C interface of the library: sessions forward, one call backward, selected by names.
#include <cstring>
#include <new>

#include "denormals.h"
#include "dnc.h"
#include "lie_access.h"
#include "nondeterministic.h"
#include "output_loss.h"
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

enum Status { done = 0, unknown_choice = 1, no_memory = 2, unknown_symbol = 3 };

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

template <class Work>
int with_choice(const char* memory, const char* controller, int value_bytes, Work& work) {
  return value_bytes == 4 ? with_controller<float>(memory, controller, work)
                          : with_controller<double>(memory, controller, work);
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

ParallelFor parallel(void* address) { return reinterpret_cast<ParallelFor>(address); }

}  // namespace
}  // namespace unbounded

using namespace unbounded;

#define UNBOUNDED_EXPORT extern "C" __attribute__((visibility("default")))

UNBOUNDED_EXPORT int unbounded_interface_version() { return 15; }
UNBOUNDED_EXPORT int64_t unbounded_call_bytes() { return sizeof(UnboundedCall); }
UNBOUNDED_EXPORT int64_t unbounded_output_bytes() { return sizeof(UnboundedOutput); }
UNBOUNDED_EXPORT int64_t unbounded_vector_bytes() { return UNBOUNDED_VECTOR_BYTES; }
UNBOUNDED_EXPORT const char* unbounded_instruction_set() { return UNBOUNDED_ISA_NAME; }

// Whether this processor has tiles and this build uses them.
UNBOUNDED_EXPORT int unbounded_has_tiles() { return has_tiles(); }

// The best build that this processor can run.
UNBOUNDED_EXPORT const char* unbounded_best_instruction_set() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
  return "baseline";
}

UNBOUNDED_EXPORT int unbounded_open(const char* memory, const char* controller, int value_bytes,
                                    const UnboundedCall* call, void* parallel_for,
                                    void** session) {
  OpenSession work{*call, parallel(parallel_for)};
  const int status = with_choice(memory, controller, value_bytes, work);
  *session = work.session;
  return status;
}
UNBOUNDED_EXPORT int unbounded_run(void* session, const UnboundedCall* call, void* parallel_for) {
  return static_cast<Session*>(session)->run(*call, parallel(parallel_for)) ? done : no_memory;
}
UNBOUNDED_EXPORT void unbounded_finish(void* session, const UnboundedCall* call) {
  const FlushDenormals flushing;
  static_cast<Session*>(session)->finish(*call);
}
UNBOUNDED_EXPORT void unbounded_close(void* session) { delete static_cast<Session*>(session); }

UNBOUNDED_EXPORT int unbounded_backward(const char* memory, const char* controller,
                                        int value_bytes, const UnboundedCall* call,
                                        void* parallel_for) {
  RunBackward work{*call, parallel(parallel_for)};
  return with_choice(memory, controller, value_bytes, work);
}

UNBOUNDED_EXPORT int unbounded_unroll(const char* memory, int is_backward, int value_bytes,
                                      const UnboundedCall* call, void* parallel_for) {
  RunUnroll work{*call, parallel(parallel_for), is_backward != 0};
  return value_bytes == 4 ? with_memory<float, void>(memory, work)
                          : with_memory<double, void>(memory, work);
}

UNBOUNDED_EXPORT int64_t unbounded_most_symbols() { return most_symbols; }
UNBOUNDED_EXPORT int unbounded_output_loss(int value_bytes, const UnboundedOutput* call) {
  if (call->symbols > most_symbols) return unknown_choice;
  const FlushDenormals flushing;
  const bool ok = value_bytes == 4 ? output_loss<float>(*call) : output_loss<double>(*call);
  return ok ? done : unknown_symbol;
}
