// The C face of the library: sessions forward, one call backward, chosen by three names.
#include <new>

#include "mixture_part.h"
#include "mixture_unroll.h"
#include "recurrence.h"
#include "unroll.h"

namespace unbounded {
namespace {

enum Status { done = 0, unknown_choice = 1, no_memory = 2 };

// Calls work.template go<T, Controller, Memory>(), or go<T, Memory>() without a controller.
template <class T, class Controller, class Work>
int with_memory(int structure, Work& work) {
  switch (structure) {
    case 0:
      return work.template go<T, Controller, Stack>();
    case 1:
      return work.template go<T, Controller, Queue>();
    case 2:
      return work.template go<T, Controller, Deque>();
    case 3:
      return work.template go<T, Controller, SuperpositionStack>();
    case 4:
      return work.template go<T, Controller, SuperpositionList>();
  }
  return unknown_choice;
}

template <class T, class Work>
int with_controller(int structure, int controller, Work& work) {
  switch (controller) {
    case 0:
      return with_memory<T, Lstm>(structure, work);
    case 1:
      return with_memory<T, Gru>(structure, work);
    case 2:
      return with_memory<T, Elman<Tanh>>(structure, work);
    case 3:
      return with_memory<T, Elman<Sigmoid>>(structure, work);
    case 4:
      return with_memory<T, Elman<Relu>>(structure, work);
  }
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
    Frame<T> frame(call, SizesOf<Memory>::of(call), Controller::lane_count);
    Workspace between;
    auto take_parts = [&] {
      const int64_t rows = call.steps * call.batch;
      between.part(frame.grad_gates, rows * frame.inner());
      between.part(frame.grad_instructions, rows * frame.head_count());
      between.part(frame.grad_values, frame.value_count());
    };
    take_parts();
    if (!between.allocate()) return no_memory;
    take_parts();
    ControllerBackwardOf<T, Controller> controller(frame);
    MemoryBackwardOf<T, Memory> memory(frame);
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

UNBOUNDED_EXPORT int unbounded_interface_version() { return 9; }
UNBOUNDED_EXPORT int64_t unbounded_call_bytes() { return sizeof(UnboundedCall); }
UNBOUNDED_EXPORT int64_t unbounded_vector_bytes() { return UNBOUNDED_VECTOR_BYTES; }
UNBOUNDED_EXPORT const char* unbounded_instruction_set() { return UNBOUNDED_ISA_NAME; }

// The best of the builds that this processor can run.
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

UNBOUNDED_EXPORT int unbounded_open(int structure, int controller, int dtype,
                                    const UnboundedCall* call, void* parallel_for,
                                    void** session) {
  OpenSession work{*call, parallel(parallel_for)};
  const int status = dtype == 0 ? with_controller<float>(structure, controller, work)
                                : with_controller<double>(structure, controller, work);
  *session = work.session;
  return status;
}
UNBOUNDED_EXPORT int unbounded_run(void* session, const UnboundedCall* call, void* parallel_for) {
  return static_cast<Session*>(session)->run(*call, parallel(parallel_for)) ? done : no_memory;
}
UNBOUNDED_EXPORT void unbounded_finish(void* session, const UnboundedCall* call) {
  static_cast<Session*>(session)->finish(*call);
}
UNBOUNDED_EXPORT void unbounded_close(void* session) { delete static_cast<Session*>(session); }

UNBOUNDED_EXPORT int unbounded_backward(int structure, int controller, int dtype,
                                        const UnboundedCall* call, void* parallel_for) {
  RunBackward work{*call, parallel(parallel_for)};
  return dtype == 0 ? with_controller<float>(structure, controller, work)
                    : with_controller<double>(structure, controller, work);
}

UNBOUNDED_EXPORT int unbounded_unroll(int structure, int is_backward, int dtype,
                                      const UnboundedCall* call, void* parallel_for) {
  RunUnroll work{*call, parallel(parallel_for), is_backward != 0};
  return dtype == 0 ? with_memory<float, void>(structure, work)
                    : with_memory<double, void>(structure, work);
}
