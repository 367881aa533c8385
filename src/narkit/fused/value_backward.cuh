// The gradients of what edges add to messages, `mixed V + v`, on the matrix units: part of the backward kernel in
// messages.cu. Factors are split into two numbers of bfloat16 each, and all products but those of both second parts are
// summed, which leaves an error of a few millionths.

#define VALUE_STEPS ((P + 8) / 8)  // of eight rows of small gradients: V, v

// This lane's part of V, from scalar `first_p` on, as a right operand, with columns for scalars.
template <int STEPS>
struct Directions {
  float2 numbers[STEPS][2];
  __device__ __forceinline__ void read(const float* value, int first_p) {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int p = first_p + 8 * step + g;
        numbers[step][n] = make_float2(0.0f, 0.0f);
        if (p < P) numbers[step][n] = *(const float2*)(value + p * H + Backward::column(n));
      }
  }
};

// A row tile of the gradient of `mixed V + v` as a left operand, whose columns are this warp's.
struct OperandsOfSums {
  Backward::Sums& sums;
  __device__ __forceinline__ void operator()(int m, u32 (&high)[4], u32 (&low)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float* v = sums[m][e / 2] + 2 * (e % 2);
      const Split both(v[0], v[1]);
      high[e] = both.high, low[e] = both.low;
    }
  }
};

// The same for all row tiles, made once for those who ask several times.
struct SplitSums {
  u32 all_high[Backward::MT][4], all_low[Backward::MT][4];
  __device__ __forceinline__ SplitSums(Backward::Sums& sums) {
#pragma unroll
    for (int m = 0; m < Backward::MT; ++m) OperandsOfSums{sums}(m, all_high[m], all_low[m]);
  }
  __device__ __forceinline__ void operator()(int m, u32 (&high)[4], u32 (&low)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) high[e] = all_high[m][e], low[e] = all_low[m][e];
  }
};

// From the gradient of `mixed V + v`, which this warp has for its columns: the gradients of V and v, to `small`, and a
// share in those of the mixed scalars, to `of_warps`; for 8 STEPS scalars from `first_p` on, and 8 ROW_STEPS rows of V, v.
template <int STEPS, int ROW_STEPS, typename F>
__device__ __forceinline__ void pull_through_value(
    const F& operand_of, const Directions<STEPS>& directions, const float* mixed, int first_p, float* of_warps,
    float* small) {
  static_assert(Backward::NT == 2, "the columns of a warp are the inputs of one step of the matrix units");
  const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  float of_value[ROW_STEPS][2][4] = {};
#pragma unroll
  for (int m = 0; m < Backward::MT; ++m) {
    u32 high[4], low[4];
    operand_of(m, high, low);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      const float2* d = directions.numbers[step];
      const Split first(d[0].x, d[0].y), second(d[1].x, d[1].y);
      float shares[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      multiply_accumulate(shares, low, first.high, second.high);
      multiply_accumulate(shares, high, first.low, second.low);
      multiply_accumulate(shares, high, first.high, second.high);
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *(float2*)(of_warps + (Backward::n_warp() * ROWS + 16 * m + 8 * half + g) * SHARES + 8 * step + 2 * q) =
            make_float2(shares[2 * half], shares[2 * half + 1]);
    }
    // With rows as inputs: scalars in the rows g, what their rounding leaves in the rows g + 8.
#pragma unroll
    for (int e = 0; e < 4; ++e) high[e] = transposed(high[e]), low[e] = transposed(low[e]);
#pragma unroll
    for (int step = 0; step < ROW_STEPS; ++step) {
      const int p = first_p + 8 * step + g;
      u32 scalars[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* s = mixed + (16 * m + 8 * half + 2 * q) * P + p;
        const Split both(p < P ? s[0] : p == P ? 1.0f : 0.0f, p < P ? s[P] : p == P ? 1.0f : 0.0f);
        scalars[2 * half] = both.high, scalars[2 * half + 1] = both.low;
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        multiply_accumulate(of_value[step][n], scalars, low[2 * n], low[2 * n + 1]);
        multiply_accumulate(of_value[step][n], scalars, high[2 * n], high[2 * n + 1]);
      }
    }
  }
#pragma unroll
  for (int step = 0; step < ROW_STEPS; ++step)
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const float* c = of_value[step][n];
      const int p = first_p + 8 * step + g;
      if (p <= P) *(float2*)(small + p * H + Backward::column(n)) = make_float2(c[0] + c[2], c[1] + c[3]);
    }
}
