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
#define RECORD (N + 1 + P)  // per edge: its logits over k, their normaliser, the mixed scalars
#define PRODUCTS (ATTENTION ? 3 : 2)
#define TERMS (ATTENTION ? 7 * H : 4 * H)  // per node: with attention x_i, x_j, x_k; receive, send; two for the update

#define FRAGMENTS (H * H / 2)  // 32-bit words of a weight
#define SMALL (P + 3)  // rows of small gradients of the products: V, v, b1, b2
#define SHARED_TILE (ROWS * TILE_STRIDE)

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

// What the edges of a tile get from their nodes: receive_j + send_i, added to `sums`.
template <typename T>
__device__ __forceinline__ void add_nodes(typename T::Sums& sums, const float* terms, int first_i, int first_j) {
  const float* receive = terms + (ATTENTION ? 3 * H : 0);
  T::for_pairs(sums, [&](int row, int column, float* v, int) {
    const float2 r = *(const float2*)(receive + last(first_j + row / SENDERS) * TERMS + column);
    v[0] += r.x;
    v[1] += r.y;
  });
  T::for_pairs(sums, [&](int row, int column, float* v, int) {
    const float2 s = *(const float2*)(receive + H + last(first_i + row % SENDERS) * TERMS + column);
    v[0] += s.x;
    v[1] += s.y;
  });
}

template <typename T>
__device__ __forceinline__ void start_with(typename T::Sums& sums, const float* bias) {
  T::for_pairs(sums, [&](int, int column, float* v, int) {
    const float2 b = *(const float2*)(bias + column);
    v[0] = b.x, v[1] = b.y;
  });
}

// Rectifies `sums` into a tile. Gives the bits of those above zero, as far as there is room for them.
template <typename T>
__device__ __forceinline__ u32 store_rectified(typename T::Sums& sums, bf16* tile) {
  u32 positive = 0;
  T::for_pairs(sums, [&](int row, int column, float* v, int pair) {
    if (2 * pair < 32) positive |= above_zero(v) << (2 * pair);
    store_pair(tile, row, column, fmaxf(v[0], 0.0f), fmaxf(v[1], 0.0f));
  });
  return positive;
}

// Takes the scalars of a tile of edges through all products but the last. The inputs of the products, rectified, stand
// in turn in the two tiles: `written(m)` is called while the input of product m is complete, `positive(m, bits)` before
// that with those of this lane's elements that are above zero. The last is in tile PRODUCTS - 1 modulo 2 at the end.
template <typename T, typename Written, typename Positive>
__device__ __forceinline__ void through_products(
    const float* terms, const float* mixed, const float* value, const float* value_offset, const u32* weights,
    const float* biases, int first_i, int first_j, bf16* const (&tiles)[2], Written written, Positive positive) {
  typename T::Sums sums;
  start_with<T>(sums, value_offset);
  if (!ATTENTION) add_nodes<T>(sums, terms, first_i, first_j);
#pragma unroll 2
  for (int p = 0; p < P; ++p)
    T::for_pairs(sums, [&](int row, int column, float* v, int) {
      const float2 direction = *(const float2*)(value + p * H + column);
      const float s = mixed[row * P + p];
      v[0] = fmaf(s, direction.x, v[0]);
      v[1] = fmaf(s, direction.y, v[1]);
    });
#pragma unroll
  for (int m = 0; m < PRODUCTS - 1; ++m) {
    positive(m, store_rectified<T>(sums, tiles[m % 2]));
    typename T::Weights of_product(weights + m * FRAGMENTS);
    if (m == PRODUCTS - 2) {
      start_with<T>(sums, biases);
    } else {
      T::clear(sums);
      add_nodes<T>(sums, terms, first_i, first_j);
    }
    __syncthreads();
    T::multiply(sums, tiles[m % 2], of_product);
    written(m);
  }
  positive(PRODUCTS - 1, store_rectified<T>(sums, tiles[(PRODUCTS - 1) % 2]));
}

// How the rows of a tile, j after j, lie in the registers of a warp and its lanes. A lane holds two rows of every row
// tile, eight apart; a group is what is reduced over the senders of one receiver.
template <typename T>
struct Receivers {
  static constexpr int LANES = SENDERS < 8 ? SENDERS : 8;  // lanes with rows of the same receiver
  static constexpr int HALVES = SENDERS / LANES;           // rows of the same receiver in a lane's row tile
  static constexpr int GROUPS = T::MT * (2 / HALVES);
  static constexpr int COLUMNS = 2 * T::NT;                // of a lane
  static constexpr int COUNT = COLUMNS < LANES ? COLUMNS : LANES;  // columns that are reduced at a time
  static constexpr int CALLS = COLUMNS / COUNT;
  static_assert(SENDERS >= 8 || T::MT == 1, "receivers of several row tiles in one");

  // The receiver, in the tile, and the column that this lane has in the end.
  static __device__ __forceinline__ int receiver(int group) {
    return SENDERS < 8 ? 2 * group + threadIdx.x % 32 / 16 : T::m_warp() * GROUPS + group;
  }
  static __device__ __forceinline__ int column(int call) {
    const int number = call * COUNT + threadIdx.x % 32 / 4 % COUNT;
    return T::column(number / 2) + number % 2;
  }
  // Whether no other lane has the same.
  static __device__ __forceinline__ bool first_of_its_kind() { return threadIdx.x % 32 / 4 % LANES < COUNT; }
  static __device__ __forceinline__ float& element(typename T::Sums& sums, int group, int number, int half) {
    return sums[group / (2 / HALVES)][number / 2][number % 2 + 2 * (HALVES == 2 ? half : group % 2)];
  }
};

// Shared memory of the forward kernel: two tiles, the mixed scalars.

struct Candidate {
  float value;
  int from;
};

__device__ __forceinline__ Candidate exchange_lanes(Candidate mine, int step) {
  return {__shfl_xor_sync(0xffffffff, mine.value, step), __shfl_xor_sync(0xffffffff, mine.from, step)};
}

// Of equal ones the first sender's.
__device__ __forceinline__ Candidate higher(Candidate a, Candidate b) {
  return a.value > b.value || (a.value == b.value && a.from < b.from) ? a : b;
}

template <bool SAVE>
__device__ __forceinline__ void forward(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* value,
    const float* value_offset, const u32* weights, const float* biases, int now, float* message, int* best,
    float* record) {
  typedef Tiling<ROWS, WARPS> T;
  typedef Receivers<T> R;
  bf16* const tiles[2] = {(bf16*)memory, (bf16*)memory + SHARED_TILE};
  float* mixed = (float*)((bf16*)memory + 2 * SHARED_TILE);
  const Sample at(RECEIVER_BLOCKS);
  const int first_j = blockIdx.x % RECEIVER_BLOCKS * RECEIVERS;
  terms += at.index * N * TERMS;
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

  Candidate highest[R::GROUPS][R::CALLS];
#pragma unroll
  for (int group = 0; group < R::GROUPS; ++group)
#pragma unroll
    for (int call = 0; call < R::CALLS; ++call) highest[group][call] = {-3.0e38f, 0};
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
    through_products<T>(terms, mixed, value, value_offset, weights, biases, first_i, first_j, tiles, [](int) {},
                        [](int, u32) {});
    typename T::Sums sums;
    typename T::Weights of_product(weights + (PRODUCTS - 1) * FRAGMENTS);
    start_with<T>(sums, biases + H);
    __syncthreads();
    T::multiply(sums, tiles[(PRODUCTS - 1) % 2], of_product);
#pragma unroll
    for (int group = 0; group < R::GROUPS; ++group)
#pragma unroll
      for (int call = 0; call < R::CALLS; ++call) {
        Candidate candidates[R::COUNT];
#pragma unroll
        for (int c = 0; c < R::COUNT; ++c)
#pragma unroll
          for (int half = 0; half < R::HALVES; ++half) {
            const int i = first_i + threadIdx.x % 32 / 4 % R::LANES + 8 * half;
            const Candidate next = {i < N ? R::element(sums, group, call * R::COUNT + c, half) : -3.0e38f, i};
            candidates[c] = half == 0 ? next : higher(candidates[c], next);
          }
        highest[group][call] = higher(
            highest[group][call], combine_over_lanes<R::COUNT, 4, 4 * R::LANES>(candidates, higher));
      }
  }
#pragma unroll
  for (int group = 0; group < R::GROUPS; ++group)
#pragma unroll
    for (int call = 0; call < R::CALLS; ++call) {
      const int j = first_j + R::receiver(group), column = R::column(call);
      if (j >= N || !R::first_of_its_kind()) continue;
      message[j * H + column] = highest[group][call].value;
      if (SAVE) best[j * H + column] = highest[group][call].from;
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
#define BACKWARD_WARPS 8
typedef Tiling<ROWS, BACKWARD_WARPS> Backward;
typedef Receivers<Backward> OfNodes;

// Shared memory: a tile; a tile, or at the end the shares of warps in V, v and the mixed scalars; the chosen senders
// and their cotangents, or later the shares in b1 and the senders; the mixed scalars. messages.py counts the same.
#define CHOSEN (2 * RECEIVERS * H)                                  // floats
#define SHARES (Backward::M_WARPS * (1 + SENDERS) * H)
#define OF_WARPS (Backward::N_WARPS * P * ROWS + Backward::M_WARPS * (P + 1) * H)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

// The sums of a tile over its senders, to `d_receive`, and over the receivers that this warp has, to `to_senders`.
__device__ __forceinline__ void sum_over_nodes(Backward::Sums& sums, int first_j, float* d_receive, float* to_senders) {
  typedef OfNodes R;
  static_assert(R::CALLS == 1, "more columns than lanes");
#pragma unroll
  for (int half = 0; half < R::HALVES; ++half) {
    const int i = threadIdx.x % 32 / 4 % R::LANES + 8 * half;
#pragma unroll
    for (int n = 0; n < Backward::NT; ++n) {
      float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int group = 0; group < R::GROUPS; ++group) {
        total.x += R::element(sums, group, 2 * n, half);
        total.y += R::element(sums, group, 2 * n + 1, half);
      }
      if (SENDERS < 8) {
        total.x += __shfl_xor_sync(0xffffffff, total.x, 16);
        total.y += __shfl_xor_sync(0xffffffff, total.y, 16);
      }
      *(float2*)(to_senders + (Backward::m_warp() * SENDERS + i) * H + Backward::column(n)) = total;
    }
  }
#pragma unroll
  for (int group = 0; group < R::GROUPS; ++group) {
    float values[R::COUNT];
#pragma unroll
    for (int c = 0; c < R::COUNT; ++c)
      values[c] = R::element(sums, group, c, 0) + (R::HALVES == 2 ? R::element(sums, group, c, 1) : 0.0f);
    const float total = sum_over_some_lanes<R::COUNT, 4, 4 * R::LANES>(values);
    const int j = first_j + R::receiver(group);
    if (j < N && R::first_of_its_kind()) d_receive[j * H + R::column(0)] = total;
  }
}

// The sums over the rows of a warp, weighted by `factor(row)`, to `out`, an array over columns.
template <typename F>
__device__ __forceinline__ void sum_over_rows(Backward::Sums& sums, float* out, F factor) {
  constexpr int COUNT = OfNodes::COLUMNS;
  float values[COUNT];
#pragma unroll
  for (int c = 0; c < COUNT; ++c) values[c] = 0.0f;
  Backward::for_pairs(sums, [&](int row, int, float* v, int pair) {
    const int c = 2 * (pair / 2 % Backward::NT);
    values[c] = fmaf(factor(row), v[0], values[c]);
    values[c + 1] = fmaf(factor(row), v[1], values[c + 1]);
  });
  const float total = sum_over_some_lanes<COUNT, 4, 32>(values);
  const int number = threadIdx.x % 32 / 4 % COUNT;
  if (threadIdx.x % 32 / 4 < COUNT) out[Backward::column(number / 2) + number % 2] = total;
}

// Adds up `vectors` vectors of which every row of warps has left its share.
__device__ __forceinline__ void write_sum_of_shares(float* out, const float* shares, int vectors, int written) {
  for (int k = threadIdx.x; k < written * H; k += Backward::NUM_THREADS)
    out[k] = Backward::M_WARPS > 1 ? shares[k] + shares[vectors * H + k] : shares[k];
}

// Writes the operands of the weights' gradients, the gradients of what nodes receive and send, of the mixed scalars
// (and `expected`, their inner product with the scalars), and per tile the small gradients V, v, b1, b2.
extern "C" __global__ void __launch_bounds__(Backward::NUM_THREADS, ROWS > 16 ? 3 : 2) messages_backward(
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
  float* chosen_d = (float*)((bf16*)memory + SHARED_TILE) + LARGER(SHARED_TILE / 2, OF_WARPS);
  int* chosen = (int*)(chosen_d + RECEIVERS * H);
  float *of_bias = chosen_d, *to_senders = of_bias + Backward::M_WARPS * H;
  float* mixed = chosen_d + LARGER(CHOSEN, SHARES);
  bf16* const tiles[2] = {(bf16*)memory + SHARED_TILE, (bf16*)memory};
  float* of_warps = (float*)tiles[0];  // the last product reads the other one

  const int num_tiles = RECEIVER_BLOCKS * SENDER_BLOCKS;
  const Sample at(num_tiles);
  const int tile = blockIdx.x % num_tiles, now = NOW;
  const int first_j = tile / SENDER_BLOCKS * RECEIVERS, first_i = tile % SENDER_BLOCKS * SENDERS;
  const int number = (row_of(at.seed, TIMED_operands, now) * SAMPLES + at.sample) * num_tiles + tile;  // of the tile
  best += at.at(TIMED_best, now) * N * H;
  record += at.at(TIMED_record, now) * N * N * RECORD;
  d_message += at.index * N * H;
  scalars += at.index * N * N * P;
  for (int k = threadIdx.x; k < RECEIVERS * H; k += Backward::NUM_THREADS) {
    const int j = first_j + k / H;
    chosen[k] = j < N ? best[first_j * H + k] - first_i : -1;
    chosen_d[k] = j < N ? d_message[first_j * H + k] : 0.0f;
  }
  for (int k = threadIdx.x; k < ROWS * P; k += Backward::NUM_THREADS) {
    const int row = k / P, i = last(first_i + row % SENDERS), j = last(first_j + row / SENDERS);
    mixed[k] = ATTENTION ? record[(i * N + j) * RECORD + N + 1 + k % P] : edge(scalars, i, j)[k % P];
  }
  terms += at.index * N * TERMS;
  value += at.seed * P * H;
  value_offset += at.seed * H;
  weights += at.seed * PRODUCTS * FRAGMENTS;
  biases += at.seed * 2 * H;
  __syncthreads();
  const auto keep = [&](bf16* out, const bf16* tile) {
    Backward::copy_out(out + (long long)number * (ROWS * H), tile);
  };
  u32 positive[PRODUCTS];  // bits: where the inputs of products are above zero
  through_products<Backward>(
      terms, mixed, value, value_offset, weights, biases, first_i, first_j, tiles,
      [&](int m) { keep(operands[m], tiles[m % 2]); },
      [&](int m, u32 bits) { hold(positive[m] = bits); });
  __syncthreads();
  keep(operands[PRODUCTS - 1], tiles[(PRODUCTS - 1) % 2]);

  transposed += at.seed * PRODUCTS * FRAGMENTS;
  small += (at.at(TIMED_small, now) * num_tiles + tile) * SMALL * H;

  // The cotangent of a message goes to the sender that it came from.
  Backward::Sums sums;
  Backward::for_pairs(sums, [&](int row, int column, float*, int) {
    const int from = row / SENDERS * H + column, i = row % SENDERS;
    store_pair(tiles[PRODUCTS % 2], row, column, chosen[from] == i ? chosen_d[from] : 0.0f,
               chosen[from + 1] == i ? chosen_d[from + 1] : 0.0f);
  });
  if (threadIdx.x < H) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < RECEIVERS; ++j) {
      const int i = chosen[j * H + threadIdx.x];
      sum += i >= 0 && i < SENDERS ? chosen_d[j * H + threadIdx.x] : 0.0f;
    }
    small[(P + 2) * H + threadIdx.x] = sum;
  }
  const auto write_to_senders = [&]() {
    float* out = d_send + ((at.index * RECEIVER_BLOCKS + tile / SENDER_BLOCKS) * N + first_i) * H;
    write_sum_of_shares(out, to_senders, SENDERS, N - first_i < SENDERS ? N - first_i : SENDERS);
  };
#pragma unroll
  for (int m = PRODUCTS - 1; m >= 0; --m) {
    bf16* const cotangent = tiles[(2 * PRODUCTS - 1 - m) % 2];
    Backward::Weights of_product(transposed + m * FRAGMENTS);
    __syncthreads();
    // What the last turn left behind.
    if (m == PRODUCTS - 2) write_sum_of_shares(small + (P + 1) * H, of_bias, 1, 1);
    if (ATTENTION && m == 0) write_to_senders();
    Backward::clear(sums);
    Backward::multiply(sums, cotangent, of_product);
    keep(cotangents[m], cotangent);
    Backward::for_pairs(sums, [&](int row, int column, float* v, int pair) {
      v[0] = positive[m] >> (2 * pair) & 1 ? v[0] : 0.0f;
      v[1] = positive[m] >> (2 * pair) & 2 ? v[1] : 0.0f;
      if (m == 0) return;
      const u32 packed = pack(v[0], v[1]);
      *(u32*)(tiles[(2 * PRODUCTS - m) % 2] + row * TILE_STRIDE + column) = packed;
      const float2 rounded = unpack_pair(packed);
      v[0] = rounded.x, v[1] = rounded.y;
    });
    if (m == PRODUCTS - 1) sum_over_rows(sums, of_bias + Backward::m_warp() * H, [](int) { return 1.0f; });
    // What `receive_j + send_i` is added to: with attention the output of the first product, without it its input.
    if (m == (ATTENTION ? 1 : 0)) {
      float* out = d_receive + (at.index * SENDER_BLOCKS + tile % SENDER_BLOCKS) * N * H;
      sum_over_nodes(sums, first_j, out, to_senders);
    }
  }

  // The gradients of V and v, summed over rows, and of the mixed scalars, over columns; then over warps.
  float* of_value = of_warps + Backward::N_WARPS * P * ROWS;
#pragma unroll 2
  for (int p = 0; p < P; ++p) {
    constexpr int COUNT = 2 * Backward::MT;
    float along[COUNT];
#pragma unroll
    for (int r = 0; r < COUNT; ++r) along[r] = 0.0f;
    Backward::for_pairs(sums, [&](int, int column, float* v, int pair) {
      const float2 direction = *(const float2*)(value + p * H + column);
      const int r = pair / (2 * Backward::NT) * 2 + pair % 2;
      along[r] = fmaf(v[0], direction.x, fmaf(v[1], direction.y, along[r]));
    });
    const float total = sum_over_some_lanes<COUNT, 1, 4>(along);
    const int r = threadIdx.x % COUNT, row = Backward::row(r / 2) + 8 * (r % 2);
    if (threadIdx.x % 4 < COUNT) of_warps[(Backward::n_warp() * P + p) * ROWS + row] = total;
    sum_over_rows(sums, of_value + (Backward::m_warp() * (P + 1) + p) * H, [&](int row) { return mixed[row * P + p]; });
  }
  sum_over_rows(sums, of_value + (Backward::m_warp() * (P + 1) + P) * H, [](int) { return 1.0f; });
  __syncthreads();
  if (!ATTENTION) write_to_senders();
  write_sum_of_shares(small, of_value, P + 1, P + 1);
  d_mixed += at.index * N * N * (P + 1);
  for (int row = threadIdx.x; row < ROWS; row += Backward::NUM_THREADS) {
    const int i = first_i + row % SENDERS, j = first_j + row / SENDERS;
    if (i >= N || j >= N) continue;
    float expected = 0.0f;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < Backward::N_WARPS; ++w) total += of_warps[(w * P + p) * ROWS + row];
      expected = fmaf(total, mixed[row * P + p], expected);
      d_mixed[(i * N + j) * (P + 1) + p] = total;
    }
    d_mixed[(i * N + j) * (P + 1) + P] = expected;
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
  terms += at.index * N * TERMS;
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
