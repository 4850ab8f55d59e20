// The recurrence in three threads under the thread sanitizer, without Python: torch's thread pool
// is not instrumented, and would hide or invent races.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

#include "../float32.cpp"
#include "../float64.cpp"
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

struct Choice {
  int memory, controller;
  int64_t threads, division;
  int64_t alone_after = 0;
  bool ends = false;  // sequences of several lengths
};

// The Lie-access memory twice: moved, read by distances; turned, by a softmax, with a capacity.
const char* const memories[] = {"stack", "queue", "deque", "superposition_stack",
                                "superposition_list", "register", "turing_tape", "lie_access",
                                "lie_access", "random_access"};
constexpr int memory_count = 10;
const char* const controllers[] = {"lstm", "gru", "elman_tanh", "elman_sigmoid", "elman_relu"};

// Over the gradients, and over their absolute values.
struct Sum {
  double value, size;
};

// Returns a sum that must not depend on the threads or the division.
Sum run(const Choice& choice) {
  std::srand(1);
  const bool mixes = choice.memory == 3 || choice.memory == 4, is_register = choice.memory == 5;
  const bool is_tape = choice.memory == 6, is_sphere = choice.memory == 8;
  const bool is_lie = choice.memory == 7 || is_sphere, is_random_access = choice.memory == 9;
  const int64_t slots = 10, width = 6, addressing = width + 6;  // key, three numbers, three shifts
  constexpr int64_t T = 12, B = 5;
  const int64_t I = 3, H = 40, M = 24, N0 = mixes ? 3 : 2, S = 5, depth = 2;
  const int64_t actions = choice.memory == 4 ? 4 : 3, padded_count = 16;  // of the widest register
  const int64_t ends = choice.memory == 2 ? 2 : 1;
  const int64_t key = is_sphere ? 3 : 2, action = is_sphere ? 5 : 2, capacity = is_sphere ? 6 : 0;
  const int64_t R = mixes ? S * depth : is_tape || is_lie || is_random_access ? width : ends * M;
  const int64_t K = mixes         ? S * (actions + 1)
                    : is_register ? M + 1
                    : is_tape     ? 2 * (addressing + width)
                    : is_lie      ? 2 * (key + 1 + action + 1) + width + 1 + is_sphere
                    : is_random_access ? 2 * key + width + 5
                                       : ends * (M + 2);
  const int64_t blocks = choice.controller == 0 ? 4 : choice.controller == 1 ? 3 : 1;
  const int64_t lanes = choice.controller < 2 ? 4 : 1;
  const int64_t N = N0 + (choice.memory == 4 ? 2 : ends) * T;
  const auto head = [](int64_t count, int64_t size, unbounded::Activation activation) {
    return UnboundedHead{count, size, int64_t(activation)};
  };
  Buffers buffers;
  auto real = [&](int64_t count) { return buffers.real(count); };
  UnboundedCall c{};
  c.steps = c.room = T, c.batch = B, c.inputs = I, c.hidden = H, c.read_vector = R, c.rows = N0;
  c.saves = 1, c.threads = choice.threads, c.block = 64;
  c.switches.division = choice.division, c.switches.alone_after = choice.alone_after;
  // The longest first, two of equal length, one of length 0.
  const int64_t lengths[] = {T, T - 3, T - 3, 5, 0};
  static_assert(std::size(lengths) == B);
  c.lengths = choice.ends ? lengths : nullptr;
  unbounded::regions_alone = 0;  // even if this machine is busy
  c.weight_ih = real(blocks * H * (I + R)), c.weight_hh = real(blocks * H * H);
  c.bias_ih = real(blocks * H), c.bias_hh = real(blocks * H);
  c.head_weight = real(K * H), c.head_bias = real(K);
  c.hidden0 = real(B * H), c.cell0 = real(B * H), c.read_vector0 = real(B * R);
  c.gates = real(T * B * lanes * H), c.outputs = real(T * B * H), c.cells = real(T * B * H);
  c.tanh_cells = real(T * B * H), c.read_vectors = real(T * B * R);
  c.hidden_last = real(B * H), c.cell_last = real(B * H), c.read_vector_last = real(B * R);
  c.grad_outputs = real(T * B * H), c.grad_read_vectors = real(T * B * R);
  c.grad_hidden0 = real(B * H), c.grad_cell0 = real(B * H), c.grad_read_vector0 = real(B * R);
  if (mixes) {
    const int64_t options[] = {S, actions, depth, 0, 0, 1};
    std::copy(options, options + 6, c.options);
    const double empty = -1;
    std::memcpy(&c.options[6], &empty, sizeof empty);
    c.heads[0] = head(S, actions, unbounded::Activation::softmax);
    c.heads[1] = head(1, S, unbounded::Activation::sigmoid);
    c.head_count = 2;
    c.state0[0] = real(B * S * N0), c.state_last[0] = real(B * S * N);
    c.saved[0] = real(T * B * (actions + 1) * padded_count);
    c.grad_state0[0] = real(B * S * N0);
  } else if (is_register) {
    c.options[0] = M;
    c.heads[0] = head(1, M, unbounded::Activation::tanh);
    c.heads[1] = head(1, 1, unbounded::Activation::sigmoid);
    c.head_count = 2;
    c.state0[0] = real(B * M), c.state_last[0] = real(B * M), c.grad_state0[0] = real(B * M);
    c.saved[0] = real(T * B * (M + 1)), c.saved[1] = real(T * B * M);
  } else if (is_tape) {
    using unbounded::Activation;
    const int64_t options[] = {slots, width, 1, 1, 1, 1, 0, 6};
    std::copy(options, options + 8, c.options);
    for (int k = 0; k < 10; k += 5) {
      c.heads[k] = head(1, width, Activation::tanh);
      c.heads[k + 1] = head(1, 1, Activation::softplus);
      c.heads[k + 2] = head(1, 1, Activation::sigmoid);
      c.heads[k + 3] = head(1, 3, Activation::softmax);
      c.heads[k + 4] = head(1, 1, Activation::one_plus_softplus);
    }
    c.heads[10] = head(1, width, Activation::sigmoid);
    c.heads[11] = head(1, width, Activation::tanh);
    c.head_count = 12, c.checkpoint_size = width * padded_count;
    c.state0[0] = real(B * slots * width), c.state_last[0] = real(B * slots * width);
    c.grad_state0[0] = real(B * slots * width);
    for (int field = 1; field < 3; ++field) {
      float* weights = real(B * slots);
      for (int64_t i = 0; i < B * slots; ++i) weights[i] = 1.0f / float(slots);
      c.state0[field] = weights, c.state_last[field] = real(B * slots);
      c.grad_state0[field] = real(B * slots);
    }
    c.saved[0] = real(T * B * K), c.saved[1] = real(T * B * 2 * padded_count);
  } else if (is_lie) {
    using unbounded::Activation;
    const int64_t options[] = {width, key, is_sphere ? 3 : 0, is_sphere, 0, 1, 1, capacity, 2,
                               1, 1};
    std::copy(options, options + 11, c.options);
    int k = 0;
    for (int head_of = 0; head_of < 2; ++head_of) {
      c.heads[k++] = head(1, key, Activation::identity);
      c.heads[k++] = head(1, 1, Activation::sigmoid);
      c.heads[k++] = head(1, action, Activation::identity);
      c.heads[k++] = head(1, 1, Activation::sigmoid);
    }
    c.heads[k++] = head(1, width, Activation::tanh);
    c.heads[k++] = head(1, 1, Activation::sigmoid);
    if (is_sphere) c.heads[k++] = head(1, 1, Activation::softplus);
    c.head_count = k;
    const int64_t rows = N0 + T, held = capacity ? capacity : rows;
    const int64_t sizes[] = {key, width, 1};
    for (int field = 0; field < 3; ++field) {
      float* from = real(B * N0 * sizes[field]);
      for (int64_t i = 0; i < B * N0 && field == 2; ++i) from[i] = std::fabs(from[i]);
      c.state0[field] = from, c.state_last[field] = real(B * held * sizes[field]);
      c.grad_state0[field] = real(B * N0 * sizes[field]);
    }
    for (int field = 3; field < 7; ++field) {
      const int64_t size = field % 2 ? key : action;
      c.state0[field] = real(B * size), c.state_last[field] = real(B * size);
      c.grad_state0[field] = real(B * size);
    }
    c.saved[0] = real(T * B * K), c.saved[1] = real(T * B * 2 * (key + action));
    c.saved[2] = real(B * key * padded_count), c.saved[3] = real(B * padded_count);
    c.saved[4] = real(B * (rows * width + padded_count));
    c.saved[5] = buffers.integer(B * T), c.saved[6] = buffers.integer(B * (capacity + 1));
  } else if (is_random_access) {
    using unbounded::Activation;
    const int64_t options[] = {width, key, 1, 1};
    std::copy(options, options + 4, c.options);
    c.heads[0] = c.heads[1] = head(1, key, Activation::identity);
    c.heads[2] = head(1, width, Activation::tanh);
    c.heads[3] = head(1, 1, Activation::sigmoid);
    c.heads[4] = head(1, 1, Activation::one_plus_softplus);
    c.heads[5] = head(1, 3, Activation::softmax);
    c.head_count = 6;
    const int64_t sizes[] = {N0 * key, N0 * width, N0, key, key};
    const int64_t last[] = {(N0 + T) * key, (N0 + T) * width, N0 + T, key, key};
    for (int field = 0; field < 5; ++field) {
      float* from = real(B * sizes[field]);
      for (int64_t i = 0; i < B * N0 && field == 2; ++i) from[i] = std::fabs(from[i]);
      c.state0[field] = from, c.state_last[field] = real(B * last[field]);
      c.grad_state0[field] = real(B * sizes[field]);
    }
    c.saved[0] = real(T * B * K), c.saved[1] = real(T * B * 2 * key);
  } else {
    c.options[0] = M;
    for (int end = 0; end < ends; ++end) {
      c.heads[3 * end] = head(1, M, unbounded::Activation::tanh);
      c.heads[3 * end + 1] = c.heads[3 * end + 2] = head(1, 1, unbounded::Activation::sigmoid);
    }
    c.head_count = 3 * ends;
    float* strengths0 = real(B * N0);
    for (int64_t i = 0; i < B * N0; ++i) strengths0[i] = std::fabs(strengths0[i]);
    c.state0[0] = real(B * N0 * M), c.state0[1] = strengths0;
    c.state_last[0] = real(B * N * M), c.state_last[1] = real(B * N);
    c.saved[0] = real(T * B * 2 * ends);
    c.saved[1] = buffers.integer(B * T * ends), c.saved[2] = real(B * T * ends);
    c.saved[3] = buffers.integer(B * N), c.saved[4] = real(B * N);
    c.saved[5] = buffers.integer(3 * B);
    c.grad_state0[0] = real(B * N0 * M), c.grad_state0[1] = real(B * N0);
  }
  float *grad_x = real(T * B * I), *grad_weight = real(blocks * H * (I + R));
  c.x = real(T * B * I), c.grad_x = grad_x;
  c.grad_weight_ih = grad_weight, c.grad_weight_hh = real(blocks * H * H);
  c.grad_bias_ih = real(blocks * H), c.grad_bias_hh = real(blocks * H);
  c.grad_head_weight = real(K * H), c.grad_head_bias = real(K);
  const char *memory = memories[choice.memory], *controller = controllers[choice.controller];
  void* pool = reinterpret_cast<void*>(&with_threads);
  void* session = nullptr;
  if (unbounded_open(memory, controller, 4, &c, pool, &session)) return {NAN, NAN};
  if (unbounded_run(session, &c, pool)) return {NAN, NAN};
  unbounded_finish(session, &c);
  unbounded_close(session);
  if (unbounded_backward(memory, controller, 4, &c, pool)) return {NAN, NAN};
  Sum sum{0, 0};
  auto add = [&](const float* from, int64_t count, int period) {
    for (int64_t i = 0; i < count; ++i) {
      const double term = from[i] * double(i % period + 1);
      sum.value += term;
      sum.size += std::fabs(term);
    }
  };
  add(grad_weight, blocks * H * (I + R), 5);
  add(grad_x, T * B * I, 3);
  return sum;
}

// Whether three threads give the result of one, also if two of them leave at any barrier.
bool same(Choice choice, bool prints) {
  const Sum one = run({choice.memory, choice.controller, 1, 0, 0, choice.ends});
  const char* const name = choice.ends ? "some sequences end" : "none ends";
  const Sum three = run(choice);
  if (!(one.value == three.value)) {
    std::printf("memory %d controller %d division %d, %s: %g with one thread, %g with three\n",
                choice.memory, choice.controller, int(choice.division), name, one.value,
                three.value);
    return false;
  }
  for (int64_t after = 1; after < 48 && !prints; after += 3) {
    choice.alone_after = after;
    if (run(choice).value == one.value) continue;
    std::printf("memory %d controller %d division %d, %s: not the same from barrier %d on alone\n",
                choice.memory, choice.controller, int(choice.division), name, int(after));
    return false;
  }
  if (prints)
    std::printf("%d %d %d %d %.9g %.9g\n", choice.memory, choice.controller, int(choice.division),
                int(choice.ends), one.value, one.size);
  return true;
}

}  // namespace

// With an argument it prints the sums, which arm64.sh compares.
int main(int count, char**) {
  const bool prints = count > 1;
  for (int memory = 0; memory < memory_count; ++memory)
    for (int controller = 0; controller < 5; ++controller)
      for (int64_t division = 1; division <= 2; ++division)
        for (const bool ends : {false, true})
          if (!same({memory, controller, 3, division, 0, ends}, prints)) return 1;
  if (prints) return 0;
  std::puts("no data race, by rows and by columns; three threads, of which two may leave, equal one");
  return 0;
}
