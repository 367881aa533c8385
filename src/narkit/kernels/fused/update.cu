// The update of the hidden state from the message that a node received. See update.py for the formulas.
//
// Compiled for one number of rows (samples times nodes) NODES per seed, and with or without ATTENTION, which decides
// where the two terms of a node stand. blockIdx.x is a tile of 16 rows, blockIdx.z the seed.

#define TERMS (ATTENTION ? 7 * H : 4 * H)
#define FROM_NODE (ATTENTION ? 5 * H : 2 * H)
#define TILES ((NODES + 15) / 16)
#define N_TILES (H / 8 / WARPS)
#define FRAGMENTS (H * H / 2)
#define TILE (16 * TILE_STRIDE)
#define WIDE (16 * WIDE_STRIDE)
#define EPSILON 1e-5f

#ifndef TIMED_terms
#define TIMED_terms 0
#endif
#ifndef TIMED_result
#define TIMED_result 0
#endif
#ifndef TIMED_message
#define TIMED_message 0
#endif
#ifndef TIMED_hidden
#define TIMED_hidden 0
#endif
#ifndef TIMED_gate
#define TIMED_gate 0
#endif
#ifndef TIMED_vectors
#define TIMED_vectors 0
#endif

__device__ __forceinline__ float sum_over_warp(float value) {
  float one[1] = {value};
  return sum_over_lanes<1>(one);
}

// What both kernels compute: the rectified sums, normalised in a second place, 1 / their spread per row, the input of
// the gate, and in registers how far the gate is open.
__device__ __forceinline__ void open_gate(
    const float* message, const float* terms, const u32* weights, const u32* gate, const float* vectors, int first,
    bf16* received, bf16* gate_input, float* rectified, float* normal, float* spread, float (&openness)[1][N_TILES][4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int row = warp; row < 16; row += WARPS) {
    const float4 v = first + row < NODES ? features(message + (first + row) * H) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    *(uint2*)(received + row * TILE_STRIDE + 4 * lane) = make_uint2(pack(v.x, v.y), pack(v.z, v.w));
  }
  __syncthreads();
  float sums[1][N_TILES][4];
  clear(sums);
  clear(openness);
  multiply(sums, received, weights);
  multiply(openness, received, weights + FRAGMENTS);
  const int final = NODES - 1;
  for_pairs(sums, [&](int row, int column, float* v) {
    const int node = first + row < NODES ? first + row : final;
    const float2 term = *(const float2*)(terms + node * TERMS + FROM_NODE + column);
    *(float2*)(rectified + row * WIDE_STRIDE + column) = make_float2(fmaxf(v[0] + term.x, 0.0f), fmaxf(v[1] + term.y, 0.0f));
  });
  for_pairs(openness, [&](int row, int column, float* v) {
    const int node = first + row < NODES ? first + row : final;
    const float2 term = *(const float2*)(terms + node * TERMS + FROM_NODE + H + column);
    store_pair(gate_input, row, column, fmaxf(v[0] + term.x, 0.0f), fmaxf(v[1] + term.y, 0.0f));
  });
  __syncthreads();
  for (int row = warp; row < 16; row += WARPS) {
    const float4 v = *(const float4*)(rectified + row * WIDE_STRIDE + 4 * lane);
    const float mean = sum_over_warp(v.x + v.y + v.z + v.w) / H;
    const float4 centred = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
    const float scale = rsqrtf(sum_over_warp(dot(centred, centred, 0.0f)) / H + EPSILON);
    *(float4*)(normal + row * WIDE_STRIDE + 4 * lane) = product(centred, make_float4(scale, scale, scale, scale));
    if (lane == 0) spread[row] = scale;
  }
  clear(openness);
  multiply(openness, gate_input, gate);
  for_pairs(openness, [&](int row, int column, float* v) {
    const float2 bias = *(const float2*)(vectors + 2 * H + column);
    v[0] = 1.0f / (1.0f + __expf(-v[0] - bias.x));
    v[1] = 1.0f / (1.0f + __expf(-v[1] - bias.y));
  });
  __syncthreads();
}

#if defined(BUILD_update_forward)
extern "C" __global__ void __launch_bounds__(THREADS) update_forward(
    const float* message, const float* terms, const float* hidden, const u32* weights, const u32* gate,
    const float* vectors, TIME_PARAMETERS float* result
#if TIMED_result
    , float* copy
#endif
) {
  bf16 *received = (bf16*)memory, *gate_input = received + TILE;
  float *rectified = (float*)(gate_input + TILE), *normal = rectified + WIDE, *spread = normal + WIDE;
  const int seed = blockIdx.z, first = blockIdx.x * 16;
  message += (long long)row_of(seed, TIMED_message, NOW) * NODES * H;
  terms += (long long)row_of(seed, TIMED_terms, NOW) * NODES * TERMS;
  hidden += (long long)row_of(seed, TIMED_hidden, NOW) * NODES * H;
  weights += seed * 2 * FRAGMENTS;
  gate += seed * FRAGMENTS;
  vectors += seed * 3 * H;
  result += (long long)row_of(seed, TIMED_result, NOW) * NODES * H;
#if TIMED_result
  copy += seed * NODES * H;
#endif
  float openness[1][N_TILES][4];
  open_gate(message, terms, weights, gate, vectors, first, received, gate_input, rectified, normal, spread, openness);
  for_pairs(openness, [&](int row, int column, float* c) {
    if (first + row >= NODES) return;
    const float2 before = *(const float2*)(hidden + (first + row) * H + column);
    const float2 n = *(const float2*)(normal + row * WIDE_STRIDE + column);
    const float2 scale = *(const float2*)(vectors + column), offset = *(const float2*)(vectors + H + column);
    const float2 after = make_float2(before.x + c[0] * (fmaf(n.x, scale.x, offset.x) - before.x),
                                     before.y + c[1] * (fmaf(n.y, scale.y, offset.y) - before.y));
    *(float2*)(result + (first + row) * H + column) = after;
#if TIMED_result
    *(float2*)(copy + (first + row) * H + column) = after;
#endif
  });
}

#endif

#if defined(BUILD_update_backward)
// Writes the gradients of the message, of the two terms and of the hidden state, the operands of the gate's gradient
// (input and cotangent), and per tile the gradients of scale, offset and the gate's bias.
extern "C" __global__ void __launch_bounds__(THREADS) update_backward(
    const float* message, const float* terms, const float* hidden, const u32* weights, const u32* gate,
    const u32* transposed_weights, const u32* transposed_gate, const float* vectors, const float* d_result,
    TIME_PARAMETERS float* d_message, float* d_terms, float* d_hidden, bf16* gate_inputs, bf16* d_openings,
    float* d_vectors) {
  bf16 *received = (bf16*)memory, *gate_input = received + TILE, *d_opening = gate_input + TILE;
  bf16* d_summed = d_opening + TILE;
  float *rectified = (float*)(d_summed + TILE), *normal = rectified + WIDE, *d_update = normal + WIDE;
  float* spread = d_update + WIDE;
  const int seed = blockIdx.z, first = blockIdx.x * 16, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  message += (long long)row_of(seed, TIMED_message, NOW) * NODES * H;
  terms += (long long)row_of(seed, TIMED_terms, NOW) * NODES * TERMS;
  hidden += (long long)row_of(seed, TIMED_hidden, NOW) * NODES * H;
  weights += seed * 2 * FRAGMENTS;
  gate += seed * FRAGMENTS;
  transposed_weights += seed * 2 * FRAGMENTS;
  transposed_gate += seed * FRAGMENTS;
  vectors += seed * 3 * H;
  d_result += seed * NODES * H;
  d_message += seed * NODES * H;
  d_terms += seed * NODES * 2 * H;
  d_hidden += seed * NODES * H;
  gate_inputs += (long long)row_of(seed, TIMED_gate, NOW) * NODES * H;
  d_openings += (long long)row_of(seed, TIMED_gate, NOW) * NODES * H;
  d_vectors += ((long long)row_of(seed, TIMED_vectors, NOW) * TILES + blockIdx.x) * 3 * H;
  float acc[1][N_TILES][4];
  open_gate(message, terms, weights, gate, vectors, first, received, gate_input, rectified, normal, spread, acc);

  for_pairs(acc, [&](int row, int column, float* c) {
    const bool valid = first + row < NODES;
    const int node = valid ? first + row : NODES - 1;
    const float2 before = *(const float2*)(hidden + node * H + column);
    const float2 n = *(const float2*)(normal + row * WIDE_STRIDE + column);
    const float2 scale = *(const float2*)(vectors + column), offset = *(const float2*)(vectors + H + column);
    float2 d = *(const float2*)(d_result + node * H + column);
    if (!valid) d = make_float2(0.0f, 0.0f);
    const float open_x = d.x * (fmaf(n.x, scale.x, offset.x) - before.x) * c[0] * (1.0f - c[0]);
    const float open_y = d.y * (fmaf(n.y, scale.y, offset.y) - before.y) * c[1] * (1.0f - c[1]);
    store_pair(d_opening, row, column, open_x, open_y);
    *(float2*)(d_update + row * WIDE_STRIDE + column) = make_float2(d.x * c[0], d.y * c[1]);
    if (!valid) return;
    *(float2*)(d_hidden + node * H + column) = make_float2(d.x * (1.0f - c[0]), d.y * (1.0f - c[1]));
    *(u32*)(gate_inputs + node * H + column) = *(const u32*)(gate_input + row * TILE_STRIDE + column);
    *(u32*)(d_openings + node * H + column) = pack(open_x, open_y);
  });
  __syncthreads();
  const int column = threadIdx.x;
  float of_scale = 0.0f, of_offset = 0.0f, of_bias = 0.0f;
  for (int row = 0; row < 16; ++row) {
    const float d = d_update[row * WIDE_STRIDE + column];
    of_scale = fmaf(d, normal[row * WIDE_STRIDE + column], of_scale);
    of_offset += d;
    of_bias += unpack(d_opening[row * TILE_STRIDE + column]);
  }
  d_vectors[column] = of_scale;
  d_vectors[H + column] = of_offset;
  d_vectors[2 * H + column] = of_bias;
  for (int row = warp; row < 16; row += WARPS) {
    const float4 n = *(const float4*)(normal + row * WIDE_STRIDE + 4 * lane);
    const float4 v = *(const float4*)(rectified + row * WIDE_STRIDE + 4 * lane);
    const float4 d = product(*(const float4*)(d_update + row * WIDE_STRIDE + 4 * lane), features(vectors));
    const float mean = sum_over_warp(d.x + d.y + d.z + d.w) / H, along = sum_over_warp(dot(d, n, 0.0f)) / H;
    const float scale = spread[row];
    const float4 r = make_float4(v.x > 0 ? (d.x - mean - n.x * along) * scale : 0.0f,
                                 v.y > 0 ? (d.y - mean - n.y * along) * scale : 0.0f,
                                 v.z > 0 ? (d.z - mean - n.z * along) * scale : 0.0f,
                                 v.w > 0 ? (d.w - mean - n.w * along) * scale : 0.0f);
    *(uint2*)(d_summed + row * TILE_STRIDE + 4 * lane) = make_uint2(pack(r.x, r.y), pack(r.z, r.w));
    if (first + row < NODES) *(float4*)(d_terms + (first + row) * 2 * H + 4 * lane) = r;
  }
  clear(acc);
  multiply(acc, d_opening, transposed_gate);
  bf16* d_gate_input = received;  // no longer needed
  for_pairs(acc, [&](int row, int column, float* v) {
    const float2 input = load_pair(gate_input, row, column);
    const float x = input.x > 0.0f ? v[0] : 0.0f, y = input.y > 0.0f ? v[1] : 0.0f;
    store_pair(d_gate_input, row, column, x, y);
    if (first + row < NODES) *(float2*)(d_terms + (first + row) * 2 * H + H + column) = make_float2(x, y);
  });
  __syncthreads();
  clear(acc);
  multiply(acc, d_summed, transposed_weights);
  multiply(acc, d_gate_input, transposed_weights + FRAGMENTS);
  for_pairs(acc, [&](int row, int column, float* v) {
    if (first + row < NODES) *(float2*)(d_message + (first + row) * H + column) = make_float2(v[0], v[1]);
  });
}
#endif
