// The C face of the library: one entry for each direction, chosen by three names.
#include "recurrence_backward.h"
#include "recurrence_forward.h"

namespace unbounded {
namespace {

template <class Work>
struct Region {
  Work& work;
  int64_t wanted;
  std::atomic<int64_t> granted{0};
};

// Fewer threads than wanted may come, and inside another parallel region just one: the ranges tell.
template <class Work>
void region_body(int64_t begin, int64_t end, void* context) {
  auto& region = *static_cast<Region<Work>*>(context);
  if (begin == 0) {
    const int64_t granted = (region.wanted + end - 1) / end;
    region.work.resize(granted);
    region.granted.store(granted, std::memory_order_release);
  }
  int64_t granted;
  while ((granted = region.granted.load(std::memory_order_acquire)) == 0) pause_briefly();
  const int64_t each = (region.wanted + granted - 1) / granted;
  region.work.run(begin / each);
}

template <class Work>
int run_work(const UnboundedCall& call, ParallelFor parallel_for) {
  Work work(call);
  const int64_t threads = parallel_for ? std::max<int64_t>(1, call.threads) : 1;
  if (!work.prepare(threads)) return 2;
  if (threads == 1) {
    work.run(0);
    return 0;
  }
  Region<Work> region{work, threads};
  return parallel_for(0, threads, 1, region_body<Work>, &region) == 0 ? 0 : 3;
}

template <template <class, class, class> class Direction, class T, class Controller>
int with_memory(int structure, const UnboundedCall& call, ParallelFor parallel_for) {
  switch (structure) {
    case 0:
      return run_work<Direction<T, Controller, Stack>>(call, parallel_for);
    case 1:
      return run_work<Direction<T, Controller, Queue>>(call, parallel_for);
    case 2:
      return run_work<Direction<T, Controller, Deque>>(call, parallel_for);
  }
  return 1;
}

template <template <class, class, class> class Direction, class T>
int with_controller(int structure, int controller, const UnboundedCall& call,
                    ParallelFor parallel_for) {
  switch (controller) {
    case 0:
      return with_memory<Direction, T, Lstm>(structure, call, parallel_for);
  }
  return 1;
}

template <template <class, class, class> class Direction>
int with_dtype(int structure, int controller, int dtype, const UnboundedCall& call,
               ParallelFor parallel_for) {
  if (dtype == 0) return with_controller<Direction, float>(structure, controller, call, parallel_for);
  return with_controller<Direction, double>(structure, controller, call, parallel_for);
}

}  // namespace
}  // namespace unbounded

#define UNBOUNDED_EXPORT extern "C" __attribute__((visibility("default")))

UNBOUNDED_EXPORT int unbounded_interface_version() { return 1; }
UNBOUNDED_EXPORT int64_t unbounded_call_bytes() { return sizeof(UnboundedCall); }
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

UNBOUNDED_EXPORT int unbounded_forward(int structure, int controller, int dtype,
                                       const UnboundedCall* call, void* parallel_for) {
  return unbounded::with_dtype<unbounded::RecurrenceForward>(
      structure, controller, dtype, *call, reinterpret_cast<unbounded::ParallelFor>(parallel_for));
}
UNBOUNDED_EXPORT int unbounded_backward(int structure, int controller, int dtype,
                                        const UnboundedCall* call, void* parallel_for) {
  return unbounded::with_dtype<unbounded::RecurrenceBackward>(
      structure, controller, dtype, *call, reinterpret_cast<unbounded::ParallelFor>(parallel_for));
}
