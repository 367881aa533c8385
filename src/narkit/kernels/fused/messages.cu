// From the scalars of edges to the message that each node receives: the forward kernel, and the backward kernel of the
// products. See messages.py for the formulas.
//
// Compiled for one number of nodes N, of scalars per edge P (at least 1) and of samples SAMPLES, with or without
// ATTENTION; BUILD_<name> says which kernel is wanted. blockIdx.z is the seed. A tile has the edges from SENDERS nodes i
// to RECEIVERS nodes j (a multiple of 16 in all, chosen in messages.py), row by row as (j, i). Nodes beyond the last are
// read as the last once more: that changes no maximum, and sums leave them out.

#define SENDER_BLOCKS ((N + SENDERS - 1) / SENDERS)
#define RECEIVER_BLOCKS ((N + RECEIVERS - 1) / RECEIVERS)
#define ROWS (SENDERS * RECEIVERS)
#define M_TILES (ROWS / 16)
#define N_TILES (H / 8 / WARPS)
// Per edge: its logits over k, their normaliser, the mixed scalars. Beyond 1,289 nodes an int cannot count them all.
#if N > 1200
#define RECORD ((long long)(N + 1 + P))
#else
#define RECORD (N + 1 + P)
#endif
#define PRODUCTS (ATTENTION ? 3 : 2)
#define TERMS (ATTENTION ? 7 * H : 4 * H)  // per node: with attention x_i, x_j, x_k; receive, send; two for the update

#define FRAGMENTS (H * H / 2)  // 32-bit words of a weight
#define SMALL (P + 3)  // rows of small gradients of the products: V, v, b1, b2
#define SHARED_TILE (ROWS * TILE_STRIDE)

#ifndef TIMED_terms
#define TIMED_terms 0
#endif
#ifndef TIMED_scalars
#define TIMED_scalars 0
#endif
#ifndef TIMED_message
#define TIMED_message 0
#endif
#ifndef TIMED_best
#define TIMED_best 0
#endif
#ifndef TIMED_record
#define TIMED_record 0
#endif
#ifndef TIMED_operands
#define TIMED_operands 0
#endif
#ifndef TIMED_small
#define TIMED_small 0
#endif

#include "half.cuh"
#include "triplets.cuh"

// ------------------------------------------------------------------------------------------------------------- forward

#include "attention_forward.cuh"

// The scalars that the edges' share of the messages is made of, for a tile: mixed ones, or without attention their own.
__device__ __forceinline__ void own_scalars(const float* scalars, int first_i, int first_j, float* mixed) {
  for (int row = threadIdx.x; row < ROWS; row += THREADS) {
    const float* s = edge(scalars, last(first_i + row % SENDERS), last(first_j + row / SENDERS));
    for (int p = 0; p < P; ++p) mixed[row * P + p] = s[p];
  }
}

// Rows `mixed V + v`: with attention rectified to be multiplied by Me, without it what is multiplied by W1.
__device__ __forceinline__ float4 edge_features(
    const float* mixed, const float4 (&value)[P], float4 value_offset, int row) {
  float4 sum = value_offset;
#pragma unroll
  for (int p = 0; p < P; ++p) sum = axpy(mixed[row * P + p], value[p], sum);
  return sum;
}

__device__ __forceinline__ void store_features(bf16* tile, int row, float4 values) {
  const int lane = threadIdx.x % 32;
  *(uint2*)(tile + row * TILE_STRIDE + 4 * lane) =
      make_uint2(pack(fmaxf(values.x, 0.0f), fmaxf(values.y, 0.0f)), pack(fmaxf(values.z, 0.0f), fmaxf(values.w, 0.0f)));
}

// Fills the inputs of the products, all but the last output: `inputs[m]` is what product m reads, rectified.
__device__ __forceinline__ void through_products(
    const float* terms, const float* mixed, const float* value, const float* value_offset, const u32* weights,
    const float* biases, int first_i, int first_j, bf16* const (&inputs)[3]) {
  const int warp = threadIdx.x / 32;
  float4 directions[P];
#pragma unroll
  for (int p = 0; p < P; ++p) directions[p] = features(value + p * H);
  const float4 offset = features(value_offset);
  const float* receive = terms + (ATTENTION ? 3 * H : 0);
  const float* send = receive + H;
  float acc[M_TILES][N_TILES][4];
  for (int row = warp; row < ROWS; row += WARPS) {
    float4 sum = edge_features(mixed, directions, offset, row);
    if (!ATTENTION)
      sum = sum + features(receive + last(first_j + row / SENDERS) * TERMS) +
            features(send + last(first_i + row % SENDERS) * TERMS);
    store_features(inputs[0], row, sum);
  }
  __syncthreads();
#if ATTENTION
  clear(acc);
  multiply(acc, inputs[0], weights);
  for_pairs(acc, [&](int row, int column, float* v) {
    const float2 r = *(const float2*)(receive + last(first_j + row / SENDERS) * TERMS + column);
    const float2 s = *(const float2*)(send + last(first_i + row % SENDERS) * TERMS + column);
    store_pair(inputs[1], row, column, fmaxf(v[0] + r.x + s.x, 0.0f), fmaxf(v[1] + r.y + s.y, 0.0f));
  });
  __syncthreads();
#endif
  clear(acc);
  multiply(acc, inputs[PRODUCTS - 2], weights + (PRODUCTS - 2) * FRAGMENTS);
  for_pairs(acc, [&](int row, int column, float* v) {
    const float2 b = *(const float2*)(biases + column);
    store_pair(inputs[PRODUCTS - 1], row, column, fmaxf(v[0] + b.x, 0.0f), fmaxf(v[1] + b.y, 0.0f));
  });
  __syncthreads();
}

// Shared memory of the forward kernel: two tiles, the messages, the mixed scalars.

template <bool SAVE>
__device__ __forceinline__ void forward(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* value,
    const float* value_offset, const u32* weights, const float* biases, int now, float* message, int* best,
    float* record) {
  bf16* tiles = (bf16*)memory;
  float* messages = (float*)(tiles + 2 * SHARED_TILE);
  float* mixed = messages + ROWS * WIDE_STRIDE;
  const Sample at(RECEIVER_BLOCKS);
  const int first_j = blockIdx.x % RECEIVER_BLOCKS * RECEIVERS;
  terms += at.at(TIMED_terms, now) * N * TERMS;
  scalars += at.at(TIMED_scalars, now) * N * N * P;
  triplet += at.seed * 3 * P * H;
  attention += at.seed * H;
  value += at.seed * P * H;
  value_offset += at.seed * H;
  weights += at.seed * PRODUCTS * FRAGMENTS;
  biases += at.seed * 2 * H;
  message += at.at(TIMED_message, now) * N * H;
  best += at.at(TIMED_best, now) * N * H;
  record += at.at(TIMED_record, now) * N * N * RECORD;

  float highest[RECEIVERS];
  int from[RECEIVERS];
#pragma unroll
  for (int j = 0; j < RECEIVERS; ++j) highest[j] = -3.0e38f, from[j] = 0;
#pragma unroll 1
  for (int first_i = 0; first_i < N; first_i += SENDERS) {
#if ATTENTION
    AttentionMemory& shared = *(AttentionMemory*)messages;  // which are made later
    stage(shared, terms, triplet, attention);
    __syncthreads();
    for (int a = threadIdx.x / 32 * 4; a < SENDERS; a += 4 * WARPS)
      for (int b = 0; b < RECEIVERS; b += 4)
        attend<SAVE>(shared, terms, scalars, first_i + a, first_j + b, a, b, mixed, record);
#else
    own_scalars(scalars, first_i, first_j, mixed);
#endif
    __syncthreads();
    bf16* inputs[3] = {tiles, tiles + SHARED_TILE, tiles};
    through_products(terms, mixed, value, value_offset, weights, biases, first_i, first_j, inputs);
    float acc[M_TILES][N_TILES][4];
    clear(acc);
    multiply(acc, inputs[PRODUCTS - 1], weights + (PRODUCTS - 1) * FRAGMENTS);
    for_pairs(acc, [&](int row, int column, float* v) {
      const float2 b = *(const float2*)(biases + H + column);
      *(float2*)(messages + row * WIDE_STRIDE + column) = make_float2(v[0] + b.x, v[1] + b.y);
    });
    __syncthreads();
#pragma unroll
    for (int j = 0; j < RECEIVERS; ++j)
      for (int i = 0; i < SENDERS && first_i + i < N; ++i) {
        const float v = messages[(j * SENDERS + i) * WIDE_STRIDE + threadIdx.x];
        if (v > highest[j]) highest[j] = v, from[j] = first_i + i;
      }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < RECEIVERS; ++j)
    if (first_j + j < N) {
      message[(first_j + j) * H + threadIdx.x] = highest[j];
      if (SAVE) best[(first_j + j) * H + threadIdx.x] = from[j];
    }
}

#ifndef FPS
#define FPS 3
#endif
#if defined(BUILD_messages_forward)
extern "C" __global__ void __launch_bounds__(THREADS, FPS) messages_forward(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* value,
    const float* value_offset, const u32* weights, const float* biases, float* message) {
  forward<false>(terms, scalars, triplet, attention, value, value_offset, weights, biases, 0, message, 0, 0);
}
#endif

#if defined(BUILD_messages_forward_saving)
extern "C" __global__ void __launch_bounds__(THREADS, FPS) messages_forward_saving(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* value,
    const float* value_offset, const u32* weights, const float* biases, TIME_PARAMETERS float* message, int* best,
    float* record) {
  forward<true>(terms, scalars, triplet, attention, value, value_offset, weights, biases, NOW, message, best, record);
}
#endif

// ------------------------------------------------------------------------------------------- backward of the products

#if defined(BUILD_messages_backward)
// Shared memory: the three inputs, two cotangents, the mixed scalars. The gradient of the edge features, in float32,
// takes the place of the second and third input once they are no longer needed.

// Writes the operands of the weights' gradients, the gradients of what nodes receive and send, of the mixed scalars
// (and `expected`, their inner product with the scalars), and per tile the small gradients V, v, b1, b2.
extern "C" __global__ void __launch_bounds__(THREADS, 2) messages_backward(
    const float* terms, const float* scalars, const float* value, const float* value_offset, const u32* weights,
    const u32* transposed, const float* biases, const int* best, const float* record, const float* d_message,
    TIME_PARAMETERS
#if ATTENTION
    bf16* operand_0, bf16* operand_1, bf16* operand_2, bf16* cotangent_0, bf16* cotangent_1, bf16* cotangent_2,
#else
    bf16* operand_0, bf16* operand_1, bf16* cotangent_0, bf16* cotangent_1,
#endif
    float* d_receive, float* d_send, float* d_mixed, float* small) {
#if ATTENTION
  bf16 *operands[3] = {operand_0, operand_1, operand_2}, *cotangents[3] = {cotangent_0, cotangent_1, cotangent_2};
#else
  bf16 *operands[2] = {operand_0, operand_1}, *cotangents[2] = {cotangent_0, cotangent_1};
#endif
  bf16* inputs[3];
  for (int m = 0; m < 3; ++m) inputs[m] = (bf16*)memory + m * SHARED_TILE;
  bf16* outputs[2] = {(bf16*)memory + 3 * SHARED_TILE, (bf16*)memory + 4 * SHARED_TILE};
  float* d_features = (float*)inputs[1];
  float* mixed = (float*)((bf16*)memory + 5 * SHARED_TILE);

  const int tiles = RECEIVER_BLOCKS * SENDER_BLOCKS;
  const Sample at(tiles);
  const int tile = blockIdx.x % tiles;
  const int first_j = tile / SENDER_BLOCKS * RECEIVERS, first_i = tile % SENDER_BLOCKS * SENDERS;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  terms += at.at(TIMED_terms, NOW) * N * TERMS;
  scalars += at.at(TIMED_scalars, NOW) * N * N * P;
  value += at.seed * P * H;
  value_offset += at.seed * H;
  weights += at.seed * PRODUCTS * FRAGMENTS;
  transposed += at.seed * PRODUCTS * FRAGMENTS;
  biases += at.seed * 2 * H;
  best += at.at(TIMED_best, NOW) * N * H;
  record += at.at(TIMED_record, NOW) * N * N * RECORD;
  d_message += at.index * N * H;
  const long long place = (at.at(TIMED_operands, NOW) * tiles + tile) * ROWS * H;
  d_receive += (at.index * SENDER_BLOCKS + tile % SENDER_BLOCKS) * N * H;
  d_send += (at.index * RECEIVER_BLOCKS + tile / SENDER_BLOCKS) * N * H;
  d_mixed += at.index * N * N * (P + 1);
  small += (at.at(TIMED_small, NOW) * tiles + tile) * SMALL * H;

#if ATTENTION
  for (int row = threadIdx.x; row < ROWS; row += THREADS) {
    const float* saved = record + (last(first_i + row % SENDERS) * N + last(first_j + row / SENDERS)) * RECORD + N + 1;
    for (int p = 0; p < P; ++p) mixed[row * P + p] = saved[p];
  }
#else
  own_scalars(scalars, first_i, first_j, mixed);
#endif
  __syncthreads();
  through_products(terms, mixed, value, value_offset, weights, biases, first_i, first_j, inputs);
#pragma unroll
  for (int m = 0; m < PRODUCTS; ++m) copy_out(operands[m] + place, inputs[m], ROWS);

  // The cotangent of a message goes to the sender that it came from.
  const int column = threadIdx.x;
  float sum = 0.0f;
  for (int row = 0; row < ROWS; ++row) {
    const int i = first_i + row % SENDERS, j = first_j + row / SENDERS;
    const bool chosen = i < N && j < N && best[j * H + column] == i;
    const float d = chosen ? d_message[j * H + column] : 0.0f;
    outputs[0][row * TILE_STRIDE + column] = (bf16)(pack(d, 0.0f) & 0xffffu);
    sum += d;
  }
  small[(P + 2) * H + column] = sum;
  __syncthreads();
  copy_out(cotangents[PRODUCTS - 1] + place, outputs[0], ROWS);

  float acc[M_TILES][N_TILES][4];
  int current = 0;
#pragma unroll 1
  for (int m = PRODUCTS - 1; m > 0; --m) {
    clear(acc);
    multiply(acc, outputs[current], transposed + m * FRAGMENTS);
    bf16 *rectified = inputs[m], *out = outputs[1 - current];
    for_pairs(acc, [&](int row, int column, float* v) {
      const float2 input = load_pair(rectified, row, column);
      store_pair(out, row, column, input.x > 0.0f ? v[0] : 0.0f, input.y > 0.0f ? v[1] : 0.0f);
    });
    __syncthreads();
    current = 1 - current;
    copy_out(cotangents[m - 1] + place, out, ROWS);
    if (m == PRODUCTS - 1) {
      sum = 0.0f;
      for (int row = 0; row < ROWS; ++row) sum += unpack(out[row * TILE_STRIDE + column]);
      small[(P + 1) * H + column] = sum;
    }
  }
  // What `receive_j + send_i` is added to: with attention the output of the first product, without it its input.
  clear(acc);
  multiply(acc, outputs[current], transposed);
  __syncthreads();  // `d_features` overwrites inputs that other warps may still read
  for_pairs(acc, [&](int row, int column, float* v) {
    const float2 input = load_pair(inputs[0], row, column);
    *(float2*)(d_features + row * WIDE_STRIDE + column) =
        make_float2(input.x > 0.0f ? v[0] : 0.0f, input.y > 0.0f ? v[1] : 0.0f);
  });
  __syncthreads();

  float of_value[P], of_offset = 0.0f, to_sender[SENDERS];
#pragma unroll
  for (int p = 0; p < P; ++p) of_value[p] = 0.0f;
#pragma unroll
  for (int i = 0; i < SENDERS; ++i) to_sender[i] = 0.0f;
  for (int j = 0; j < RECEIVERS; ++j) {
    float to_receiver = 0.0f;
#pragma unroll
    for (int i = 0; i < SENDERS; ++i) {
      const int row = j * SENDERS + i;
      const float d = d_features[row * WIDE_STRIDE + column];
      const float d_sum = ATTENTION ? unpack(outputs[current][row * TILE_STRIDE + column]) : d;
      to_receiver += d_sum;
      to_sender[i] += d_sum;
      of_offset += d;
#pragma unroll
      for (int p = 0; p < P; ++p) of_value[p] = fmaf(mixed[row * P + p], d, of_value[p]);
    }
    if (first_j + j < N) d_receive[(first_j + j) * H + column] = to_receiver;
  }
#pragma unroll
  for (int i = 0; i < SENDERS; ++i)
    if (first_i + i < N) d_send[(first_i + i) * H + column] = to_sender[i];
#pragma unroll
  for (int p = 0; p < P; ++p) small[p * H + column] = of_value[p];
  small[P * H + column] = of_offset;

  for (int row = warp; row < ROWS; row += WARPS) {
    const int i = first_i + row % SENDERS, j = first_j + row / SENDERS;
    const float4 d = *(const float4*)(d_features + row * WIDE_STRIDE + 4 * lane);
    float expected = 0.0f;
    for (int p = 0; p < P; ++p) {
      float partial[1] = {dot(d, features(value + p * H), 0.0f)};
      const float total = sum_over_lanes<1>(partial);
      expected = fmaf(total, mixed[row * P + p], expected);
      if (lane == 0 && i < N && j < N) d_mixed[(i * N + j) * (P + 1) + p] = total;
    }
    if (lane == 0 && i < N && j < N) d_mixed[(i * N + j) * (P + 1) + P] = expected;
  }
}

#endif
