// From the scalars of edges to the message that each node receives: the forward kernel, and the backward kernels of the
// products and of the attention. See messages.py for the formulas.
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
#define RECORD (N + 1 + P)  // per edge: its logits over k, their normaliser, the mixed scalars
#define PRODUCTS (ATTENTION ? 3 : 2)
#define TERMS (ATTENTION ? 7 * H : 4 * H)  // per node: with attention x_i, x_j, x_k; receive, send; two for the update

#define FRAGMENTS (H * H / 2)  // 32-bit words of a weight
#define SMALL (P + 3)  // rows of small gradients of the products: V, v, b1, b2
#define SHARED_TILE (ROWS * TILE_STRIDE)

#ifndef TIMED_terms
#define TIMED_terms 0
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

struct Sample {
  int seed, sample, index;  // index: over all seeds
  __device__ Sample(int blocks) {
    seed = blockIdx.z;
    sample = blockIdx.x / blocks;
    index = seed * SAMPLES + sample;
  }
  // The index in an array that may be a stack over time.
  __device__ long long at(bool timed, int now) const { return (long long)row_of(seed, timed, now) * SAMPLES + sample; }
};

__device__ __forceinline__ int last(int node) { return node < N ? node : N - 1; }

// The scalars of the edge from a to b.
__device__ __forceinline__ const float* edge(const float* scalars, int a, int b) { return scalars + (a * N + b) * P; }

// What a triplet has from one of its pairs: 0: x_i + x_j + s_ij E1, 1: x_k + s_ik E2, 2: s_jk E3.
template <int KIND>
__device__ __forceinline__ float4 pair_vector(
    const float* terms, const float* scalars, const float4 (&directions)[P], int first, int second) {
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (KIND == 0) sum = features(terms + first * TERMS) + features(terms + second * TERMS + H);
  if (KIND == 1) sum = features(terms + second * TERMS + 2 * H);
  const float* s = edge(scalars, first, second);
#pragma unroll
  for (int p = 0; p < P; ++p) sum = axpy(s[p], directions[p], sum);
  return sum;
}

// ------------------------------------------------------------------------------------------------------------- forward

#if ATTENTION
#define BLOCK_J (RECEIVERS < 4 ? RECEIVERS : 4)
#define PAIRS (4 * BLOCK_J)

// The attention of 4 x BLOCK_J edges by one warp: mixed scalars to shared memory, with SAVE the record to global memory.
template <bool SAVE>
__device__ __forceinline__ void attend(
    const float* terms, const float* scalars, const float* triplet, const float* attention, float slope,
    int first_i, int first_j, int i_in_tile, int j_in_tile, float* mixed, float* record) {
  const int lane = threadIdx.x % 32;
  float4 absolute = features(attention), linear = absolute;
  absolute = product(absolute, make_float4(0.5f - 0.5f * slope, 0.5f - 0.5f * slope, 0.5f - 0.5f * slope, 0.5f - 0.5f * slope));
  linear = product(linear, make_float4(0.5f + 0.5f * slope, 0.5f + 0.5f * slope, 0.5f + 0.5f * slope, 0.5f + 0.5f * slope));
  float4 directions[P], e2[P], e3[P], u[4][BLOCK_J];
#pragma unroll
  for (int p = 0; p < P; ++p) {
    directions[p] = features(triplet + p * H);
    e2[p] = features(triplet + (P + p) * H);
    e3[p] = features(triplet + (2 * P + p) * H);
  }
#pragma unroll
  for (int a = 0; a < 4; ++a)
#pragma unroll
    for (int b = 0; b < BLOCK_J; ++b)
      u[a][b] = pair_vector<0>(terms, scalars, directions, last(first_i + a), last(first_j + b));

  // After a sum over lanes, lane l has the edge number l % PAIRS of the block.
  const int mine_a = lane % PAIRS / BLOCK_J, mine_b = lane % BLOCK_J;
  const int i = first_i + mine_a, j = first_j + mine_b;
  const bool writes = lane < PAIRS && i < N && j < N;
  float highest = -1e30f, total = 0.0f, mix[P];
#pragma unroll
  for (int p = 0; p < P; ++p) mix[p] = 0.0f;
#pragma unroll 1
  for (int k = 0; k < N; ++k) {
    float4 w[4], q[BLOCK_J];
    float logits[PAIRS], from_w[4], from_q[BLOCK_J];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      w[a] = pair_vector<1>(terms, scalars, e2, last(first_i + a), k);
      from_w[a] = dot(linear, w[a], 0.0f);
    }
#pragma unroll
    for (int b = 0; b < BLOCK_J; ++b) {
      q[b] = pair_vector<2>(terms, scalars, e3, last(first_j + b), k);
      from_q[b] = dot(linear, q[b], 0.0f);
    }
#pragma unroll
    for (int a = 0; a < 4; ++a)
#pragma unroll
      for (int b = 0; b < BLOCK_J; ++b)
        logits[a * BLOCK_J + b] = dot_absolute(absolute, u[a][b] + w[a] + q[b], from_w[a] + from_q[b]);
    const float logit = sum_over_lanes<PAIRS>(logits);
    if (SAVE && writes) record[(i * N + j) * RECORD + k] = logit;
    const float higher = fmaxf(highest, logit), shrink = __expf(highest - higher), weight = __expf(logit - higher);
    const float* s = edge(scalars, last(i), k);
    total = fmaf(total, shrink, weight);
#pragma unroll
    for (int p = 0; p < P; ++p) mix[p] = fmaf(mix[p], shrink, weight * s[p]);
    highest = higher;
  }
  if (lane < PAIRS) {
    const int row = (j_in_tile + mine_b) * SENDERS + i_in_tile + mine_a;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      mixed[row * P + p] = mix[p] / total;
      if (SAVE && writes) record[(i * N + j) * RECORD + N + 1 + p] = mix[p] / total;
    }
    if (SAVE && writes) record[(i * N + j) * RECORD + N] = highest + __logf(total);
  }
}
#endif

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
  scalars += at.index * N * N * P;
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
    const int blocks_j = RECEIVERS / BLOCK_J;
    for (int block = threadIdx.x / 32; block < SENDERS / 4 * blocks_j; block += WARPS) {
      const int a = block / blocks_j * 4, b = block % blocks_j * BLOCK_J;
      attend<SAVE>(terms, scalars, triplet, attention, SLOPE, first_i + a, first_j + b, a, b, mixed, record);
    }
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

#if defined(BUILD_messages_forward)
extern "C" __global__ void __launch_bounds__(THREADS, 3) messages_forward(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* value,
    const float* value_offset, const u32* weights, const float* biases, float* message) {
  forward<false>(terms, scalars, triplet, attention, value, value_offset, weights, biases, 0, message, 0, 0);
}
#endif

#if defined(BUILD_messages_forward_saving)
extern "C" __global__ void __launch_bounds__(THREADS, 3) messages_forward_saving(
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
  scalars += at.index * N * N * P;
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

// ------------------------------------------------------------------------------------------ backward of the attention

#if defined(BUILD_attention_backward)
#define BLOCKS_OF_NODES ((N + 3) / 4)
#define SMALL_ATTENTION (P + 1)
#define WIDTH_B 2
#define EDGES (4 * WIDTH_B)      // pairs (a, b) that a warp has at a time
#define STEPS_C (32 / EDGES)     // nodes c for which the lanes hold the gradients of logits
#define STAGED_C (N <= 32)       // whether the vectors of all pairs (a, c) are kept in shared memory

// The gradient of t_ijk summed over one of its nodes, c, for pairs (a, b) of the others:
//   pass 0: a = i, b = j, c = k    pass 1: a = k, b = i, c = j    pass 2: a = j, b = k, c = i
// A program has four nodes a; its warps share the nodes b among them, two at a time.
template <int PASS>
__device__ __forceinline__ void marginal(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* record,
    const float* d_mixed, float* d_node, float* d_scalars, float* small, float* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_a = blockIdx.x % BLOCKS_OF_NODES * 4;
  constexpr int AB = PASS == 0 ? 0 : PASS == 1 ? 1 : 2;  // the kinds of the three pairs
  constexpr int AC = PASS == 0 ? 1 : PASS == 1 ? 2 : 0;
  constexpr int BC = PASS == 0 ? 2 : PASS == 1 ? 0 : 1;
  float4 of_ab[P], of_ac[P], of_bc[P];
#pragma unroll
  for (int p = 0; p < P; ++p) {
    of_ab[p] = features(triplet + (AB * P + p) * H);
    of_ac[p] = features(triplet + (AC * P + p) * H);
    of_bc[p] = features(triplet + (BC * P + p) * H);
  }
  const float4 weights = features(attention);
  const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float4* staged = (float4*)shared;
  if (STAGED_C) {
    for (int pair = warp; pair < 4 * N; pair += WARPS) {
      const int a = last(first_a + pair % 4), c = pair / 4;
      staged[pair * 32 + lane] = PASS == 0 ? pair_vector<AC>(terms, scalars, of_ac, a, c)
                                           : pair_vector<AC>(terms, scalars, of_ac, c, a);
    }
    __syncthreads();
  }
  float4 to_a[4], to_weights = zero, to_directions[P];
#pragma unroll
  for (int a = 0; a < 4; ++a) to_a[a] = zero;
#pragma unroll
  for (int p = 0; p < P; ++p) to_directions[p] = zero;

#pragma unroll 1
  for (int first_b = WIDTH_B * warp; first_b < N; first_b += WIDTH_B * WARPS) {
    float4 ab[4][WIDTH_B], sum[4][WIDTH_B];
#pragma unroll
    for (int a = 0; a < 4; ++a)
#pragma unroll
      for (int b = 0; b < WIDTH_B; ++b) {
        const int na = last(first_a + a), nb = last(first_b + b);
        ab[a][b] = PASS == 1 ? pair_vector<AB>(terms, scalars, of_ab, nb, na)
                             : pair_vector<AB>(terms, scalars, of_ab, na, nb);
        sum[a][b] = zero;
      }
    // Lane l computes the gradient of the logit of pair l % EDGES with one of STEPS_C nodes c.
    const int my_a = first_a + lane % EDGES / WIDTH_B, my_b = first_b + lane % WIDTH_B;
    const bool valid = my_a < N && my_b < N;
    float mixed_gradient[P];
#pragma unroll
    for (int p = 0; p < P; ++p) mixed_gradient[p] = 0.0f;
#pragma unroll 1
    for (int first_c = 0; first_c < N; first_c += STEPS_C) {
      const int my_c = first_c + lane / EDGES;
      float d_logit = 0.0f;
      if (valid && my_c < N) {
        const int i = PASS == 0 ? my_a : PASS == 1 ? my_b : my_c;
        const int j = PASS == 0 ? my_b : PASS == 1 ? my_c : my_a;
        const int k = PASS == 0 ? my_c : PASS == 1 ? my_a : my_b;
        const float* saved = record + (i * N + j) * RECORD;
        const float* d_mix = d_mixed + (i * N + j) * (P + 1);
        const float* s = edge(scalars, i, k);
        const float alpha = __expf(saved[k] - saved[N]);
        d_logit = -d_mix[P];
#pragma unroll
        for (int p = 0; p < P; ++p) {
          d_logit = fmaf(d_mix[p], s[p], d_logit);
          if (PASS == 1) mixed_gradient[p] = fmaf(alpha, d_mix[p], mixed_gradient[p]);
        }
        d_logit *= alpha;
      }
#pragma unroll 1
      for (int step = 0; step < STEPS_C && first_c + step < N; ++step) {
        const int c = first_c + step;
        float4 ac[4], bc[WIDTH_B];
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          const int na = last(first_a + a);
          if (STAGED_C)
            ac[a] = staged[(4 * c + a) * 32 + lane];
          else
            ac[a] = PASS == 0 ? pair_vector<AC>(terms, scalars, of_ac, na, c)
                              : pair_vector<AC>(terms, scalars, of_ac, c, na);
        }
#pragma unroll
        for (int b = 0; b < WIDTH_B; ++b) {
          const int nb = last(first_b + b);
          bc[b] = PASS == 2 ? pair_vector<BC>(terms, scalars, of_bc, c, nb)
                            : pair_vector<BC>(terms, scalars, of_bc, nb, c);
        }
#pragma unroll
        for (int a = 0; a < 4; ++a)
#pragma unroll
          for (int b = 0; b < WIDTH_B; ++b) {
            const float d = __shfl_sync(0xffffffff, d_logit, EDGES * step + WIDTH_B * a + b);
            const float small_d = SLOPE * d;
            const float4 t = ab[a][b] + ac[a] + bc[b];
            const float4 g = make_float4(t.x > 0 ? d : small_d, t.y > 0 ? d : small_d, t.z > 0 ? d : small_d,
                                         t.w > 0 ? d : small_d);
            sum[a][b] = sum[a][b] + g;
            if (PASS == 0) to_weights = product(g, t) + to_weights;
          }
      }
    }
#pragma unroll
    for (int a = 0; a < 4; ++a)
#pragma unroll
      for (int b = 0; b < WIDTH_B; ++b) {
        sum[a][b] = product(sum[a][b], weights);
        to_a[a] = to_a[a] + sum[a][b];
      }
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const float4 direction = features(triplet + (AB * P + p) * H);
      float partial[EDGES];
#pragma unroll
      for (int a = 0; a < 4; ++a)
#pragma unroll
        for (int b = 0; b < WIDTH_B; ++b) {
          const int na = last(first_a + a), nb = last(first_b + b);
          const float s = (PASS == 1 ? edge(scalars, nb, na) : edge(scalars, na, nb))[p];
          to_directions[p] = axpy(s, sum[a][b], to_directions[p]);
          partial[WIDTH_B * a + b] = dot(sum[a][b], direction, 0.0f);
        }
      float total = sum_over_lanes<EDGES>(partial);
      if (PASS == 1) total += sum_over_groups<EDGES>(mixed_gradient[p]);
      if (lane < EDGES && valid) d_scalars[(PASS == 1 ? my_b * N + my_a : my_a * N + my_b) * P + p] = total;
    }
  }

  // The sum over warps.
  __syncthreads();
  float4* per_warp = (float4*)shared;
  const int vectors = 4 + P + 1;
#pragma unroll
  for (int a = 0; a < 4; ++a) per_warp[(warp * vectors + a) * 32 + lane] = to_a[a];
#pragma unroll
  for (int p = 0; p < P; ++p) per_warp[(warp * vectors + 4 + p) * 32 + lane] = to_directions[p];
  per_warp[(warp * vectors + 4 + P) * 32 + lane] = to_weights;
  __syncthreads();
  for (int v = 0; v < vectors; ++v) {
    float total = 0.0f;
    for (int w = 0; w < WARPS; ++w) total += shared[(w * vectors + v) * H + threadIdx.x];
    if (v >= 4)
      small[(v - 4) * H + threadIdx.x] = total;
    else if (first_a + v < N)
      d_node[(first_a + v) * H + threadIdx.x] = total;
  }
}

// Writes, per pass, the gradients of x_i, x_k or x_j, of the scalars s_ij, s_ik or s_jk, and per program those of E1,
// E2 or E3 and of a (from pass 0; zero in the others).
extern "C" __global__ void __launch_bounds__(THREADS, P <= 3 ? 3 : 2) attention_backward(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* record,
    const float* d_mixed, TIME_PARAMETERS float* d_nodes, float* d_scalars, float* small) {
  const Sample at(BLOCKS_OF_NODES);
  const int pass = blockIdx.y;
  terms += at.at(TIMED_terms, NOW) * N * TERMS;
  scalars += at.index * N * N * P;
  triplet += at.seed * 3 * P * H;
  attention += at.seed * H;
  record += at.at(TIMED_record, NOW) * N * N * RECORD;
  d_mixed += at.index * N * N * (P + 1);
  d_nodes += (at.index * 3 + pass) * N * H;
  d_scalars += (at.index * 3 + pass) * N * N * P;
  small += ((at.at(TIMED_small, NOW) * 3 + pass) * BLOCKS_OF_NODES + blockIdx.x % BLOCKS_OF_NODES) * SMALL_ATTENTION * H;
  float* per_warp = (float*)memory;
  if (pass == 0) marginal<0>(terms, scalars, triplet, attention, record, d_mixed, d_nodes, d_scalars, small, per_warp);
  if (pass == 1) marginal<1>(terms, scalars, triplet, attention, record, d_mixed, d_nodes, d_scalars, small, per_warp);
  if (pass == 2) marginal<2>(terms, scalars, triplet, attention, record, d_mixed, d_nodes, d_scalars, small, per_warp);
}
#endif
