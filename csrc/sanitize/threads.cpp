// The recurrence in three threads under the thread sanitizer, without Python: torch's thread pool is
// not instrumented and would hide or invent races.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../library.cpp"

namespace {

int32_t with_threads(int64_t begin, int64_t end, int64_t, void (*body)(int64_t, int64_t, void*),
                     void* context) {
  std::vector<std::thread> threads;
  for (int64_t i = begin; i < end; ++i) threads.emplace_back(body, i, i + 1, context);
  for (auto& thread : threads) thread.join();
  return 0;
}

struct Buffers {
  std::vector<std::vector<float>> reals;
  std::vector<std::vector<int32_t>> integers;
  float* real(int64_t count) {
    reals.emplace_back(count);
    for (auto& x : reals.back()) x = float(std::rand()) / float(RAND_MAX) - 0.5f;
    return reals.back().data();
  }
  int32_t* integer(int64_t count) {
    integers.emplace_back(count);
    return integers.back().data();
  }
};

// Returns a sum over the gradients, which must not depend on the number of threads.
double run(int structure, int controller, int64_t threads) {
  std::srand(1);
  const int64_t T = 12, B = 5, H = 40, M = 24, N0 = 2;
  const int64_t parts = structure == 2 ? 2 : 1, R = parts * M, K = parts * (M + 2);
  const int64_t lanes = controller < 2 ? 4 : 1, N = N0 + parts * T;
  Buffers buffers;
  auto real = [&](int64_t count) { return buffers.real(count); };
  UnboundedCall c{};
  c.steps = c.capacity = T, c.batch = B, c.hidden = H, c.width = M, c.initial_rows = N0;
  c.saves = 1, c.threads = threads, c.weight_ih_stride = R;
  c.weight_ih = real(lanes * H * R), c.weight_hh = real(lanes * H * H);
  c.bias_ih = real(lanes * H), c.bias_hh = real(lanes * H);
  c.head_weight = real(K * H), c.head_bias = real(K);
  c.hidden0 = real(B * H), c.cell0 = real(B * H), c.reading0 = real(B * R);
  float* strengths0 = real(B * N0);
  for (int64_t i = 0; i < B * N0; ++i) strengths0[i] = std::fabs(strengths0[i]);
  c.strengths0 = strengths0;
  c.gates = real(T * B * lanes * H), c.outputs = real(T * B * H), c.cells = real(T * B * H);
  c.tanh_cells = real(T * B * H), c.readings = real(T * B * R), c.values = real(B * N * M);
  c.strengths = real(B * N), c.hidden_last = real(B * H), c.cell_last = real(B * H);
  c.reading_last = real(B * R), c.instructions = real(T * B * 2 * parts);
  c.deaths = buffers.integer(B * T * parts), c.kept = real(B * T * parts);
  c.grave_rows = buffers.integer(B * N), c.grave_strengths = real(B * N);
  c.live_range = buffers.integer(3 * B);
  c.grad_outputs = real(T * B * H), c.grad_values = real(B * N * M);
  float* grad_gates = real(T * B * lanes * H);
  c.grad_gates = grad_gates, c.grad_instructions = real(T * B * K);
  c.grad_hidden0 = real(B * H), c.grad_cell0 = real(B * H), c.grad_reading0 = real(B * R);
  c.grad_strengths0 = real(B * N0);
  void* pool = reinterpret_cast<void*>(&with_threads);
  void* session = nullptr;
  if (unbounded_open(structure, controller, 0, &c, pool, &session)) return NAN;
  if (unbounded_run(session, &c, pool)) return NAN;
  unbounded_finish(session, &c);
  unbounded_close(session);
  if (unbounded_backward(structure, controller, 0, &c, pool)) return NAN;
  double sum = 0;
  for (int64_t i = 0; i < T * B * lanes * H; ++i) sum += grad_gates[i] * double(i % 7 + 1);
  return sum;
}

}  // namespace

int main() {
  for (int structure = 0; structure < 3; ++structure)
    for (int controller = 0; controller < 5; ++controller) {
      const double one = run(structure, controller, 1), three = run(structure, controller, 3);
      if (!(one == three)) {
        std::printf("structure %d controller %d: %g with one thread, %g with three\n", structure,
                    controller, one, three);
        return 1;
      }
    }
  std::puts("no data race, and one thread equals three");
  return 0;
}
