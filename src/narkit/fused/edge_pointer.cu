// How strongly the edge from i to j points to node k: sum_h w_h max(a_i + b_j + e_ij, d_k)_h + bias, where e_ij is
// D s_ij + c, or with DENSE given.
//
// Compiled for one number of nodes N, of scalars per edge P (at least 1) and of samples SAMPLES. A node's a, b and d
// stand in a row of WIDTH floats, at FIRST, SECOND and THIRD; rows need no alignment. blockIdx.z is the seed. Nodes k
// are taken TARGETS (at most 16) at a time, and their values stay in registers.

#define EDGE_SIZE (DENSE ? H : P)
#define PADDED ((TARGETS + 3) / 4 * 4)
#define SCALARS ((P + 3) / 4 * 4)
#define ROW 144        // floats between rows of features in shared memory: neighbours begin 16 banks apart
#define SMALL (P + 3)  // rows of small gradients: D, c, w, and summands of the bias

#if defined(BUILD_edge_pointer_forward)
// Lanes l of a warp with the same l / 4 have the same edges, two per lane, and share the features: lane l takes four
// neighbouring ones of every 16. A block has TILE_I x TILE_J edges, at most 64.
#define TILES_J ((N + TILE_J - 1) / TILE_J)
#define TILES ((N + TILE_I - 1) / TILE_I * TILES_J)
#define EDGES 2       // per lane
#define MAX_EDGES 64  // per block

// Sums COUNT values over four lanes; afterwards lane l has those of values l % 4 * COUNT / 4 and following.
template <int COUNT>
__device__ __forceinline__ void sum_over_quads(float (&values)[COUNT]) {
#pragma unroll
  for (int bit = 2, half = COUNT / 2; bit >= 1; bit /= 2, half /= 2) {
    const bool upper = threadIdx.x & bit;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float give = upper ? values[i] : values[i + half];
      const float keep = upper ? values[i + half] : values[i];
      values[i] = keep + __shfl_xor_sync(0xffffffff, give, bit);
    }
  }
}

__device__ __forceinline__ float dot_max(float4 w, float4 a, float4 b, float start) {
  start = fmaf(w.x, fmaxf(a.x, b.x), start);
  start = fmaf(w.y, fmaxf(a.y, b.y), start);
  start = fmaf(w.z, fmaxf(a.z, b.z), start);
  return fmaf(w.w, fmaxf(a.w, b.w), start);
}

extern "C" __global__ void __launch_bounds__(THREADS, 5) edge_pointer_forward(
    const float* __restrict__ nodes, const float* __restrict__ edges, const float* directions, const float* offset,
    const float* score, const float* bias, TIME_PARAMETERS float* logits) {
  const Sample sample(TILES);
  const int tile = blockIdx.x % TILES, first_k = blockIdx.y * TARGETS;
  const int first_i = tile / TILES_J * TILE_I, first_j = tile % TILES_J * TILE_J;
  nodes += sample.at(TIMED_nodes, NOW) * N * WIDTH;
  edges += sample.at(TIMED_edges, NOW) * N * N * EDGE_SIZE;
  logits += sample.at(TIMED_logits, NOW) * N * N * N;

  float* first_rows = (float*)memory;
  float* second_rows = first_rows + TILE_I * ROW;
  float* third_rows = second_rows + TILE_J * ROW;
  float* weights = third_rows + TARGETS * H;  // w, then D
  // Per edge of the block, P times. Volatile, or they would be kept in registers that the sums need more urgently.
  volatile float* scalars = weights + (1 + P) * H;
  {
    const int h = threadIdx.x;
    const float added = DENSE ? 0.0f : offset[sample.seed * H + h];
#pragma unroll
    for (int r = 0; r < TILE_I; ++r)
      first_rows[r * ROW + h] = nodes[last(first_i + r) * WIDTH + FIRST + h] + added;
#pragma unroll
    for (int r = 0; r < TILE_J; ++r)
      second_rows[r * ROW + h] = nodes[last(first_j + r) * WIDTH + SECOND + h];
#pragma unroll
    for (int r = 0; r < TARGETS; ++r)
      third_rows[r * H + h] = nodes[last(first_k + r) * WIDTH + THIRD + h];
    weights[h] = score[sample.seed * H + h];
    if (!DENSE) {
#pragma unroll
      for (int p = 0; p < P; ++p) weights[(1 + p) * H + h] = directions[(sample.seed * P + p) * H + h];
#pragma unroll 2
      for (int e = threadIdx.x; e < TILE_I * TILE_J * P; e += THREADS) {
        const int i = last(first_i + e / P / TILE_J), j = last(first_j + e / P % TILE_J);
        scalars[e % P * MAX_EDGES + e / P] = edges[((long long)i * N + j) * P + e % P];
      }
    }
  }
  __syncthreads();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane % 4;
  if (8 * EDGES * warp >= TILE_I * TILE_J) return;
  int mine[EDGES], row[EDGES], column[EDGES], edge[EDGES];
  float sums[EDGES][PADDED];
#pragma unroll
  for (int m = 0; m < EDGES; ++m) {
    mine[m] = min(8 * (EDGES * warp + m) + lane / 4, TILE_I * TILE_J - 1);
    row[m] = mine[m] / TILE_J;
    column[m] = mine[m] % TILE_J;
    edge[m] = last(first_i + row[m]) * N + last(first_j + column[m]);
#pragma unroll
    for (int k = 0; k < PADDED; ++k) sums[m][k] = 0.0f;
  }
#pragma unroll 1
  for (int c = 0; c < H / 16; ++c) {
    const int at = 16 * c + 4 * part;
    const float4 w = *(const float4*)(weights + at);
    float4 from[EDGES];
#pragma unroll
    for (int m = 0; m < EDGES; ++m) {
      from[m] = *(const float4*)(first_rows + row[m] * ROW + at) + *(const float4*)(second_rows + column[m] * ROW + at);
      if (DENSE) from[m] = from[m] + *(const float4*)(edges + (long long)edge[m] * H + at);
    }
    if (!DENSE) {
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const float4 direction = *(const float4*)(weights + (1 + p) * H + at);
#pragma unroll
        for (int m = 0; m < EDGES; ++m)
          from[m] = axpy(scalars[p * MAX_EDGES + mine[m]], direction, from[m]);
      }
    }
#pragma unroll
    for (int k = 0; k < TARGETS; ++k) {
      const float4 to = *(const float4*)(third_rows + k * H + at);
#pragma unroll
      for (int m = 0; m < EDGES; ++m) sums[m][k] = dot_max(w, from[m], to, sums[m][k]);
    }
  }
#pragma unroll
  for (int m = 0; m < EDGES; ++m) {
    sum_over_quads<PADDED>(sums[m]);
    const bool valid = 8 * (EDGES * warp + m) + lane / 4 < TILE_I * TILE_J && first_i + row[m] < N &&
                       first_j + column[m] < N;
#pragma unroll
    for (int e = 0; e < PADDED / 4; ++e) {
      const int k = part * (PADDED / 4) + e;
      if (valid && k < TARGETS && first_k + k < N)
        logits[(long long)edge[m] * N + first_k + k] = sums[m][e] + bias[sample.seed];
    }
  }
}
#endif

#if defined(BUILD_edge_pointer_backward)
// With m_ijk = 1 where a_i + b_j + e_ij > d_k, 1/2 where they are equal and 0 else, and g the gradient of the logits:
//   of the edge's side  w sum_k g_ijk m_ijk
//   of d_k              w sum_ij g_ijk (1 - m_ijk)
//   of w                sum_ij (a_i + b_j + e_ij) sum_k g_ijk m_ijk + sum_k d_k sum_ij g_ijk (1 - m_ijk)
// so that all of it follows from two sums per feature, one over k and one over ij.
//
// A thread has one feature, a block ROWS nodes i of a sample. d_second and d_third come per block, to be summed. What a
// thread or a block has written it adds to when it comes back with further nodes.
#define STRIP 4    // nodes i at a time
#define COLUMNS 8  // nodes j at a time
#define TILE (STRIP * COLUMNS)
#define PARTS (THREADS / 16)

__device__ __forceinline__ float element(float4 four, int which) {
  return which == 0 ? four.x : which == 1 ? four.y : which == 2 ? four.z : four.w;
}

__device__ __forceinline__ void put(float* where, float value, bool is_first) {
  *where = is_first ? value : *where + value;
}

extern "C" __global__ void __launch_bounds__(THREADS, 5) edge_pointer_backward(
    const float* __restrict__ nodes, const float* __restrict__ edges, const float* directions, const float* offset,
    const float* score, const float* __restrict__ d_logits, TIME_PARAMETERS float* d_first, float* d_second,
    float* d_third, float* d_edges, float* small) {
  const int seed = blockIdx.z, sample = blockIdx.x / GROUPS, group = blockIdx.x % GROUPS, h = threadIdx.x;
  const long long index = (long long)seed * SAMPLES + sample;
  nodes += ((long long)row_of(seed, TIMED_nodes, NOW) * SAMPLES + sample) * N * WIDTH + h;
  edges += ((long long)row_of(seed, TIMED_edges, NOW) * SAMPLES + sample) * N * N * EDGE_SIZE;
  d_logits += ((long long)row_of(seed, TIMED_logits, NOW) * SAMPLES + sample) * N * N * N;
  d_second += (index * GROUPS + group) * N * H + h;
  d_edges += index * N * N * EDGE_SIZE;

  float* gradients = (float*)memory;          // of logits: per edge of the tile, per k
  float* totals = gradients + TILE * PADDED;  // 16 summands for each of PARTS, then the sums
  float* scalars = totals + (PARTS + 1) * 16;
  float* results = scalars + TILE * SCALARS;  // per edge, per feature
  float* shared_directions = results + TILE * ROW;

  const float weight = score[seed * H + h], added = DENSE ? 0.0f : offset[seed * H + h];
  float direction[P], of_directions[P] = {}, of_offset = 0.0f, of_score = 0.0f, of_bias = 0.0f;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    direction[p] = DENSE ? 0.0f : directions[(seed * P + p) * H + h];
    if (!DENSE) shared_directions[p * H + h] = direction[p];
  }

#pragma unroll 1
  for (int first_k = 0; first_k < N; first_k += TARGETS) {
    float to[TARGETS], won[TARGETS] = {}, total = 0.0f;  // won: sums over ij of g m
#pragma unroll
    for (int k = 0; k < TARGETS; ++k) to[k] = nodes[last(first_k + k) * WIDTH + THIRD];
    const int last_i = min(group * ROWS + ROWS, N);
#pragma unroll 1
    for (int first_i = group * ROWS; first_i < last_i; first_i += STRIP) {
      float row[STRIP], of_row[STRIP] = {};
#pragma unroll
      for (int r = 0; r < STRIP; ++r) row[r] = nodes[last(first_i + r) * WIDTH + FIRST] + added;
#pragma unroll 1
      for (int first_j = 0; first_j < N; first_j += COLUMNS) {
        __syncthreads();
#pragma unroll 4
        for (int e = threadIdx.x; e < TILE * PADDED; e += THREADS) {
          const int k = e % PADDED, i = first_i + e / PADDED / COLUMNS, j = first_j + e / PADDED % COLUMNS;
          const bool valid = k < TARGETS && first_k + k < N && i < last_i && j < N;
          gradients[e] = valid ? d_logits[((long long)i * N + j) * N + first_k + k] : 0.0f;
        }
        if (!DENSE) {
#pragma unroll 2
          for (int e = threadIdx.x; e < TILE * P; e += THREADS) {
            const int i = first_i + e / P / COLUMNS, j = first_j + e / P % COLUMNS;
            scalars[e / P * SCALARS + e % P] = i < last_i && j < N ? edges[((long long)i * N + j) * P + e % P] : 0.0f;
          }
        }
        __syncthreads();
        if (threadIdx.x % 16 < PADDED) {
#pragma unroll
          for (int e = 0; e < TILE / PARTS; ++e)
            total += gradients[(threadIdx.x / 16 * (TILE / PARTS) + e) * PADDED + threadIdx.x % 16];
        }
#pragma unroll 1
        for (int c = 0; c < COLUMNS; ++c) {
          const int j = first_j + c;
          if (j >= N) break;
          const float column = nodes[j * WIDTH + SECOND];
          float of_column = 0.0f;
#pragma unroll
          for (int r = 0; r < STRIP; ++r) {
            if (first_i + r >= last_i) break;
            const int mine = r * COLUMNS + c;
            const long long edge = (long long)(first_i + r) * N + j;
            float from = row[r] + column, sum = 0.0f;
            float4 scalar[SCALARS / 4];
            if (DENSE) {
              from += edges[edge * H + h];
            } else {
#pragma unroll
              for (int q = 0; q < SCALARS / 4; ++q) scalar[q] = *(const float4*)(scalars + mine * SCALARS + 4 * q);
#pragma unroll
              for (int p = 0; p < P; ++p) from = fmaf(element(scalar[p / 4], p % 4), direction[p], from);
            }
#pragma unroll
            for (int k = 0; k < PADDED; k += 4) {
              const float4 g = *(const float4*)(gradients + mine * PADDED + k);
#pragma unroll
              for (int q = 0; q < 4; ++q) {
                if (k + q >= TARGETS) break;
                const float own = share(from, to[k + q]);
                sum = fmaf(element(g, q), own, sum);
                won[k + q] = fmaf(element(g, q), own, won[k + q]);
              }
            }
            of_score = fmaf(from, sum, of_score);
            const float gradient = weight * sum;
            of_row[r] += gradient;
            of_column += gradient;
            if (DENSE) {
              put(d_edges + edge * H + h, gradient, first_k == 0);
            } else {
              results[mine * ROW + h] = gradient;
#pragma unroll
              for (int p = 0; p < P; ++p)
                of_directions[p] = fmaf(element(scalar[p / 4], p % 4), gradient, of_directions[p]);
            }
          }
          put(d_second + j * H, of_column, first_k == 0 && first_i == group * ROWS);
        }
        if (!DENSE) {  // four threads per edge, as there are THREADS / 4 edges
          __syncthreads();
          const int mine = threadIdx.x / 4, part = threadIdx.x % 4;
          const int i = first_i + mine / COLUMNS, j = first_j + mine % COLUMNS;
          const bool valid = i < last_i && j < N;
          float of_scalars[P] = {};
          if (valid) {
#pragma unroll 1
            for (int at = 4 * part; at < H; at += 16) {
              const float4 gradient = *(const float4*)(results + mine * ROW + at);
#pragma unroll
              for (int p = 0; p < P; ++p)
                of_scalars[p] = dot(gradient, *(const float4*)(shared_directions + p * H + at), of_scalars[p]);
            }
          }
#pragma unroll
          for (int p = 0; p < P; ++p) {
            of_scalars[p] = sum_over_quad(of_scalars[p]);
            if (valid && p % 4 == part) put(d_edges + ((long long)i * N + j) * P + p, of_scalars[p], first_k == 0);
          }
        }
      }
#pragma unroll
      for (int r = 0; r < STRIP; ++r) {
        if (first_i + r >= last_i) break;
        put(d_first + (index * N + first_i + r) * H + h, of_row[r], first_k == 0);
        of_offset += of_row[r];
      }
    }
    of_bias += total;
    totals[16 + threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x < 16) {
      float sum = 0.0f;
#pragma unroll
      for (int part = 1; part <= PARTS; ++part) sum += totals[16 * part + threadIdx.x];
      totals[threadIdx.x] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TARGETS; ++k) {
      const float lost = totals[k] - won[k];
      of_score = fmaf(to[k], lost, of_score);
      if (first_k + k < N) d_third[((index * GROUPS + group) * N + first_k + k) * H + h] = weight * lost;
    }
  }
  small += (((long long)row_of(seed, TIMED_small, NOW) * SAMPLES + sample) * GROUPS + group) * SMALL * H + h;
#pragma unroll
  for (int p = 0; p < P; ++p) small[p * H] = of_directions[p];
  small[P * H] = of_offset;
  small[(P + 1) * H] = of_score;
  small[(P + 2) * H] = of_bias;
}
#endif
