// What a GPU lets a recurrent layer of 256 units with a memory be: the price of each way to make
// all blocks wait for each other, of reading the weights, and of a step that does only these.
//
//     nvcc -O3 -arch=sm_90 -o gpu_limits gpu_limits.cu && ./gpu_limits
//
// Prints one JSON object; times are medians in microseconds. benchmarks/gpu.py calls it.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace cg = cooperative_groups;

#define CHECK(call)                                                                    \
    do {                                                                               \
        cudaError_t code = (call);                                                     \
        if (code != cudaSuccess) {                                                     \
            std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__,                     \
                         cudaGetErrorString(code));                                    \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)

constexpr int kHidden = 256, kInput = 64, kWidth = 256, kBatch = 10, kSteps = 1000;
constexpr int kTaken = kInput + kWidth + kHidden;  // what the gates are made of
constexpr int kGates = 4 * kHidden;

// A time in microseconds: the median of eleven runs after one that warms up.
static double timed(const std::function<void(cudaStream_t)>& run, cudaStream_t stream) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    std::vector<float> times;
    for (int turn = 0; turn < 12; ++turn) {
        CHECK(cudaEventRecord(begin, stream));
        run(stream);
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaGetLastError());
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        if (turn) times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    return 1e3 * times[times.size() / 2];
}

static double graphed(const std::function<void(cudaStream_t)>& record, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    record(stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    double time = timed([&](cudaStream_t s) { CHECK(cudaGraphLaunch(ready, s)); }, stream);
    CHECK(cudaGraphExecDestroy(ready));
    CHECK(cudaGraphDestroy(graph));
    return time;
}

__global__ void touch(float* x) {
    if (threadIdx.x == 0) x[blockIdx.x] += 1.0f;
}

__global__ void grid_barriers(int count) {
    cg::grid_group grid = cg::this_grid();
    for (int i = 0; i < count; ++i) grid.sync();
}

// A barrier of our own: one counter that only rises.
__global__ void counter_barriers(unsigned* counter, int count) {
    for (int i = 1; i <= count; ++i) {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(counter, 1u);
            while (*(volatile unsigned*)counter < unsigned(i) * gridDim.x) {
            }
            __threadfence();
        }
        __syncthreads();
    }
}

__global__ void cluster_barriers(int count) {
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = 0; i < count; ++i) cluster.sync();
}

// Every block reads all weights, past the first-level cache, `rounds` times.
__global__ void __launch_bounds__(1024, 1) read_all(const float4* weights, int count, int rounds,
                                                    float* out) {
    float4 sum = make_float4(0, 0, 0, 0);
    for (int round = 0; round < rounds; ++round) {
#pragma unroll 8
        for (int i = threadIdx.x; i < count; i += 1024) {
            float4 v = __ldcg(weights + i);
            sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
        }
    }
    if (sum.x + sum.y + sum.z + sum.w == 1234.5f) out[0] = sum.x;
}

// Design A, its first phase: a block makes eight gates of ten sequences, the weights from L2.
__global__ void __launch_bounds__(256, 1) gates_from_l2(const float* weights, const float* taken,
                                                        float* gates) {
    const int gate = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* row = weights + size_t(gate) * kTaken;
    float sum[kBatch] = {};
    for (int k = lane; k < kTaken; k += 32) {
        const float w = __ldcg(row + k);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) sum[b] += w * __ldcg(taken + b * kTaken + k);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
        for (int by = 16; by; by /= 2) sum[b] += __shfl_xor_sync(~0u, sum[b], by);
        if (lane == b) gates[b * kGates + gate] = sum[b];
    }
}

__device__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

// Its second: the cell, and h where the next step takes it from.
__global__ void cell(const float* gates, float* cells, float* taken) {
    const int b = blockIdx.x, u = threadIdx.x;
    const float* g = gates + b * kGates;
    const float c = sigmoid(g[kHidden + u]) * cells[b * kHidden + u] +
                    sigmoid(g[u]) * tanhf(g[2 * kHidden + u]);
    cells[b * kHidden + u] = c;
    taken[b * kTaken + kInput + kWidth + u] = sigmoid(g[3 * kHidden + u]) * tanhf(c);
}

// Design C: a cluster of 16 blocks holds the weights, 16 units each; each block sends its part of
// h to all others and waits for them. `taken` is read once; x and the reading stay as they are.
constexpr int kCluster = 16, kUnits = kHidden / kCluster, kRows = 4 * kUnits, kSlices = 8;
constexpr int kStationaryFloats =
    kRows * kTaken + 2 * kTaken * 12 + kSlices * kRows * kBatch + kUnits * kBatch;

__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(512, 1)
    stationary(const float* weights, const float* taken, float* out, int steps) {
    extern __shared__ float shared[];
    float* w = shared;                            // [kTaken, kRows]
    float* z = w + kRows * kTaken;                // two of [kTaken, 12]: ten sequences and room
    float* part = z + 2 * kTaken * 12;            // [kSlices, kRows, kBatch]
    float* held = part + kSlices * kRows * kBatch;  // c, [kUnits, kBatch]
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank(), t = threadIdx.x;
    for (int i = t; i < kRows * kTaken; i += 512) {
        const int row = i % kRows, k = i / kRows;
        const int gate = (row / kUnits) * kHidden + rank * kUnits + row % kUnits;
        w[k * kRows + row] = weights[size_t(gate) * kTaken + k];
    }
    for (int i = t; i < 2 * kTaken * 12; i += 512) {
        const int k = i / 12 % kTaken, b = i % 12;
        z[i] = b < kBatch ? taken[b * kTaken + k] : 0.0f;
    }
    if (t < kUnits * kBatch) held[t] = 0.0f;
    cluster.sync();
    const int row = t % kRows, slice = t / kRows, per = kTaken / kSlices;
    for (int step = 0; step < steps; ++step) {
        const float* now = z + (step & 1) * kTaken * 12;
        float* next = z + (1 - (step & 1)) * kTaken * 12;
        float sum[12] = {};
#pragma unroll 4
        for (int k = slice * per; k < (slice + 1) * per; ++k) {
            const float value = w[k * kRows + row];
            const float4* at = reinterpret_cast<const float4*>(now + k * 12);
#pragma unroll
            for (int q = 0; q < 3; ++q) {
                const float4 v = at[q];
                sum[4 * q] += value * v.x, sum[4 * q + 1] += value * v.y;
                sum[4 * q + 2] += value * v.z, sum[4 * q + 3] += value * v.w;
            }
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) part[(slice * kBatch + b) * kRows + row] = sum[b];
        __syncthreads();
        if (t < kUnits * kBatch) {
            const int unit = t % kUnits, b = t / kUnits;
            float gate[4];
#pragma unroll
            for (int g = 0; g < 4; ++g) {
                float total = 0;
#pragma unroll
                for (int s = 0; s < kSlices; ++s)
                    total += part[(s * kBatch + b) * kRows + g * kUnits + unit];
                gate[g] = total;
            }
            const float c = sigmoid(gate[1]) * held[t] + sigmoid(gate[0]) * tanhf(gate[2]);
            held[t] = c;
            const float h = sigmoid(gate[3]) * tanhf(c);
            const int k = kInput + kWidth + rank * kUnits + unit;
            for (int other = 0; other < kCluster; ++other)
                *cluster.map_shared_rank(next + k * 12 + b, other) = h;
        }
        cluster.sync();
    }
    if (t < kUnits * kBatch) {
        const int unit = t % kUnits, b = t / kUnits, k = kInput + kWidth + rank * kUnits + unit;
        out[b * kHidden + rank * kUnits + unit] = z[(steps & 1) * kTaken * 12 + k * 12 + b];
    }
}

int main() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    const int blocks = device.multiProcessorCount;
    const int count = kGates * kTaken;
    std::vector<float> host(count), given(kBatch * kTaken);
    unsigned seed = 1;
    auto drawn = [&seed] {
        seed = seed * 1664525u + 1013904223u;
        return float(seed >> 8) / float(1 << 24) - 0.5f;
    };
    for (float& each : host) each = 0.2f * drawn();
    for (float& each : given) each = drawn();
    float *weights, *taken, *gates, *cells, *out;
    unsigned* counter;
    CHECK(cudaMalloc(&weights, count * sizeof(float)));
    CHECK(cudaMalloc(&taken, kBatch * kTaken * sizeof(float)));
    CHECK(cudaMalloc(&gates, kBatch * kGates * sizeof(float)));
    CHECK(cudaMalloc(&cells, kBatch * kHidden * sizeof(float)));
    CHECK(cudaMalloc(&out, kBatch * kHidden * sizeof(float)));
    CHECK(cudaMalloc(&counter, sizeof(unsigned)));
    CHECK(cudaMemcpy(weights, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));

    std::printf("{\"device\": \"%s\", \"multiprocessors\": %d, \"l2_mib\": %.0f", device.name, blocks,
                device.l2CacheSize / 1048576.0);
    for (int each : {1, 16, blocks}) {
        const double time = graphed(
            [&](cudaStream_t s) {
                for (int i = 0; i < kSteps; ++i) touch<<<each, 128, 0, s>>>(out);
            },
            stream);
        std::printf(", \"kernel_in_graph_%d_blocks\": %.4f", each, time / kSteps);
    }
    for (int each : {16, 64, blocks}) {
        int times = kSteps;
        void* arguments[] = {&times};
        const double grid = timed(
            [&](cudaStream_t s) {
                CHECK(cudaLaunchCooperativeKernel((void*)grid_barriers, each, 256, arguments, 0, s));
            },
            stream);
        void* own[] = {&counter, &times};
        const double risen = timed(
            [&](cudaStream_t s) {
                CHECK(cudaMemsetAsync(counter, 0, sizeof(unsigned), s));
                CHECK(cudaLaunchCooperativeKernel((void*)counter_barriers, each, 256, own, 0, s));
            },
            stream);
        std::printf(", \"grid_barrier_%d_blocks\": %.4f, \"counter_barrier_%d_blocks\": %.4f", each,
                    grid / kSteps, each, risen / kSteps);
    }
    CHECK(cudaFuncSetAttribute(cluster_barriers, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    for (int each : {2, 8, 16}) {
        cudaLaunchAttribute size;
        size.id = cudaLaunchAttributeClusterDimension;
        size.val.clusterDim.x = each, size.val.clusterDim.y = size.val.clusterDim.z = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(each), config.blockDim = dim3(256), config.stream = stream;
        config.attrs = &size, config.numAttrs = 1;
        const double time = timed(
            [&](cudaStream_t) { CHECK(cudaLaunchKernelEx(&config, cluster_barriers, kSteps)); },
            stream);
        std::printf(", \"cluster_barrier_%d_blocks\": %.4f", each, time / kSteps);
    }
    for (int each : {1, 16, blocks}) {
        const int rounds = 200;
        const double time = timed(
            [&](cudaStream_t s) {
                read_all<<<each, 1024, 0, s>>>((const float4*)weights, count / 4, rounds, out);
            },
            stream);
        std::printf(", \"all_weights_by_each_of_%d_blocks\": %.3f", each, time / rounds);
    }
    // The same LSTM in both designs, from the same beginning; they must agree.
    std::vector<float> of_a(kBatch * kHidden), of_c(kBatch * kHidden), z(kBatch * kTaken);
    auto begin = [&] {
        CHECK(cudaMemcpy(taken, given.data(), given.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(cells, 0, kBatch * kHidden * sizeof(float)));
    };
    auto step = [&](cudaStream_t s) {
        gates_from_l2<<<kGates / 8, 256, 0, s>>>(weights, taken, gates);
        cell<<<kBatch, kHidden, 0, s>>>(gates, cells, taken);
    };
    begin();
    for (int i = 0; i < 130; ++i) step(0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(z.data(), taken, z.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int b = 0; b < kBatch; ++b)
        for (int u = 0; u < kHidden; ++u)
            of_a[b * kHidden + u] = z[b * kTaken + kInput + kWidth + u];
    const int bytes = kStationaryFloats * sizeof(float);
    CHECK(cudaFuncSetAttribute(stationary, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    CHECK(cudaFuncSetAttribute(stationary, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    begin();
    stationary<<<kCluster, 512, bytes>>>(weights, taken, out, 130);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(of_c.data(), out, of_c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    double apart = 0, size = 0;
    for (int i = 0; i < kBatch * kHidden; ++i) {
        apart += std::pow(double(of_a[i]) - of_c[i], 2), size += std::pow(double(of_a[i]), 2);
    }
    std::printf(", \"designs_apart\": %.3g", std::sqrt(apart / size));
    if (!(std::sqrt(apart / size) < 1e-4)) {
        std::printf(", \"fault\": \"the designs disagree\"}\n");
        return 1;
    }
    const double a = graphed(
        [&](cudaStream_t s) {
            for (int i = 0; i < kSteps; ++i) step(s);
        },
        stream);
    const double first = graphed(
        [&](cudaStream_t s) {
            for (int i = 0; i < kSteps; ++i)
                gates_from_l2<<<kGates / 8, 256, 0, s>>>(weights, taken, gates);
        },
        stream);
    const double c = timed(
        [&](cudaStream_t s) { stationary<<<kCluster, 512, bytes, s>>>(weights, taken, out, kSteps); },
        stream);
    std::printf(", \"a_gates\": %.3f, \"a_gates_and_cell\": %.3f, \"c_gates_and_cell\": %.3f}\n",
                first / kSteps, a / kSteps, c / kSteps);
    return 0;
}
