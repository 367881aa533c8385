// Backward of the attention: from the gradients of logits to those of all that triplets' vectors t_ijk are made of.
//
// Compiled for N nodes with TERMS terms each, P scalars per edge and SAMPLES samples. blockIdx.z is the seed. A sample
// has PARTS blocks; each has four nodes a = i (if there are more than 4 PARTS, one four after the other), visits all
// their triplets and sums what it finds for the other nodes and edges. The parts of such a sum are added up later.
//
// With d the gradient of a logit and w the weights of the attention, the gradient of t is w d where t > 0 and slope w d
// elsewhere. What is asked for are its sums over c = k, over b = j and over a, times scalars or directions:
//   over c: a product of the mask [t > 0] with d, by the matrix units. The linear part, a sum of d, is zero there.
//   over up to sixteen b and over the four a: in half precision, two numbers at a time. They start with the linear part
//   divided by 1 - slope, which all sums are multiplied by in the end.
// d is scaled by a power of two such that no sum exceeds half precision. The mask of sixteen features (rows) and
// sixteen nodes c (columns; eight in a graph of no more) is made once per pair (a, b), and serves all three sums.
//
// Each warp has its own 32 features, so warps have nothing in common but what attention_cell.cuh holds.

// FEATURES is 0 for TEAM, whose record has the mixed scalars, too; else the number of features that latents are made of.
// With ADDED others have read the attention's weights, and logits have got numbers of others: gradients of the former are
// read, and those of the latter written.

#define ATTENTION 1
#include "half.cuh"
#include "triplets.cuh"
#include "attention_cell.cuh"

// In one piece, which the compiler does not see for itself.
__device__ __forceinline__ void store(float* out, float4 value) {
#ifdef EMULATED
  *(float4*)out = value;
#else
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :: "l"(out), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
#endif
}

// Writes this lane's four features of a gradient, weight times sums, or adds them to what is there. Returns through
// `to_weight` what the gradient of w gets: as t is a sum over nodes and pairs, so is that; `from` is what these add.
__device__ __forceinline__ void put(
    float* out, const Four& sums, const Four& weight, const float* from, Four& to_weight, bool adds) {
  const Four of(from);
  float4 value = make_float4(
      weight.v[0] * sums.v[0], weight.v[1] * sums.v[1], weight.v[2] * sums.v[2], weight.v[3] * sums.v[3]);
  if (adds) value = value + *(const float4*)out;
  store(out, value);
#pragma unroll
  for (int f = 0; f < 4; ++f) to_weight.v[f] = fmaf(of.v[f], sums.v[f], to_weight.v[f]);
}

// What a warp reads of a cell but for nodes b: before it waits for others.
struct Operands {
  Directions e1, e2, e3;
  WeightedDirections weighted_e3;
  Four of_a[4], of_c[HALVES][2];
  __device__ __forceinline__ Operands(
      const float* terms, const float* triplet, const float* attention, const Cell& cell)
      : e1(triplet + first_feature()), e2(triplet + P * H + first_feature()), e3(triplet + 2 * P * H + first_feature()),
        weighted_e3(triplet + 2 * P * H, attention) {
    terms += first_feature();
#pragma unroll
    for (int a = 0; a < 4; ++a) of_a[a] = Four(terms + last(cell.a + a) * TERMS);
#pragma unroll
    for (int i = 0; i < 2 * HALVES; ++i)
      of_c[i / 2][i % 2] = Four(terms + last(cell.c + i / 2 * 8 + 2 * Lane().q + i % 2) * TERMS + 2 * H);
  }
};

// What edges add to t: to sums of a tile's features and eight edges, their directions times their scalars.
__device__ __forceinline__ void add_products(
    float (&sums)[4], const u32 (&directions)[SCALAR_STEPS][2], const u32 (&words)[OPERAND_WORDS]) {
#if PACKED
  multiply_add_half_8(sums, directions[0], words[0], sums);
#else
#pragma unroll
  for (int step = 0; step < SCALAR_STEPS; ++step) {
    const u32 twice[4] = {directions[step][0], directions[step][1], directions[step][0], directions[step][1]};
    const uint2 both = *(const uint2*)(words + 2 * step);
    multiply_add_half(sums, twice, both.x, both.y, sums);
  }
#endif
}

// sums += left right, where the left operand's columns are the nodes c; `right` has a word for each eight of them.
__device__ __forceinline__ void multiply_over_nodes(float (&sums)[4], const u32* left, u32 first, u32 second) {
#if N > 8
  multiply_add_half(sums, left, first, second, sums);
#else
  multiply_add_half_8(sums, left, first, sums);
#endif
}

// Sums over a tile's features: of the product of `by_features` (rows are features) with directions times w.
template <int COLUMN_HALVES>
__device__ __forceinline__ void add_to_scalars(
    float (&sums)[SCALAR_STEPS][4], const u32* by_features, const u32 (&weighted)[SCALAR_STEPS][2]) {
  u32 by_columns[4] = {0, 0, 0, 0};
#pragma unroll
  for (int half = 0; half < COLUMN_HALVES; ++half)
#pragma unroll
    for (int r = 0; r < 2; ++r) by_columns[half + 2 * r] = transposed(by_features[2 * half + r]);
#pragma unroll
  for (int step = 0; step < SCALAR_STEPS; ++step)
    multiply_add_half(sums[step], by_columns, weighted[step][0], weighted[step][1], sums[step]);
}

// Keeps the gradients of a row's scalars, or of two rows; `of_row` is where this lane's first two go.
template <int COLUMN_HALVES>
__device__ __forceinline__ void keep_scalars(Share* of_row, const float (&sums)[SCALAR_STEPS][4]) {
#pragma unroll
  for (int step = 0; step < SCALAR_STEPS; ++step)
#pragma unroll
    for (int half = 0; half < COLUMN_HALVES; ++half)
      if (8 * step + 2 * Lane().q < P)
        write_share(of_row + half * 8 * (EVEN_P / 2 * WORDS) + 4 * WORDS * step, sums[step][2 * half],
                    sums[step][2 * half + 1]);
}

// What pairs (a, b) add to t, with both nodes.
__device__ __forceinline__ void stage_pairs(
    BackwardMemory& shared, const float* terms, const Operands& operands, const Cell& cell) {
  const Lane at;
#pragma unroll 2
  for (int four = 0; four < FOURS; ++four) {
    const Four of_b(terms + last(cell.b + 4 * four + at.q) * TERMS + H);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      u32 words[4];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        float sums[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int f = 2 * tile + i / 2;
          sums[i] = operands.of_a[2 * pair + i % 2].v[f] + of_b.v[f];
        }
        add_products(sums, operands.e1.words[tile], shared.columns[ROW_OF_PAIRS + 2 * four + pair][threadIdx.x % 32]);
        words[2 * pair] = pack_half(sums[0], sums[2]);
        words[2 * pair + 1] = pack_half(sums[1], sums[3]);
      }
      shared.of_pairs[threadIdx.x / 32][4 * four + at.q][tile][at.g] =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
  __syncwarp();
}

// A warp's part of a cell: all its triplets, for the warp's features.
__device__ __forceinline__ void visit(
    BackwardMemory& shared, const float* terms, const float* triplet, const float* attention, const Operands& operands,
    const Cell& cell, float factor, const Gradients& out, bool is_first) {
  const Lane at;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, feature = first_feature();
  terms += feature;
  stage_pairs(shared, terms, operands, cell);
  u32 ac[2][4][2 * HALVES], over_b[2][4][2 * HALVES];
#pragma unroll
  for (int half = 0; half < HALVES; ++half) {
    const Four &first = operands.of_c[half][0], &second = operands.of_c[half][1];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      const u32 start = shared.starts[a][at.q][half];
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        float sums[4] = {first.v[2 * tile], second.v[2 * tile], first.v[2 * tile + 1], second.v[2 * tile + 1]};
        add_products(sums, operands.e2.words[tile], shared.columns[ROW_OF_A + a * HALVES + half][lane]);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          ac[tile][a][2 * half + r] = pack_half(sums[2 * r], sums[2 * r + 1]);
          over_b[tile][a][2 * half + r] = start;
        }
      }
    }
  }
  float of_e3[2][SCALAR_STEPS][4] = {};
#if SHARES_E1
  shared.weighted_e1[threadIdx.x] = WeightedDirections(triplet, attention);
#else
  float of_e1[2][COLUMN_STEPS][4] = {};
#endif

  // What b has in shared memory; these move on with it.
  const u32 (*columns)[OPERAND_WORDS] = shared.columns[0] + lane;
  const u32 *flipped = shared.flipped[0][0] + lane, *packed = shared.packed[0][at.q];
  const uint4* of_pairs = shared.of_pairs[warp][0][0] + at.g;
  Share* of_row = shared.of_scalars[warp][0][at.g] + WORDS * at.q;

#pragma unroll 1
  for (int four = 0; four < FOURS; ++four) {
    float over_c[2][2][4];  // by tile and pair of nodes a; columns are b, twice each
#pragma unroll
    for (int i = 0; i < 16; ++i) over_c[i / 8][i / 4 % 2][i % 4] = 0.0f;

#pragma unroll 1
    for (int column = at.g; column > at.g - 8; column -= 2) {  // those of the next b are 0 and 1
      u32 d[4 * HALVES], starts[HALVES];
#pragma unroll
      for (int i = 0; i < 4 * HALVES; ++i) d[i] = packed[i];
#pragma unroll
      for (int half = 0; half < HALVES; ++half) starts[half] = packed[4 * HALVES + half];
      float of_scalars[SCALAR_STEPS][4] = {};
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        u32 bc[2 * HALVES], over_a[2 * HALVES];
#pragma unroll
        for (int half = 0; half < HALVES; ++half) {
          float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
          add_products(sums, operands.e3.words[tile], columns[32 * half]);
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            bc[2 * half + r] = pack_half(sums[2 * r], sums[2 * r + 1]);
            over_a[2 * half + r] = starts[half];
          }
        }
        const uint4 words = of_pairs[8 * tile];
        const u32 pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int a = 0; a < 4; ++a) {
          const u32 ones = column == a % 2 ? 0x3c003c00u : 0;
          const u32 low = twice_low(pairs[a]), high = twice_high(pairs[a]);
          u32 summands[2 * HALVES];
#pragma unroll
          for (int w = 0; w < 2 * HALVES; ++w) {
            const u32 mask = greater_half(add_half(ac[tile][a][w], bc[w]), negative_half(w % 2 ? high : low));
            // Sums of the summands would cost as many copies: the matrix units want theirs in registers of their own.
            over_b[tile][a][w] = multiply_add_half2(mask, d[a * HALVES + w / 2], over_b[tile][a][w]);
            over_a[w] = multiply_add_half2(mask, d[a * HALVES + w / 2], over_a[w]);
            summands[w] = multiply_half(mask, d[a * HALVES + w / 2]);
          }
          multiply_over_nodes(over_c[tile][a / 2], summands, ones, ones);
        }
#pragma unroll
        for (int step = 0; step < SCALAR_STEPS; ++step)
          multiply_over_nodes(
              of_e3[tile][step], over_a, flipped[step * FLIPPED],
              flipped[(step + SCALAR_STEPS * (HALVES - 1)) * FLIPPED]);
        add_to_scalars<HALVES>(of_scalars, over_a, operands.weighted_e3.words[tile]);
      }
      keep_scalars<HALVES>(of_row, of_scalars);
      columns += 32 * HALVES, flipped += FLIPPED * SCALAR_STEPS * HALVES, packed += 4 * (4 * HALVES + 4);
      of_pairs += 16, of_row += HALVES * 8 * (EVEN_P / 2 * WORDS);
    }

    // The sums over c are complete: for b = q, two nodes a each.
    const int row = ROW_OF_PAIRS + 2 * four;
#if SHARES_E1
    const WeightedDirections weighted_e1 = shared.weighted_e1[threadIdx.x];
#else
    const WeightedDirections weighted_e1(triplet, attention);
#endif
    float of_scalars[SCALAR_STEPS][4] = {};
    Four of_j;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      u32 operand[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* sums = over_c[tile][w / 2] + w % 2 * 2;
        operand[w] = pack_half(sums[0], sums[1]);
      }
#pragma unroll
      for (int step = 0; step < COLUMN_STEPS; ++step) {
        // Columns are scalars, then one for each a that sums over its pairs.
        const int column = 8 * step + at.g, of_a = column - P;
        u32 words[2];
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          words[pair] = of_a / 2 == pair && of_a >= 0 ? (of_a % 2 ? 0x3c000000u : 0x3c00u) : 0;
          if (column < P) words[pair] = shared.flipped[row + pair][min(step, SCALAR_STEPS - 1)][lane];
        }
#if SHARES_E1
        float4& place = shared.of_e1[tile][step][threadIdx.x];
        const float4 before = four ? place : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float sums[4] = {before.x, before.y, before.z, before.w};
        multiply_add_half(sums, operand, words[0], words[1], sums);
        place = make_float4(sums[0], sums[1], sums[2], sums[3]);
#else
        multiply_add_half(of_e1[tile][step], operand, words[0], words[1], of_e1[tile][step]);
#endif
      }
      add_to_scalars<2>(of_scalars, operand, weighted_e1.words[tile]);
#pragma unroll
      for (int r = 0; r < 2; ++r)
        of_j.v[2 * tile + r] = over_c[tile][0][2 * r] + over_c[tile][0][2 * r + 1] +
                               (over_c[tile][1][2 * r] + over_c[tile][1][2 * r + 1]);
    }
    keep_scalars<2>(shared.of_scalars[warp][row][at.g] + WORDS * at.q, of_scalars);
    __syncwarp();  // all have read what pairs of these b add; the gradients of x_j take its place
    ((float4*)shared.of_pairs[warp][4 * four])[lane] = make_float4(of_j.v[0], of_j.v[1], of_j.v[2], of_j.v[3]);
  }
  Four weight(attention + feature), to_weight;
#pragma unroll
  for (int f = 0; f < 4; ++f) weight.v[f] *= factor, to_weight.v[f] = 0.0f;
#pragma unroll
  for (int four = 0; four < FOURS; ++four) {
    const int j = cell.b + 4 * four + at.q;
    const Four of_j((const float*)((const float4*)shared.of_pairs[warp][4 * four] + lane));
    if (j < N) put(out.of_j + j * H + feature, of_j, weight, terms + j * TERMS + H, to_weight, cell.c || !is_first);
  }

  // The sums over b.
  float of_e2[2][SCALAR_STEPS][4] = {};
  const WeightedDirections weighted_e2(triplet + P * H, attention);
#pragma unroll
  for (int a = 0; a < 4; ++a) {
    const int row = ROW_OF_A + a * HALVES;
    float of_scalars[SCALAR_STEPS][4] = {};
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
      for (int step = 0; step < SCALAR_STEPS; ++step)
        multiply_over_nodes(
            of_e2[tile][step], over_b[tile][a], shared.flipped[row][step][lane],
            shared.flipped[row + HALVES - 1][step][lane]);
      add_to_scalars<HALVES>(of_scalars, over_b[tile][a], weighted_e2.words[tile]);
    }
    keep_scalars<HALVES>(shared.of_scalars[warp][row][at.g] + WORDS * at.q, of_scalars);
  }
#pragma unroll
  for (int half = 0; half < HALVES; ++half) {
    Four of_k[2];
#pragma unroll
    for (int f = 0; f < 4; ++f) {
      const int w = 2 * half + f % 2;
      const u32(&by_a)[4][2 * HALVES] = over_b[f / 2];
      const float2 total = unpack_half(add_half(add_half(by_a[0][w], by_a[1][w]), add_half(by_a[2][w], by_a[3][w])));
      of_k[0].v[f] = total.x, of_k[1].v[f] = total.y;
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int k = cell.c + 8 * half + 2 * at.q + e;
      if (k < N)
        put(out.of_k + k * H + feature, of_k[e], weight, terms + k * TERMS + 2 * H, to_weight, cell.b || !is_first);
    }
  }

  // Directions, and nodes i.
#if SHARES_E1
  float of_e1[2][COLUMN_STEPS][4];
#pragma unroll
  for (int i = 0; i < 2 * COLUMN_STEPS; ++i)
    *(float4*)of_e1[i / COLUMN_STEPS][i % COLUMN_STEPS] = shared.of_e1[i / COLUMN_STEPS][i % COLUMN_STEPS][threadIdx.x];
#endif
  const bool adds = cell.b || cell.c || !is_first;
#pragma unroll
  for (int step = 0; step < COLUMN_STEPS; ++step)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = 8 * step + 2 * at.q + e, i = cell.a + column - P;
#pragma unroll
      for (int kind = 0; kind < 3; ++kind) {
        if (kind && step >= SCALAR_STEPS) continue;
        Four sums;
#pragma unroll
        for (int f = 0; f < 4; ++f) {
          const int s = step < SCALAR_STEPS ? step : 0, r = f % 2 * 2 + e;
          const float(&tile)[SCALAR_STEPS][4] = kind == 1 ? of_e2[f / 2] : of_e3[f / 2];
          sums.v[f] = kind ? tile[s][r] : of_e1[f / 2][step][r];
        }
        const int place = (kind * P + column) * H + feature;
        if (column < P) put(out.small + place, sums, weight, triplet + place, to_weight, adds);
        else if (kind == 0 && column < P + 4 && i < N)
          put(out.of_i + i * H + feature, sums, weight, terms + i * TERMS, to_weight, cell.b || cell.c);
      }
    }
#pragma unroll
  for (int f = 0; f < 4; ++f) to_weight.v[f] = sum_over_quad(to_weight.v[f]);
  if (at.q == 0) {
    const float* of_warp = to_weight.v;
    float4 value = make_float4(factor * of_warp[0], factor * of_warp[1], factor * of_warp[2], factor * of_warp[3]);
    float* place = out.small + 3 * P * H + feature;
    if (adds) value = value + *(const float4*)place;
    store(place, value);
  }
}

#if defined(BUILD_attention_backward)
// Writes the gradients of x_i, parts of those of x_j and x_k, the scalars' (as of (i, j), as of (i, k), parts of those
// as of (j, k)), and parts of those of E1, E2, E3 and a; with ADDED those of what was added to logits.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) attention_backward(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* record,
#if FEATURES
    const float* features,
#endif
    const float* d_mixed,
#if ADDED
    const float* d_weights,
#endif
    TIME_PARAMETERS float* d_i, float* d_j, float* d_k, float* d_scalars, float* small
#if ADDED
    , float* d_added
#endif
) {
  const Sample at(PARTS);
  const int part = blockIdx.x % PARTS;
  BackwardMemory& shared = *(BackwardMemory*)memory;
  terms += at.at(TIMED_terms, NOW) * N * TERMS;
  scalars += at.at(TIMED_scalars, NOW) * N * N * P;
  triplet += at.seed * 3 * P * H;
  attention += at.seed * H;
  record += at.at(TIMED_record, NOW) * N * N * RECORD;
  d_mixed += at.index * N * N * GRADIENTS;
#if FEATURES
  features += at.at(TIMED_features, NOW) * N * N * FEATURES;
#endif
#if ADDED
  d_weights += at.index * N * N * N;
  d_added += at.index * N * N * N;
#else
  const float* d_weights = 0;
  float* d_added = 0;
#endif
  d_scalars += at.index * (2 + PARTS) * N * N * P;
  Gradients out;
  out.of_i = d_i + at.index * N * H;
  out.of_j = d_j + (at.index * PARTS + part) * N * H;
  out.of_k = d_k + (at.index * PARTS + part) * N * H;
  out.of_scalars[0] = d_scalars;
  out.of_scalars[1] = d_scalars + N * N * P;
  out.of_scalars[2] = d_scalars + (long long)(2 + part) * N * N * P;
  out.small = small + (at.at(TIMED_small, NOW) * PARTS + part) * SMALL * H;
  const bool has_ended = HAS_ENDED(at.index);
  if (has_ended) {
    write_zeros(out.of_j, N * H, THREADS);
    write_zeros(out.of_k, N * H, THREADS);
    write_zeros(out.of_scalars[2], N * N * P, THREADS);
    write_zeros(out.small, SMALL * H, THREADS);
  }
  Cell cell;
#pragma unroll 1
  for (cell.a = 4 * part; cell.a < N; cell.a += 4 * PARTS) {
    if (has_ended) {
      const int nodes = min(N - cell.a, 4);
      write_zeros(out.of_i + cell.a * H, nodes * H, THREADS);
      for (int kind = 0; kind < 2; ++kind) write_zeros(out.of_scalars[kind] + cell.a * N * P, nodes * N * P, THREADS);
      if (ADDED) write_zeros(d_added + cell.a * N * (RECORD - 1), nodes * N * N, THREADS);
      continue;
    }
#pragma unroll 1
    for (cell.b = 0; cell.b < N; cell.b += GROUP)
#pragma unroll 1
      for (cell.c = 0; cell.c < N; cell.c += WIDTH) {
        const bool is_first = cell.a == 4 * part;
        __syncthreads();  // all have read what was there
        const Operands operands(terms, triplet, attention, cell);
#if FEATURES
        stage_expected(shared, features, d_mixed, record, d_weights, cell);
        __syncthreads();
#endif
        stage_logits(shared, scalars, record, d_mixed, d_weights, d_added, cell);
        stage_scalars(shared, scalars, cell);
        __syncthreads();
        const float factor = pack_logits(shared);
        __syncthreads();
        visit(shared, terms, triplet, attention, operands, cell, factor, out, is_first);
        __syncthreads();
        finish_scalars(shared, record, d_mixed, cell, factor, out, is_first);
      }
  }
}
#endif
