// Copies to shared memory that are waited for later, and products of what they bring in TF32.

#ifndef EMULATED
template <int BYTES, typename T>
__device__ __forceinline__ void copy_ahead(T* to, const T* from, bool valid) {
  const u32 target = (u32)__cvta_generic_to_shared(to);
  const int size = valid ? BYTES : 0;  // the rest is filled with zeros
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(size));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(from), "r"(size));
}
__device__ __forceinline__ void end_of_stage() { asm volatile("cp.async.commit_group;"); }
template <int PENDING>
__device__ __forceinline__ void wait_for_stage() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING)); }

// Halves away from zero. The matrix units leave out the last 13 bits; the instruction for it is four on Hopper.
__device__ __forceinline__ u32 to_tf32(float value) { return __float_as_uint(value) + 0x1000u; }
__device__ __forceinline__ void multiply_accumulate_tf32(float c[4], const u32 a[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void load_matrices_transposed(u32 (&a)[4], const bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"((u32)__cvta_generic_to_shared(row)));
}
#endif
