// The C interface of the library: sessions forward, one call backward, selected by names.
#include "calls.h"
#include "delta_rule.h"
#include "denormals.h"
#include "output_loss.h"
#include "tiles.h"

namespace unbounded {
namespace {

ParallelFor parallel(void* address) { return reinterpret_cast<ParallelFor>(address); }

}  // namespace
}  // namespace unbounded

using namespace unbounded;

#define UNBOUNDED_EXPORT extern "C" __attribute__((visibility("default")))

UNBOUNDED_EXPORT int unbounded_interface_version() { return 16; }
UNBOUNDED_EXPORT int64_t unbounded_call_bytes() { return sizeof(UnboundedCall); }
UNBOUNDED_EXPORT int64_t unbounded_delta_bytes() { return sizeof(UnboundedDelta); }
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
  Session* opened = nullptr;
  const auto open = value_bytes == 4 ? Calls<float>::open : Calls<double>::open;
  const int status = open(memory, controller, *call, parallel(parallel_for), &opened);
  *session = opened;
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
  const auto backward = value_bytes == 4 ? Calls<float>::backward : Calls<double>::backward;
  return backward(memory, controller, *call, parallel(parallel_for));
}

UNBOUNDED_EXPORT int unbounded_unroll(const char* memory, int is_backward, int value_bytes,
                                      const UnboundedCall* call, void* parallel_for) {
  const auto unroll = value_bytes == 4 ? Calls<float>::unroll : Calls<double>::unroll;
  return unroll(memory, is_backward != 0, *call, parallel(parallel_for));
}

UNBOUNDED_EXPORT int64_t unbounded_most_symbols() { return most_symbols; }
UNBOUNDED_EXPORT int unbounded_output_loss(int value_bytes, const UnboundedOutput* call) {
  if (call->symbols > most_symbols) return unknown_choice;
  const FlushDenormals flushing;
  const bool ok = value_bytes == 4 ? output_loss<float>(*call) : output_loss<double>(*call);
  return ok ? done : unknown_symbol;
}

UNBOUNDED_EXPORT int unbounded_delta_rule(int is_backward, int value_bytes,
                                          const UnboundedDelta* call, void* parallel_for) {
  const auto rule = value_bytes == 4 ? delta_rule<float> : delta_rule<double>;
  return rule(*call, is_backward != 0, parallel(parallel_for)) ? done : no_memory;
}
