// From the scalars of edges to the message that each node receives: the forward kernel, and the backward kernel of the
// products. See messages.py for the formulas.
//
// Compiled for one number of nodes N, of scalars per edge P (at least 1) and of samples SAMPLES, with or without
// ATTENTION, and with LATENT if messages read latents of edges: those that the attention makes, or without it those made
// of the scalars, which then are all features that latents are made of (latent_features.cu).
// With MASK not everyone may send to everyone; with SAVE the forward kernel keeps what the backward kernels need.
// BUILD_<name> says which kernel is wanted.
// blockIdx.z is the seed. A tile has the edges from SENDERS nodes i to RECEIVERS nodes j (a multiple of 16 in all, chosen
// in messages.py), row by row as (j, i). Nodes beyond the last are read as the last once more: that changes no maximum,
// and sums leave them out.

#define SENDER_BLOCKS ((N + SENDERS - 1) / SENDERS)
#define RECEIVER_BLOCKS ((N + RECEIVERS - 1) / RECEIVERS)
#define ROWS (SENDERS * RECEIVERS)
#define PRODUCTS (LATENT ? 3 : 2)
#define IS_WIDE (LATENT && !ATTENTION)  // many scalars per edge: they are not held all at once
// With NORM latents are normalised over their features; scale and offset of a LayerNorm are part of what reads them.
static_assert(IS_WIDE || !NORM, "latents of the attention inside are not normalised");

#define FRAGMENTS (H * H / 2)  // 32-bit words of a weight
#define SMALL (P + 3)  // rows of small gradients of the products: V, v, b1, b2
#define SHARED_TILE (ROWS * TILE_STRIDE)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

#include "half.cuh"
#include "triplets.cuh"

typedef Tiling<ROWS, 8, ROWS == 64 ? 4 : 8> Backward;  // of the backward kernel

// Of the inputs of the products the backward kernel needs to know where they are above zero. The forward kernel keeps
// that as bits: per tile, product and thread of the backward kernel a word, in which pair q (of PAIRS) that the thread
// holds of the tile has the bits `first_sign` and 16 more.
#define SIGNS Backward::NUM_THREADS  // words of a product
#define PAIRS (2 * Backward::MT * Backward::NT)
static_assert(PAIRS <= 16, "signs of more than 32 elements");
__device__ __forceinline__ int first_sign(int q) { return 16 - PAIRS + q; }

// ------------------------------------------------------------------------------------------------------------- forward

#include "attention_forward.cuh"

#if IS_WIDE
// The scalars of edges are many, so they and V go through the matrix units, each as the sum of two bfloat16 numbers. Two
// tiles in shared memory have the first and the second ones, sixteen at a time, with zeros behind the last.
#define WIDE_STEPS ((P + 15) / 16)
#define WIDE_STRIDE (16 * WIDE_STEPS + 8)  // spreads eight rows over all banks
#define WIDE_TILE (ROWS * WIDE_STRIDE)

__device__ __forceinline__ void wide_scalars(const float* scalars, int first_i, int first_j, bf16* high, bf16* low) {
  constexpr int PAIRS_OF_ROW = 8 * WIDE_STEPS;
#pragma unroll 4
  for (int at = threadIdx.x; at < ROWS * PAIRS_OF_ROW; at += THREADS) {
    const int row = at / PAIRS_OF_ROW, p = at % PAIRS_OF_ROW * 2;
    const float* s = edge(scalars, last(first_i + row % SENDERS), last(first_j + row / SENDERS));
    const Split both(p < P ? s[p] : 0.0f, p + 1 < P ? s[p + 1] : 0.0f);
    both.to(*(u32*)(high + row * WIDE_STRIDE + p), *(u32*)(low + row * WIDE_STRIDE + p));
  }
}

// sums += scalars V.
template <typename T>
__device__ __forceinline__ void add_wide(typename T::Sums& sums, const float* value, const bf16* high) {
  const int lane = threadIdx.x % 32;
  const bf16* row = high + lane % 16 * WIDE_STRIDE + 8 * (lane / 16);
#pragma unroll 1
  for (int step = 0; step < WIDE_STEPS; ++step) {
    u32 first[T::NT][2], second[T::NT][2];  // V as a right operand: scalars 2 q, 2 q + 1 and those 8 further
#pragma unroll
    for (int n = 0; n < T::NT; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int p = 16 * step + 8 * half + 2 * (lane % 4);
        const float* v = value + p * H + 8 * (T::n_warp() * T::NT + n) + lane / 4;
        Split(p < P ? v[0] : 0.0f, p + 1 < P ? v[H] : 0.0f).to(first[n][half], second[n][half]);
      }
#pragma unroll
    for (int m = 0; m < T::MT; ++m) {
      u32 a[4], b[4];
      load_matrices(a, row + 16 * m * WIDE_STRIDE + 16 * step);
      load_matrices(b, row + WIDE_TILE + 16 * m * WIDE_STRIDE + 16 * step);
#pragma unroll
      for (int n = 0; n < T::NT; ++n) {
        multiply_accumulate(sums[m][n], b, first[n][0], first[n][1]);
        multiply_accumulate(sums[m][n], a, second[n][0], second[n][1]);
        multiply_accumulate(sums[m][n], a, first[n][0], first[n][1]);
      }
    }
  }
}
#endif

// The scalars that the edges' share of the messages is made of, for a tile: mixed ones, or without attention their own.
__device__ __forceinline__ void own_scalars(const float* scalars, int first_i, int first_j, float* mixed) {
#if IS_WIDE
  wide_scalars(scalars, first_i, first_j, (bf16*)mixed, (bf16*)mixed + WIDE_TILE);
#else
  for (int row = threadIdx.x; row < ROWS; row += THREADS) {
    const float* s = edge(scalars, last(first_i + row % SENDERS), last(first_j + row / SENDERS));
    for (int p = 0; p < P; ++p) mixed[row * P + p] = s[p];
  }
#endif
}

// What the edges of a tile get from their nodes: receive_j + send_i, added to `sums`.
template <typename T>
__device__ __forceinline__ void add_nodes(typename T::Sums& sums, const float* terms, int first_i, int first_j) {
  const float* receive = terms + (LATENT ? 3 * H : 0);
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

// The pairs of a lane are, in their order, those of two lanes of the backward kernel.
struct Signs {
  u32 words[2];
};

// Gives the signs, to be written later: what is read after that write waits for it.
template <typename T>
__device__ __forceinline__ Signs store_rectified(typename T::Sums& sums, bf16* tile) {
  static_assert(T::MT == Backward::MT && T::NT == 2 * Backward::NT, "other than two lanes");
  Signs signs = {{0, 0}};
  T::for_pairs(sums, [&](int row, int column, float* v, int pair) {
    const u32 two = pack_rectified(v[0], v[1]);
    *(u32*)(tile + row * TILE_STRIDE + column) = two;
    // Neither number has its sign bit, so the sum has it where a number is not zero, and nothing is carried.
    u32& word = signs.words[pair / 2 % T::NT / Backward::NT];
    word = word >> 1 | ((two + 0x7fff7fffu) & 0x80008000u);
  });
  return signs;
}

#if NORM
#define EPSILON 1e-5f

// The row of those that a lane has, two of every row tile, which the pairs of `T::for_pairs` belong to.
template <typename T>
__device__ __forceinline__ int row_of_pair(int pair) {
  return pair / (2 * T::NT) * 2 + pair % 2;
}

// Leaves two numbers about every row, of this warp's columns, for all warps to read after a barrier.
template <typename T>
__device__ __forceinline__ void leave(float2* shares, const float (&first)[2 * T::MT], const float (&second)[2 * T::MT]) {
#pragma unroll
  for (int r = 0; r < 2 * T::MT; ++r) {
    const float2 both = make_float2(sum_over_quad(first[r]), sum_over_quad(second[r]));
    if (threadIdx.x % 4 == 0) shares[(T::row(r / 2) + 8 * (r % 2)) * T::N_WARPS + T::n_warp()] = both;
  }
}

// The same as `store_rectified` with rows that are normalised after that. 1 / their spread goes to `spreads` if SAVE.
template <typename T>
__device__ __forceinline__ Signs store_normalised(
    typename T::Sums& sums, bf16* tile, float2* shares, float* spreads) {
  constexpr int NUM_ROWS = 2 * T::MT;
  const float columns = 8 * T::NT;
  const Signs signs = store_rectified<T>(sums, tile);
  float means[NUM_ROWS] = {}, squares[NUM_ROWS] = {};
  T::for_pairs(sums, [&](int, int, float* v, int pair) {
    v[0] = fmaxf(v[0], 0.0f), v[1] = fmaxf(v[1], 0.0f);
    means[row_of_pair<T>(pair)] += (v[0] + v[1]) / columns;
  });
#pragma unroll
  for (int r = 0; r < NUM_ROWS; ++r) means[r] = sum_over_quad(means[r]);
  T::for_pairs(sums, [&](int, int, float* v, int pair) {
    const int r = row_of_pair<T>(pair);
    squares[r] = fmaf(v[0] - means[r], v[0] - means[r], fmaf(v[1] - means[r], v[1] - means[r], squares[r]));
  });
#pragma unroll
  for (int r = 0; r < NUM_ROWS; ++r) means[r] /= 4;  // of which all four lanes have the same
  leave<T>(shares, means, squares);
  __syncthreads();
  float spread[NUM_ROWS];
#pragma unroll
  for (int r = 0; r < NUM_ROWS; ++r) {
    const int row = T::row(r / 2) + 8 * (r % 2);
    const float2* of_warps = shares + row * T::N_WARPS;
    float variance = 0.0f;
    means[r] = 0.0f;
#pragma unroll
    for (int w = 0; w < T::N_WARPS; ++w) means[r] += of_warps[w].x / T::N_WARPS;
#pragma unroll
    for (int w = 0; w < T::N_WARPS; ++w) {
      const float off = of_warps[w].x - means[r];
      variance += fmaf(columns * off, off, of_warps[w].y);
    }
    spread[r] = rsqrtf(variance / H + EPSILON);
    if (SAVE && T::n_warp() == 0 && threadIdx.x % 4 == 0) spreads[row] = spread[r];
  }
  T::for_pairs(sums, [&](int row, int column, float* v, int pair) {
    const int r = row_of_pair<T>(pair);
    store_pair(tile, row, column, (v[0] - means[r]) * spread[r], (v[1] - means[r]) * spread[r]);
  });
  return signs;
}
#endif

template <typename T>
__device__ __forceinline__ void write_signs(u32* out, const Signs& signs) {
#pragma unroll
  for (int half = 0; half < 2; ++half) out[(2 * T::n_warp() + half) * 32 + threadIdx.x % 32] = signs.words[half];
}

// Takes the scalars of a tile of edges through all products but the last. The inputs of the products, rectified, stand
// in turn in the two tiles: `written(m)` is called while the input of product m is complete. The last is in tile
// PRODUCTS - 1 modulo 2 at the end. Their `signs` are kept if SAVE, but those of the last are given back. Weights are
// under way before they are needed, at the end those of the last product.
template <typename T, typename Written>
__device__ __forceinline__ Signs through_products(
    const float* terms, const float* mixed, const float* value, const float* value_offset, const u32* weights,
    const float* biases, int first_i, int first_j, bf16* const (&tiles)[2], u32* signs, float* spreads,
    typename T::Weights& of_product, Written written) {
  of_product.start(weights);
  typename T::Sums sums;
  start_with<T>(sums, value_offset);
  if (!LATENT) add_nodes<T>(sums, terms, first_i, first_j);
#if IS_WIDE
  add_wide<T>(sums, value, (const bf16*)mixed);
#else
#pragma unroll(P <= 4 ? P : 2)
  for (int p = 0; p < P; ++p)
    T::for_pairs(sums, [&](int row, int column, float* v, int) {
      const float2 direction = *(const float2*)(value + p * H + column);
      const float s = mixed[row * P + p];
      v[0] = fmaf(s, direction.x, v[0]);
      v[1] = fmaf(s, direction.y, v[1]);
    });
#endif
#pragma unroll
  for (int m = 0; m < PRODUCTS - 1; ++m) {
#if NORM
    float2* shares = (float2*)((bf16*)mixed + 2 * WIDE_TILE);
    const Signs of_input = m == 0 ? store_normalised<T>(sums, tiles[0], shares, spreads)
                                  : store_rectified<T>(sums, tiles[m % 2]);
#else
    const Signs of_input = store_rectified<T>(sums, tiles[m % 2]);
#endif
    if (m == PRODUCTS - 2) {
      start_with<T>(sums, biases);
    } else {
      T::clear(sums);
      add_nodes<T>(sums, terms, first_i, first_j);
    }
    if (SAVE) write_signs<T>(signs + m * SIGNS, of_input);
    __syncthreads();
    T::multiply(sums, tiles[m % 2], of_product);
    of_product.start(weights + (m + 1) * FRAGMENTS);
    written(m);
  }
  return store_rectified<T>(sums, tiles[(PRODUCTS - 1) % 2]);
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
    return SENDERS < 8 ? 2 * group + threadIdx.x % 32 / 16 : group;
  }
  static __device__ __forceinline__ int column(int call) {
    const int number = call * COUNT + threadIdx.x % 32 / 4 % COUNT;
    return T::column(number / 2) + number % 2;
  }
  // Whether no other lane has the same.
  static __device__ __forceinline__ bool first_of_its_kind() { return threadIdx.x % 32 / 4 % LANES < COUNT; }
  // The group and the sender of the pairs that `T::for_pairs` counts.
  static __device__ __forceinline__ int group_of(int pair) {
    return pair / (2 * T::NT) * (2 / HALVES) + pair % (2 / HALVES);
  }
  static __device__ __forceinline__ int sender_of(int pair) {
    return threadIdx.x % 32 / 4 % LANES + (HALVES == 2 ? 8 * (pair % 2) : 0);
  }
  static __device__ __forceinline__ float& element(typename T::Sums& sums, int group, int number, int half) {
    return sums[group / (2 / HALVES)][number / 2][number % 2 + 2 * (HALVES == 2 ? half : group % 2)];
  }
};

#if LATENT
#define OPERANDS(name) name##_0, name##_1, name##_2
#define OPERAND_PARAMETERS(type, name) type name##_0, type name##_1, type name##_2
#else
#define OPERANDS(name) name##_0, name##_1
#define OPERAND_PARAMETERS(type, name) type name##_0, type name##_1
#endif

#if defined(BUILD_messages_forward)
#define NO_MESSAGE -1e6f  // what a node that may not send contributes to the maximum

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

// Shared memory: two tiles, the mixed scalars, or two tiles of these if IS_WIDE.
extern "C" __global__ void __launch_bounds__(THREADS, 3) messages_forward(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* value,
    const float* value_offset, const u32* weights, const float* biases,
#if MASK
    const signed char* connected,
#endif
    TIME_PARAMETERS float* message
#if SAVE
    , int* best, float* record, u32* signs,
#if NORM
    float* spreads,
#endif
    OPERAND_PARAMETERS(bf16*, operand)
#endif
) {
#if !SAVE
  int* best = 0;
  float* record = 0;
  u32* signs = 0;
#endif
#if !SAVE || !NORM
  float* spreads = 0;
#endif
  const Sample at(RECEIVER_BLOCKS);
  const int now = NOW, block = blockIdx.x % RECEIVER_BLOCKS, first_j = block * RECEIVERS;
#if SAVE
  bf16* const operands[PRODUCTS] = {OPERANDS(operand)};
  const long long first_tile = (at.at(TIMED_operands, now) * RECEIVER_BLOCKS + block) * SENDER_BLOCKS;
  signs += (at.at(TIMED_signs, now) * RECEIVER_BLOCKS + block) * SENDER_BLOCKS * (PRODUCTS * SIGNS);
  spreads += (at.at(TIMED_spreads, now) * RECEIVER_BLOCKS + block) * SENDER_BLOCKS * ROWS;
  if (HAS_ENDED(at.index)) {
    write_zeros(message + (at.at(TIMED_message, now) * N + first_j) * H, min(N - first_j, RECEIVERS) * H, THREADS);
#pragma unroll
    for (int m = 0; m < PRODUCTS; ++m)
      write_zeros((uint4*)(operands[m] + first_tile * (ROWS * H)), SENDER_BLOCKS * ROWS * H / 8, THREADS);
    return;
  }
#endif
  // Keeps the input of a product.
  const auto keep = [&](int m, const bf16* tile, int first_i) {
#if SAVE
    const long long number = first_tile + first_i / SENDERS;
    Tiling<ROWS, WARPS>::copy_out(operands[m] + number * (ROWS * H), tile);
#endif
  };
  typedef Tiling<ROWS, WARPS, ROWS < 64 ? 8 : N <= 16 ? 4 : 2> T;  // with a loop over senders registers are scarcer
  typedef Receivers<T> R;
  bf16* const tiles[2] = {(bf16*)memory, (bf16*)memory + SHARED_TILE};
#if ATTENTION
  float* mixed = (float*)memory + LARGER(SHARED_TILE, sizeof(AttentionMemory) / 4);
#else
  float* mixed = (float*)memory + SHARED_TILE;
#endif
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
#if MASK
  connected += at.index * N * N;
#endif
  Candidate highest[R::GROUPS][R::CALLS];
#pragma unroll
  for (int group = 0; group < R::GROUPS; ++group)
#pragma unroll
    for (int call = 0; call < R::CALLS; ++call) highest[group][call] = {-3.0e38f, 0};
#pragma unroll 1
  for (int first_i = 0; first_i < N; first_i += SENDERS) {
#if ATTENTION
    AttentionMemory& shared = *(AttentionMemory*)memory;  // where tiles will be
    if (first_i > 0) __syncthreads();
    stage(shared, terms, triplet, attention);
    __syncthreads();
    for (int a = threadIdx.x / 32 / SHARING * 4; a < SENDERS; a += 4 * WARPS / SHARING)
      for (int b = 0; b < RECEIVERS; b += 4)
        attend(shared, terms, scalars, first_i + a, first_j + b, a, b, mixed, record);
#else
    own_scalars(scalars, first_i, first_j, mixed);
#endif
#if MASK
    u32 allowed = 0;  // bits: who may send, of the rows of this lane
#pragma unroll
    for (int group = 0; group < R::GROUPS; ++group)
#pragma unroll
      for (int half = 0; half < R::HALVES; ++half) {
        const int i = last(first_i + threadIdx.x % 32 / 4 % R::LANES + 8 * half), j = last(first_j + R::receiver(group));
        allowed |= (connected[i * N + j] ? 1u : 0u) << (group * R::HALVES + half);
      }
#endif
    __syncthreads();
    typename T::Weights of_product;
    u32* of_tile = signs + first_i / SENDERS * (PRODUCTS * SIGNS);
    const Signs of_input = through_products<T>(
        terms, mixed, value, value_offset, weights, biases, first_i, first_j, tiles,
        of_tile, spreads + first_i / SENDERS * ROWS, of_product,
        [&](int m) { keep(m, tiles[m % 2], first_i); });
    typename T::Sums sums;
    start_with<T>(sums, biases + H);
    if (SAVE) write_signs<T>(of_tile + (PRODUCTS - 1) * SIGNS, of_input);
    __syncthreads();
    T::multiply(sums, tiles[(PRODUCTS - 1) % 2], of_product);
    keep(PRODUCTS - 1, tiles[(PRODUCTS - 1) % 2], first_i);
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
            Candidate next = {i < N ? R::element(sums, group, call * R::COUNT + c, half) : -3.0e38f, i};
#if MASK
            if (i < N && !(allowed >> (group * R::HALVES + half) & 1)) next = {NO_MESSAGE, -1};
#endif
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
#endif

// ------------------------------------------------------------------------------------------- backward of the products

#if defined(BUILD_messages_backward)
typedef Receivers<Backward> OfNodes;

// Shared memory: a tile; a tile, or at the end the shares of warps in the gradients of mixed scalars; the mixed scalars.
// messages.py counts the same.
#define SHARES (8 * (IS_WIDE ? 1 : SCALAR_STEPS))  // floats of a row: its scalars and zeros
#define OF_WARPS (Backward::N_WARPS * ROWS * SHARES)
#define GRADIENTS (IS_WIDE ? P : P + 1)  // numbers of an edge that are written

// The receivers of a tile are those of a lane, except that with few senders two lanes have half of them each.
__device__ __forceinline__ float2 over_receivers(float2 mine) {
  if (SENDERS >= 8) return mine;
  const float2 other = {__shfl_xor_sync(0xffffffff, mine.x, 16), __shfl_xor_sync(0xffffffff, mine.y, 16)};
  return make_float2(mine.x + other.x, mine.y + other.y);
}

// The sums of a tile over its senders, to `d_receive`, and over its receivers, to `d_send`.
__device__ __forceinline__ void sum_over_nodes(
    Backward::Sums& sums, int first_j, int num_senders, float* d_receive, float* d_send) {
  typedef OfNodes R;
  static_assert(R::CALLS == 1, "more columns than lanes");
#pragma unroll
  for (int half = 0; half < R::HALVES; ++half) {
    const int i = threadIdx.x % 32 / 4 + 8 * half;
#pragma unroll
    for (int n = 0; n < Backward::NT; ++n) {
      float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int group = 0; group < R::GROUPS; ++group) {
        total.x += R::element(sums, group, 2 * n, half);
        total.y += R::element(sums, group, 2 * n + 1, half);
      }
      total = over_receivers(total);
      if (i < num_senders) *(float2*)(d_send + i * H + Backward::column(n)) = total;
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

// The sums over the rows of a tile, to `out`, an array over columns.
__device__ __forceinline__ void sum_over_rows(Backward::Sums& sums, float* out) {
  float values[OfNodes::COLUMNS] = {};
  Backward::for_pairs(sums, [&](int, int, float* v, int pair) {
    const int c = 2 * (pair / 2 % Backward::NT);
    values[c] += v[0];
    values[c + 1] += v[1];
  });
  const float total = sum_over_some_lanes<OfNodes::COLUMNS, 4, 32>(values);
  const int number = threadIdx.x % 32 / 4 % OfNodes::COLUMNS;
  if (threadIdx.x % 32 / 4 < OfNodes::COLUMNS) out[Backward::column(number / 2) + number % 2] = total;
}

#include "value_backward.cuh"

#if NORM
// From the gradient of normalised rows y, of which `latents` are the rounded ones, to that before.
__device__ __forceinline__ void pull_through_norm(
    Backward::Sums& sums, const bf16* latents, const float* spreads, float2* shares) {
  constexpr int NUM_ROWS = 2 * Backward::MT;
  u32 normal[PAIRS];
  float first[NUM_ROWS] = {}, second[NUM_ROWS] = {};
  Backward::for_pairs(sums, [&](int row, int column, float*, int pair) {
    normal[pair] = *(const u32*)(latents + row * H + column);
  });
  Backward::for_pairs(sums, [&](int, int, float* v, int pair) {
    const float2 y = unpack_pair(normal[pair]);
    const int r = row_of_pair<Backward>(pair);
    first[r] += v[0] + v[1];
    second[r] = fmaf(v[0], y.x, fmaf(v[1], y.y, second[r]));
  });
  leave<Backward>(shares, first, second);
  __syncthreads();
#pragma unroll
  for (int r = 0; r < NUM_ROWS; ++r) {
    const float2* of_warps = shares + (Backward::row(r / 2) + 8 * (r % 2)) * Backward::N_WARPS;
    first[r] = second[r] = 0.0f;
#pragma unroll
    for (int w = 0; w < Backward::N_WARPS; ++w) first[r] += of_warps[w].x / H, second[r] += of_warps[w].y / H;
  }
  Backward::for_pairs(sums, [&](int row, int, float* v, int pair) {
    const float2 y = unpack_pair(normal[pair]);
    const int r = row_of_pair<Backward>(pair);
    const float spread = spreads[row];
    v[0] = spread * (v[0] - first[r] - y.x * second[r]);
    v[1] = spread * (v[1] - first[r] - y.y * second[r]);
  });
  __syncthreads();  // all have read the shares
}
#endif

// Writes the cotangents of what the products gave, for the weights' gradients; the gradients of what nodes receive and
// send, of the mixed scalars (and `expected`, their inner product with the scalars), and per tile the small gradients V,
// v, b1, b2. The inputs of the products, and their signs, have been kept by the forward kernel. If IS_WIDE, nobody asks
// for `expected`, and gradients of the scalars that others have found, `d_given`, are added to those that are written.
extern "C" __global__ void __launch_bounds__(Backward::NUM_THREADS, ROWS > 16 ? 3 : 2) messages_backward(
    const float* scalars, const float* value, const u32* transposed, const int* best, const float* record,
    const u32* signs, const float* d_message,
#if IS_WIDE
    const float* d_given,
#endif
#if NORM
    const bf16* latents, const float* spreads,
#endif
    TIME_PARAMETERS OPERAND_PARAMETERS(bf16*, cotangent), float* d_receive, float* d_send, float* d_mixed, float* small) {
  bf16* const cotangents[PRODUCTS] = {OPERANDS(cotangent)};
  bf16* const tiles[2] = {(bf16*)memory + SHARED_TILE, (bf16*)memory};
  float* of_warps = (float*)tiles[0];  // the last product reads the other one
  float* mixed = of_warps + LARGER(SHARED_TILE / 2, OF_WARPS);

  const int num_tiles = RECEIVER_BLOCKS * SENDER_BLOCKS;
  const Sample at(num_tiles);
  const int tile = blockIdx.x % num_tiles, now = NOW;
  const int first_j = tile / SENDER_BLOCKS * RECEIVERS, first_i = tile % SENDER_BLOCKS * SENDERS;
  const long long number = at.at(TIMED_cotangents, now) * num_tiles + tile;  // of the tile
  small += (at.at(TIMED_small, now) * num_tiles + tile) * SMALL * H;
  d_receive += (at.index * SENDER_BLOCKS + tile % SENDER_BLOCKS) * N * H;
  d_send += ((at.index * RECEIVER_BLOCKS + tile / SENDER_BLOCKS) * N + first_i) * H;
  d_mixed += at.index * N * N * GRADIENTS;
  const int num_senders = min(N - first_i, SENDERS), num_receivers = min(N - first_j, RECEIVERS);
  if (HAS_ENDED(at.index)) {
    constexpr int threads = Backward::NUM_THREADS;
#pragma unroll
    for (int m = 0; m < PRODUCTS; ++m)
      write_zeros((uint4*)(cotangents[m] + number * (ROWS * H)), ROWS * H / 8, threads);
    write_zeros(d_receive + first_j * H, num_receivers * H, threads);
    write_zeros(d_send, num_senders * H, threads);
    write_zeros(small, SMALL * H, threads);
#pragma unroll 1
    for (int i = 0; i < num_senders; ++i)
      write_zeros(d_mixed + ((first_i + i) * N + first_j) * GRADIENTS, num_receivers * GRADIENTS, threads);
    return;
  }
  best += at.at(TIMED_best, now) * N * H;
  record += at.at(TIMED_record, now) * N * N * RECORD;
  d_message += at.index * N * H;
  scalars += at.at(TIMED_scalars, now) * N * N * P;
  value += at.seed * P * H;
  transposed += at.seed * PRODUCTS * FRAGMENTS;
  signs += (at.at(TIMED_signs, now) * num_tiles + tile) * (PRODUCTS * SIGNS);
#if NORM
  latents += (at.at(TIMED_latents, now) * num_tiles + tile) * (ROWS * H);
  spreads += (at.at(TIMED_spreads, now) * num_tiles + tile) * ROWS;
#endif

  // All that is needed for the first product is read before any of it is waited for.
  typedef OfNodes R;
  int2 chosen[R::GROUPS][Backward::NT];  // senders of the messages to this lane's receivers
  float2 d_chosen[R::GROUPS][Backward::NT];
#pragma unroll
  for (int group = 0; group < R::GROUPS; ++group)
#pragma unroll
    for (int n = 0; n < Backward::NT; ++n) {
      const int j = first_j + R::receiver(group), place = last(j) * H + Backward::column(n);
      chosen[group][n] = *(const int2*)(best + place);
      d_chosen[group][n] = *(const float2*)(d_message + place);
      if (j >= N) d_chosen[group][n] = make_float2(0.0f, 0.0f);
    }
  u32 positive[PRODUCTS];
#pragma unroll
  for (int m = 0; m < PRODUCTS; ++m) positive[m] = signs[m * SIGNS + threadIdx.x];
  constexpr int TURNS = (ROWS * P + Backward::NUM_THREADS - 1) / Backward::NUM_THREADS;
  float staged[TURNS];
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int k = min(turn * Backward::NUM_THREADS + (int)threadIdx.x, ROWS * P - 1), row = k / P;
    const int i = last(first_i + row % SENDERS), j = last(first_j + row / SENDERS);
    staged[turn] = ATTENTION ? record[(i * N + j) * RECORD + N + 1 + k % P] : edge(scalars, i, j)[k % P];
  }
  Backward::Weights of_product(transposed + (PRODUCTS - 1) * FRAGMENTS);
#pragma unroll
  for (int turn = 0; turn < TURNS; ++turn) {
    const int k = turn * Backward::NUM_THREADS + threadIdx.x;
    if (k < ROWS * P) mixed[k] = staged[turn];
  }

  // The cotangent of a message goes to the sender that it came from; to none, -1, if nobody's was above NO_MESSAGE.
  Backward::Sums sums;
  Backward::for_pairs(sums, [&](int row, int column, float*, int pair) {
    const int i = first_i + R::sender_of(pair), group = R::group_of(pair), n = pair / 2 % Backward::NT;
    float2 d = make_float2(chosen[group][n].x == i ? d_chosen[group][n].x : 0.0f,
                           chosen[group][n].y == i ? d_chosen[group][n].y : 0.0f);
    store_pair(tiles[PRODUCTS % 2], row, column, d.x, d.y);
  });
  const auto is_here = [&](int i) {
    return (!MASK || i >= 0) && (SENDER_BLOCKS == 1 || i / SENDERS == first_i / SENDERS);
  };
#pragma unroll
  for (int n = 0; n < Backward::NT; ++n) {
    float2 total = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int group = 0; group < R::GROUPS; ++group) {
      total.x += is_here(chosen[group][n].x) ? d_chosen[group][n].x : 0.0f;
      total.y += is_here(chosen[group][n].y) ? d_chosen[group][n].y : 0.0f;
    }
    total = over_receivers(total);
    if (threadIdx.x % 32 < 4) *(float2*)(small + (P + 2) * H + Backward::column(n)) = total;
  }
#if !IS_WIDE
  Directions<SCALAR_STEPS> directions;
#endif
#pragma unroll
  for (int m = PRODUCTS - 1; m >= 0; --m) {
    bf16* const cotangent = tiles[(2 * PRODUCTS - 1 - m) % 2];
#if !IS_WIDE
    if (m == 0) directions.read(value, 0);
#endif
    __syncthreads();
    Backward::clear(sums);
    Backward::multiply(sums, cotangent, of_product);
    if (m > 0) of_product.start(transposed + (m - 1) * FRAGMENTS);
    Backward::copy_out(cotangents[m] + number * (ROWS * H), cotangent);
#if NORM
    if (m == 0) pull_through_norm(sums, latents, spreads, (float2*)of_warps);
#endif
    Backward::for_pairs(sums, [&](int row, int column, float* v, int pair) {
      v[0] = positive[m] >> first_sign(pair) & 1 ? v[0] : 0.0f;
      v[1] = positive[m] >> (first_sign(pair) + 16) & 1 ? v[1] : 0.0f;
      if (m == 0) return;
      const u32 packed = pack(v[0], v[1]);
      *(u32*)(tiles[(2 * PRODUCTS - m) % 2] + row * TILE_STRIDE + column) = packed;
      const float2 rounded = unpack_pair(packed);
      v[0] = rounded.x, v[1] = rounded.y;
    });
    if (m == PRODUCTS - 1) sum_over_rows(sums, small + (P + 1) * H);
    // What `receive_j + send_i` is added to: with latents the output of the first product, without them its input.
    if (m == (LATENT ? 1 : 0)) sum_over_nodes(sums, first_j, num_senders, d_receive, d_send);
  }

#if IS_WIDE
  d_given += at.index * N * N * P;
  const SplitSums gradient(sums);
#pragma unroll 1
  for (int first = 0; first <= P; first += 8) {  // and v
    if (first > 0) __syncthreads();  // all have read the shares of the scalars before
    Directions<1> directions;
    directions.read(value, first);
    pull_through_value<1, 1>(gradient, directions, mixed, first, of_warps, small);
    __syncthreads();
#pragma unroll 1
    for (int at = threadIdx.x; at < ROWS * 8; at += Backward::NUM_THREADS) {
      const int row = at / 8, p = first + at % 8, i = first_i + row % SENDERS, j = first_j + row / SENDERS;
      if (i >= N || j >= N || p >= P) continue;
      float total = d_given[(i * N + j) * P + p];
#pragma unroll
      for (int w = 0; w < Backward::N_WARPS; ++w) total += of_warps[(w * ROWS + row) * SHARES + at % 8];
      d_mixed[(i * N + j) * P + p] = total;
    }
  }
#else
  pull_through_value<SCALAR_STEPS, VALUE_STEPS>(OperandsOfSums{sums}, directions, mixed, 0, of_warps, small);
  __syncthreads();
#pragma unroll 1
  for (int row = threadIdx.x / 4; row < ROWS; row += Backward::NUM_THREADS / 4) {
    const int i = first_i + row % SENDERS, j = first_j + row / SENDERS;
    const bool exists = i < N && j < N;
    float expected = 0.0f, *out = d_mixed + (i * N + j) * (P + 1);
#pragma unroll
    for (int step = 0; step < SCALAR_STEPS; ++step) {
      const int first = 8 * step + 2 * (threadIdx.x % 4);
      float total[2] = {0.0f, 0.0f};
#pragma unroll
      for (int w = 0; w < Backward::N_WARPS; ++w) {
        const float2 share = *(const float2*)(of_warps + (w * ROWS + row) * SHARES + first);
        total[0] += share.x, total[1] += share.y;
      }
#pragma unroll
      for (int c = 0; c < 2; ++c)
        if (first + c < P) {
          expected = fmaf(total[c], mixed[row * P + first + c], expected);
          if (exists) out[first + c] = total[c];
        }
    }
    expected = sum_over_quad(expected);
    if (exists && threadIdx.x % 4 == 0) out[P] = expected;
  }
#endif
}

#endif
