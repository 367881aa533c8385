// Numbers of half precision, two in a word, and the matrix units on them.

#ifndef EMULATED
// Numbers beyond the largest become that.
__device__ __forceinline__ u32 pack_half(float low, float high) {
  u32 packed;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ float2 unpack_half(u32 packed) {
  float2 both;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
      : "=f"(both.x), "=f"(both.y)
      : "r"(packed));
  return both;
}

__device__ __forceinline__ u32 add_half(u32 a, u32 b) {
  u32 sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

__device__ __forceinline__ u32 negative_half(u32 a) {
  u32 negative;
  asm("neg.f16x2 %0, %1;" : "=r"(negative) : "r"(a));
  return negative;
}

__device__ __forceinline__ u32 multiply_half(u32 a, u32 b) {
  u32 product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// a b + c, rounded once
__device__ __forceinline__ u32 multiply_add_half2(u32 a, u32 b, u32 c) {
  u32 sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}

// max(a + b, 0)
__device__ __forceinline__ u32 add_rectified_half(u32 a, u32 b) {
  u32 sum;
  asm("fma.rn.relu.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3c003c00u), "r"(b));
  return sum;
}

// 1 where a > b, else 0
__device__ __forceinline__ u32 greater_half(u32 a, u32 b) {
  u32 result;
  asm("set.gt.f16x2.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// Both halves of a word with its first, or its second number.
__device__ __forceinline__ u32 twice_low(u32 packed) {
  u32 result;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {low, low};}" : "=r"(result) : "r"(packed));
  return result;
}

__device__ __forceinline__ u32 twice_high(u32 packed) {
  u32 result;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, high};}" : "=r"(result) : "r"(packed));
  return result;
}

// d = a b + c
__device__ __forceinline__ void multiply_add_half(float* d, const u32* a, u32 b0, u32 b1, const float* c) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// The same with half as many inputs: m16n8k8.
__device__ __forceinline__ void multiply_add_half_8(float* d, const u32* a, u32 b, const float* c) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// An 8 x 8 matrix, of which lane (g, q) holds numbers 2 q and 2 q + 1 of row g, transposed.
__device__ __forceinline__ u32 transposed(u32 row) {
  u32 column;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column) : "r"(row));
  return column;
}
#endif
