// The update of the hidden state from the message that a node received. See update.py for the formulas.
//
// Compiled for SAMPLES samples of N nodes per seed, with or without a GATE, and with or without ATTENTION, which decides
// where the terms of a node stand, one or with a gate two. Samples and nodes count as one list of rows; blockIdx.x is a
// tile of 16 of them, blockIdx.z the seed.
//
// There are few blocks, so what counts is how long one of them waits: weights are read long before they are multiplied,
// everything but the operands of products stays in registers, and warps share sums over rows where they meet anyway.

#define FROM_NODE (ATTENTION ? 5 * H : 2 * H)
#define NODES (SAMPLES * N)
#define TILES ((NODES + 15) / 16)
#define FRAGMENTS (H * H / 2)
#define TILE (16 * TILE_STRIDE)
#define EPSILON 1e-5f
#define OWN_TERMS (GATE ? 2 : 1)  // that are read of a node, and matrices that messages are multiplied with
#define VECTORS (GATE ? 3 : 2)

typedef Tiling<16, 8> T;  // eight warps with 16 rows and 16 columns each; a lane has two rows and four columns
#define SHARES_STRIDE (T::N_WARPS + 1)
#define SHARES (16 * SHARES_STRIDE)

__device__ __forceinline__ float2 two(const float* from) { return *(const float2*)from; }

// A row may be beyond the last; it is read as the last.
__device__ __forceinline__ int node_of(int row) { return row < NODES ? row : NODES - 1; }

// Whether `has_ended(sample)` for all samples with rows in a tile.
template <typename F>
__device__ __forceinline__ bool all_have_ended(int first, F has_ended) {
  bool all = true;
  for (int sample = first / N; sample <= node_of(first + 15) / N; ++sample) all = all && has_ended(sample);
  return all;
}

// Leaves two numbers about a row, from the columns of this warp.
__device__ __forceinline__ void leave(float2* shares, int half, float first, float second) {
  if (threadIdx.x % 4 == 0) shares[(T::row(0) + 8 * half) * SHARES_STRIDE + T::n_warp()] = make_float2(first, second);
}

__device__ __forceinline__ const float2* shares_of_row(const float2* shares, int half) {
  return shares + (T::row(0) + 8 * half) * SHARES_STRIDE;
}

// Rows of messages, rounded, to a tile in shared memory; zeros beyond the last.
__device__ __forceinline__ void stage_rows(const float* message, int first, bf16* tile) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int row = warp; row < 16; row += T::N_WARPS) {
    float4 v = features(message + node_of(first + row) * H);
    if (first + row >= NODES) v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    *(uint2*)(tile + row * TILE_STRIDE + 4 * lane) = make_uint2(pack(v.x, v.y), pack(v.z, v.w));
  }
}

// What both kernels compute, in registers: the rectified sums, normalised; 1 / their spread per row; how far the gate
// is open, if there is one; and as bits where the sums and the input of the gate are above zero. `meanwhile` reads what is
// needed next.
template <typename F>
__device__ __forceinline__ void open_gate(
    const float* message, const float* terms, const u32* weights, const u32* gate, const float* bias, int first,
    bf16* received, bf16* gate_input, float2* shares,
    T::Sums& normal, float (&spread)[2], T::Sums& openness, u32& summed, u32& gated, F meanwhile) {
  stage_rows(message, first, received);
  T::Weights to_sums(weights), to_gate, through_gate;
  if (GATE) to_gate.start(weights + FRAGMENTS);
  T::for_pairs(normal, [&](int row, int column, float* v, int) {
    const float2 term = two(terms + node_of(first + row) * TERMS + FROM_NODE + column);
    v[0] = term.x, v[1] = term.y;
  });
  if (GATE)
    T::for_pairs(openness, [&](int row, int column, float* v, int) {
      const float2 term = two(terms + node_of(first + row) * TERMS + FROM_NODE + H + column);
      v[0] = term.x, v[1] = term.y;
    });
  __syncthreads();
  if (GATE) {
    T::multiply(openness, received, to_gate);
    through_gate.start(gate);
  }
  T::multiply(normal, received, to_sums);
  meanwhile();
  summed = gated = 0;
  if (GATE)
    T::for_pairs(openness, [&](int row, int column, float* v, int pair) {
      gated |= above_zero(v) << (2 * pair);
      store_pair(gate_input, row, column, fmaxf(v[0], 0.0f), fmaxf(v[1], 0.0f));
      const float2 b = two(bias + column);
      v[0] = b.x, v[1] = b.y;
    });
  T::for_pairs(normal, [&](int, int, float* v, int pair) {
    summed |= above_zero(v) << (2 * pair);
    v[0] = fmaxf(v[0], 0.0f), v[1] = fmaxf(v[1], 0.0f);
  });
  hold(gated), hold(summed);
  // Mean and squared deviations of every warp's columns, then of all together.
  const float columns = 8 * T::NT;
  float sums[2] = {0.0f, 0.0f}, squares[2] = {0.0f, 0.0f};
  T::for_pairs(normal, [&](int, int, float* v, int pair) { sums[pair % 2] += v[0] + v[1]; });
#pragma unroll
  for (int half = 0; half < 2; ++half) sums[half] = sum_over_quad(sums[half]) / columns;
  T::for_pairs(normal, [&](int, int, float* v, int pair) {
    const float x = v[0] - sums[pair % 2], y = v[1] - sums[pair % 2];
    squares[pair % 2] = fmaf(x, x, fmaf(y, y, squares[pair % 2]));
  });
#pragma unroll
  for (int half = 0; half < 2; ++half) leave(shares, half, sums[half], sum_over_quad(squares[half]));
  __syncthreads();
  if (GATE) T::multiply(openness, gate_input, through_gate);
  float mean[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float2* of_warps = shares_of_row(shares, half);
    float total = 0.0f, variance = 0.0f;
#pragma unroll
    for (int w = 0; w < T::N_WARPS; ++w) total += of_warps[w].x;
    mean[half] = total / T::N_WARPS;
#pragma unroll
    for (int w = 0; w < T::N_WARPS; ++w) {
      const float off = of_warps[w].x - mean[half];
      variance += fmaf(columns * off, off, of_warps[w].y);
    }
    spread[half] = rsqrtf(variance / H + EPSILON);
  }
  T::for_pairs(normal, [&](int, int, float* v, int pair) {
    v[0] = (v[0] - mean[pair % 2]) * spread[pair % 2];
    v[1] = (v[1] - mean[pair % 2]) * spread[pair % 2];
  });
  if (GATE)
    T::for_pairs(openness, [&](int, int, float* v, int) {
      v[0] = sigmoid(v[0]), v[1] = sigmoid(v[1]);
    });
}

#if defined(BUILD_update_forward)
extern "C" __global__ void __launch_bounds__(T::NUM_THREADS, 2) update_forward(
    const float* message, const float* terms, const float* hidden, const u32* weights, const u32* gate,
    const float* vectors, TIME_PARAMETERS float* result
#if TIMED_result
    , float* copy
#endif
) {
#if !TIMED_result
  float* copy = 0;
#endif
  bf16 *received = (bf16*)memory, *gate_input = received + TILE;
  float2* shares = (float2*)(gate_input + TILE);
  const int seed = blockIdx.z, first = blockIdx.x * 16;
  message += (long long)row_of(seed, TIMED_message, NOW) * NODES * H;
  terms += (long long)row_of(seed, TIMED_terms, NOW) * NODES * TERMS;
  hidden += (long long)row_of(seed, TIMED_hidden, NOW) * NODES * H;
  weights += seed * OWN_TERMS * FRAGMENTS;
  gate += seed * FRAGMENTS;
  vectors += seed * VECTORS * H;
  result += (long long)row_of(seed, TIMED_result, NOW) * NODES * H;
  copy += seed * NODES * H;
  if (all_have_ended(first, [&](int sample) { return HAS_ENDED(seed * SAMPLES + sample); })) {
    const int count = min(NODES - first, 16) * H;
    write_zeros(result + first * H, count, T::NUM_THREADS);
    if (TIMED_result) write_zeros(copy + first * H, count, T::NUM_THREADS);
    return;
  }
  T::Sums normal, openness, before;
  float spread[2];
  u32 summed, gated;
  open_gate(message, terms, weights, gate, vectors + 2 * H, first, received,
            gate_input, shares, normal, spread, openness, summed, gated, [&]() {
              if (!GATE) return;
              T::for_pairs(before, [&](int row, int column, float* v, int) {
                const float2 h = two(hidden + node_of(first + row) * H + column);
                v[0] = h.x, v[1] = h.y;
              });
            });
  T::for_pairs(openness, [&](int row, int column, float* c, int pair) {
    if (first + row >= NODES) return;
    const float *n = (const float*)normal + 2 * pair, *h = (const float*)before + 2 * pair;
    const float2 scale = two(vectors + column), offset = two(vectors + H + column);
    float2 after = make_float2(fmaf(n[0], scale.x, offset.x), fmaf(n[1], scale.y, offset.y));
    if (GATE) after = make_float2(h[0] + c[0] * (after.x - h[0]), h[1] + c[1] * (after.y - h[1]));
    *(float2*)(result + (first + row) * H + column) = after;
    if (TIMED_result) *(float2*)(copy + (first + row) * H + column) = after;
  });
}

#endif

#if defined(BUILD_update_backward)
// Sums over the 16 rows to an array over columns; `f(number of a pair)` gives the two values.
template <typename F>
__device__ __forceinline__ void write_sum_over_rows(float* out, F f) {
  constexpr int COUNT = 2 * T::NT;
  float values[COUNT];
#pragma unroll
  for (int n = 0; n < T::NT; ++n) {
    const float2 upper = f(2 * n), lower = f(2 * n + 1);
    values[2 * n] = upper.x + lower.x;
    values[2 * n + 1] = upper.y + lower.y;
  }
  const float total = sum_over_some_lanes<COUNT, 4, 32>(values);
  const int number = threadIdx.x % 32 / 4 % COUNT;
  if (threadIdx.x % 32 / 4 < COUNT) out[T::column(number / 2) + number % 2] = total;
}

// Writes the gradients of the message and of the terms, and per tile those of scale, offset and the gate's bias; with a
// gate also the gradient of the hidden state and the operands of the gate's gradient (input and cotangent).
extern "C" __global__ void __launch_bounds__(T::NUM_THREADS, 2) update_backward(
    const float* message, const float* terms, const float* hidden, const u32* weights, const u32* gate,
    const u32* transposed_weights, const u32* transposed_gate, const float* vectors, const float* d_result,
    TIME_PARAMETERS float* d_message, float* d_terms, float* d_vectors
#if GATE
    , float* d_hidden, bf16* gate_inputs, bf16* d_openings
#endif
) {
  bf16 *received = (bf16*)memory, *gate_input = received + TILE, *d_opening = gate_input + TILE;
  bf16 *d_summed = received, *d_gate_input = gate_input;  // when these are no longer needed
  float2 *shares = (float2*)(d_opening + TILE), *d_shares = shares + SHARES;
  const int seed = blockIdx.z, first = blockIdx.x * 16;
  message += (long long)row_of(seed, TIMED_message, NOW) * NODES * H;
  terms += (long long)row_of(seed, TIMED_terms, NOW) * NODES * TERMS;
  hidden += (long long)row_of(seed, TIMED_hidden, NOW) * NODES * H;
  weights += seed * OWN_TERMS * FRAGMENTS;
  gate += seed * FRAGMENTS;
  transposed_weights += seed * OWN_TERMS * FRAGMENTS;
  transposed_gate += seed * FRAGMENTS;
  vectors += seed * VECTORS * H;
  d_result += seed * NODES * H;
  d_message += seed * NODES * H;
  d_terms += seed * NODES * OWN_TERMS * H;
  d_vectors += ((long long)row_of(seed, TIMED_vectors, NOW) * TILES + blockIdx.x) * VECTORS * H;
#if GATE
  d_hidden += seed * NODES * H;
  gate_inputs += (long long)row_of(seed, TIMED_gate, NOW) * NODES * H;
  d_openings += (long long)row_of(seed, TIMED_gate, NOW) * NODES * H;
#endif
  if (all_have_ended(first, [&](int sample) { return HAS_ENDED(seed * SAMPLES + sample); })) {
    const int count = min(NODES - first, 16) * H;
    write_zeros(d_message + first * H, count, T::NUM_THREADS);
    write_zeros(d_terms + first * OWN_TERMS * H, OWN_TERMS * count, T::NUM_THREADS);
    write_zeros(d_vectors, VECTORS * H, T::NUM_THREADS);
#if GATE
    write_zeros(d_hidden + first * H, count, T::NUM_THREADS);
    write_zeros(gate_inputs + first * H, count, T::NUM_THREADS);
    write_zeros(d_openings + first * H, count, T::NUM_THREADS);
#endif
    return;
  }
  T::Sums normal, sums, before, d;
  T::Weights back_through_gate;
  float spread[2];
  u32 summed, gated;
  open_gate(message, terms, weights, gate, vectors + 2 * H, first, received,
            gate_input, shares, normal, spread, sums, summed, gated, [&]() {
              if (GATE) back_through_gate.start(transposed_gate);
              T::for_pairs(before, [&](int row, int column, float* v, int pair) {
                const int node = node_of(first + row);
                const float2 h = GATE ? two(hidden + node * H + column) : make_float2(0.0f, 0.0f);
                const float2 g = two(d_result + node * H + column);
                const bool valid = first + row < NODES;
                v[0] = h.x, v[1] = h.y;
                ((float*)d)[2 * pair] = valid ? g.x : 0.0f;
                ((float*)d)[2 * pair + 1] = valid ? g.y : 0.0f;
              });
            });

#if GATE
  // From here on `before` takes the rounded cotangent of the gate's output, `d` that of the update.
  T::for_pairs(sums, [&](int row, int column, float* c, int pair) {
    float *n = (float*)normal + 2 * pair, *h = (float*)before + 2 * pair, *g = (float*)d + 2 * pair;
    const float2 scale = two(vectors + column), offset = two(vectors + H + column);
    const u32 opening = pack(g[0] * (fmaf(n[0], scale.x, offset.x) - h[0]) * c[0] * (1.0f - c[0]),
                             g[1] * (fmaf(n[1], scale.y, offset.y) - h[1]) * c[1] * (1.0f - c[1]));
    *(u32*)(d_opening + row * TILE_STRIDE + column) = opening;
    if (first + row < NODES) {
      *(float2*)(d_hidden + (first + row) * H + column) = make_float2(g[0] * (1.0f - c[0]), g[1] * (1.0f - c[1]));
      *(u32*)(gate_inputs + (first + row) * H + column) = *(const u32*)(gate_input + row * TILE_STRIDE + column);
      *(u32*)(d_openings + (first + row) * H + column) = opening;
    }
    const float2 rounded = unpack_pair(opening);
    h[0] = rounded.x, h[1] = rounded.y;
    g[0] *= c[0], g[1] *= c[1];
  });
#endif
  float mean[2] = {0.0f, 0.0f}, along[2] = {0.0f, 0.0f};
  T::for_pairs(d, [&](int, int column, float* g, int pair) {
    const float* n = (const float*)normal + 2 * pair;
    const float2 scale = two(vectors + column);
    const float x = g[0] * scale.x, y = g[1] * scale.y;
    mean[pair % 2] += x + y;
    along[pair % 2] = fmaf(x, n[0], fmaf(y, n[1], along[pair % 2]));
  });
#pragma unroll
  for (int half = 0; half < 2; ++half)
    leave(d_shares, half, sum_over_quad(mean[half]), sum_over_quad(along[half]));
  T::Weights back_through_sums(transposed_weights), back_to_message;
  T::clear(sums);
  __syncthreads();
  if (GATE) {
    T::multiply(sums, d_opening, back_through_gate);
    back_to_message.start(transposed_weights + FRAGMENTS);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float2* of_warps = shares_of_row(d_shares, half);
    mean[half] = along[half] = 0.0f;
#pragma unroll
    for (int w = 0; w < T::N_WARPS; ++w) mean[half] += of_warps[w].x / H, along[half] += of_warps[w].y / H;
  }
  T::for_pairs(sums, [&](int row, int column, float* v, int pair) {
    const float x = gated >> (2 * pair) & 1 ? v[0] : 0.0f, y = gated >> (2 * pair) & 2 ? v[1] : 0.0f;
    const float *n = (const float*)normal + 2 * pair, *g = (const float*)d + 2 * pair;
    const float2 scale = two(vectors + column);
    const int half = pair % 2;
    const float r = summed >> (2 * pair) & 1 ? (g[0] * scale.x - mean[half] - n[0] * along[half]) * spread[half] : 0.0f;
    const float s = summed >> (2 * pair) & 2 ? (g[1] * scale.y - mean[half] - n[1] * along[half]) * spread[half] : 0.0f;
    if (GATE) store_pair(d_gate_input, row, column, x, y);
    store_pair(d_summed, row, column, r, s);
    v[0] = v[1] = 0.0f;
    if (first + row >= NODES) return;
    float* to = d_terms + (first + row) * OWN_TERMS * H + column;
    *(float2*)to = make_float2(r, s);
    if (GATE) *(float2*)(to + H) = make_float2(x, y);
  });
  __syncthreads();
  T::multiply(sums, d_summed, back_through_sums);
  if (GATE) T::multiply(sums, d_gate_input, back_to_message);
  T::for_pairs(sums, [&](int row, int column, float* v, int) {
    if (first + row < NODES) *(float2*)(d_message + (first + row) * H + column) = make_float2(v[0], v[1]);
  });
  write_sum_over_rows(d_vectors, [&](int pair) {
    const float *n = (const float*)normal + 2 * pair, *g = (const float*)d + 2 * pair;
    return make_float2(g[0] * n[0], g[1] * n[1]);
  });
  write_sum_over_rows(d_vectors + H, [&](int pair) { return two((const float*)d + 2 * pair); });
  if (GATE) write_sum_over_rows(d_vectors + 2 * H, [&](int pair) { return two((const float*)before + 2 * pair); });
}
#endif
